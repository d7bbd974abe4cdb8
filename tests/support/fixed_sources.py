"""Sources that only offer something, for tests of what is done with an offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gaia_bridge.contract import ChangeListener, ClientRequest, Source
from gaia_bridge.model import Change, ServerFeatures, ServerInfo, SourceKind, SourceState, SourceStatus
from gaia_bridge.text.json_types import JSON
from tests.support.agents import tool

__all__ = ["FixedSource"]


class FixedSource:
    """A source that only offers."""

    def __init__(self, name: str, *tools: str, kind: SourceKind = SourceKind.AGENT, **offered: Any) -> None:
        self.name = name
        self.kind = kind
        self.status = SourceStatus(SourceState.READY)
        self.refreshed = 0
        self.listeners: list[ChangeListener] = []
        self.features = self.offering(*tools, **offered)

    def offering(
        self,
        *tools: str | JSON,
        prompts: tuple[str, ...] = (),
        resources: tuple[str, ...] = (),
        templates: tuple[str, ...] = (),
        instructions: str | None = None,
        reads: bool = False,
        extras: JSON | None = None,
    ) -> ServerFeatures:
        capabilities = {"tools"} if self.kind is SourceKind.AGENT or tools else set[str]()
        if prompts:
            capabilities.add("prompts")
        if resources or templates or reads:
            capabilities.add("resources")
        return ServerFeatures(
            ServerInfo(f"I am {self.name}", "1", instructions=instructions),
            tools=tuple(tool(item) if isinstance(item, str) else item for item in tools),
            prompts=tuple({"name": name} for name in prompts),
            resources=tuple({"uri": uri, "name": f"{uri} of {self.name}"} for uri in resources),
            templates=tuple({"uriTemplate": uri, "name": uri} for uri in templates),
            capabilities=frozenset(capabilities),
            extras=extras or {},
        )

    def change(self, change: Change, features: ServerFeatures | None = None) -> None:
        self.features = features or self.features
        for listener in list(self.listeners):
            listener(change)

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener) if listener in self.listeners else None

    async def settle(self, *, listed_once: bool = False) -> None:
        pass

    async def learn(self) -> None:
        pass

    async def seek(self) -> None:
        await self.refresh()

    is_due = True

    async def refresh(self) -> None:
        self.refreshed += 1

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        raise AssertionError("only the view is under test")

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        raise AssertionError("only the view is under test")

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        raise AssertionError("only the view is under test")

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        raise AssertionError("nobody forwards")

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        raise AssertionError("only the view is under test")

    async def subscribe(self, uri: str) -> None:
        raise AssertionError("only the view is under test")

    async def unsubscribe(self, uri: str) -> None:
        raise AssertionError("only the view is under test")


_source: type[Source] = FixedSource
