"""A client for tests: in memory, in one era, with a user and a model, and with a memory for all that it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import anyio

from gaia_bridge.bridge.embedding.client import Client, ToolResult
from gaia_bridge.bridge.testing.doubles import FakeModel, FakeUser
from gaia_bridge.model import Progress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON

_PATIENCE: Final = 5.0
"""Seconds in which something that an agent announces has come: it is a matter of milliseconds."""


class RecordingClient(Client):
    """A `Client` that remembers what it hears. Made by `connected`.

    Args:
        target: As `Client` takes it.
        user: Answers forms; nobody is there if `None`.
        model: Answers for a model; there is none if `None`.
        **options: As `Client` takes them.

    Attributes:
        user: Who answers forms, with what was asked.
        model: What answers for a model, with what was asked.
        changes: The notifications so far: method and parameters.
        log: The log messages so far, all levels: `level`, `data` and perhaps `logger`.
        progress: The progress reports of all calls so far.
    """

    def __init__(
        self, target: object, *, user: FakeUser | None = None, model: FakeModel | None = None, **options: Any
    ) -> None:
        self.user = user
        self.model = model
        self.changes: list[tuple[str, JSON]] = []
        self.log: list[JSON] = []
        self.progress: list[Progress] = []
        self._news = anyio.Event()
        super().__init__(
            target, on_elicitation=user, on_sampling=model, on_log=self._logged, on_change=self._changed, **options
        )

    async def __aenter__(self) -> RecordingClient:
        await super().__aenter__()
        await self.set_log_level("debug")
        return self

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        on_progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the server, which is told
        raise_on_error: bool = True,
        **more: Any,
    ) -> ToolResult:
        """Call a tool, as `Client.call_tool` does; progress is recorded, unless it is received."""
        return await super().call_tool(
            name,
            arguments,
            on_progress=on_progress or self.progress.append,
            timeout=timeout,
            raise_on_error=raise_on_error,
            **more,
        )

    async def heard(self, method: str) -> JSON:
        """Wait until a notification has come, unless one came before.

        Args:
            method: Such as `notifications/tools/list_changed`.

        Returns:
            The parameters of the first one, which is forgotten: the next call waits for the next.

        Raises:
            TimeoutError: None came; says what came instead.
        """
        with anyio.move_on_after(_PATIENCE):
            while True:
                for number, (came, params) in enumerate(self.changes):
                    if came == method:
                        del self.changes[number]
                        return params
                self._news = anyio.Event()
                await self._news.wait()
        came_instead = ", ".join(came for came, _ in self.changes) or "nothing"
        raise TimeoutError(f"no {method} came within {_PATIENCE:g} s, but {came_instead}")

    def _changed(self, method: str, params: JSON) -> None:
        self.changes.append((method, params))
        self._news.set()

    def _logged(self, params: JSON) -> None:
        self.log.append(params)


def connected(
    target: object,
    *,
    era: Literal["legacy", "modern"] | None = None,
    user: FakeUser | None = None,
    model: FakeModel | None = None,
    roots: Sequence[str] = (),
    endpoint: str | None = None,
    limits: UpstreamLimits | None = None,
) -> RecordingClient:
    """A client for a test: `async with connected(MyAgent(), user=FakeUser(True)) as client`.

    Args:
        target: As `Client` takes it: an agent, a `Bridge`, a file, a command, a URL.
        era: The era to speak; by default the server's best. The fixture `mcp_client` runs a test in both.
        user: Answers forms; nobody is there if `None`.
        model: Answers for a model; there is none if `None`.
        roots: Folders, as URIs, that the server may look at.
        endpoint: As `Client` takes it.
        limits: Deadlines and bounds.
    """
    return RecordingClient(target, era=era, user=user, model=model, roots=roots, endpoint=endpoint, limits=limits)
