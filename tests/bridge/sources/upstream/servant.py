"""A server in this process that does what it is told, reached as often as one likes, for tests in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gaia_bridge.client.transport import Link, Receiver, SessionExpiredError, UpstreamError
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Remembered
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import ScriptedTransport, Wire, initialized

__all__ = ["CAPABILITIES", "MemoryCache", "Servant", "tools_named"]

CAPABILITIES: JSON = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


def tools_named(*names: str) -> list[Any]:
    """Tools that take anything."""
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


class Servant:
    """A server, and the transport that reaches it. The name of a tool says what calling it does.

    Args:
        tools: What it lists.
    """

    def __init__(self, *tools: str) -> None:
        self.tools = tools_named(*tools or ("echo", "hang", "crash", "expire"))
        self.capabilities = CAPABILITIES
        self.introduction: JSON = {}
        """What it says in its greeting beside them."""
        self.failures: list[UpstreamError] = []
        """What the next attempts to connect end with."""
        self.slow = 0.0
        """Seconds that it takes to start."""
        self.more: JSON = {}
        """What it says of its tools beside them."""
        self.list_delay = 0.0
        """Seconds that it takes to list them."""
        self.mute = False
        """Whether it answers nothing any more, not even a ping."""
        self.structured: JSON | None = None
        """The structured content of every answer."""
        self.resources: list[JSON] = []
        self.subscribed: list[str] = []
        """Every URI that it was asked to tell of, and told not to any more, with a minus."""
        self.asked: list[str] = []
        """Every request that it was sent, and of tools their names."""
        self.wires: list[Wire] = []

    @property
    def wire(self) -> Wire:
        """The last connection."""
        return self.wires[-1]

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link; see `Transport.connect`."""
        if self.failures:
            raise self.failures.pop(0)
        transport = ScriptedTransport(self._serve)
        async with transport.connect(receiver) as link:
            self.wires.append(transport.wires[0])
            yield link

    async def _serve(self, wire: Wire) -> None:
        await anyio.sleep(self.slow)
        await initialized(wire, self.capabilities, **self.introduction)
        while True:
            request = await wire.next()
            if "id" in request and "method" in request:
                if request["method"] == "tools/list":
                    await anyio.sleep(self.list_delay)
                self._answer(wire, request)

    def _answer(self, wire: Wire, request: JSON) -> None:
        method, params = request["method"], request.get("params", {})
        self.asked.append(params["name"] if method == "tools/call" else method)
        if self.mute:
            return
        match method:
            case "tools/list":
                wire.answer(request, {"tools": list(self.tools), **self.more})
            case "resources/list":
                wire.answer(request, {"resources": self.resources})
            case "tools/call":
                self._call(wire, request, params["name"])
            case "resources/subscribe":
                self.subscribed.append(params["uri"])
                wire.answer(request, {})
            case "resources/unsubscribe":
                self.subscribed.append(f"-{params['uri']}")
                wire.answer(request, {})
            case "ping":
                wire.answer(request, {})
            case _:
                wire.refuse(request)

    def _call(self, wire: Wire, request: JSON, name: str) -> None:
        match name:
            case "hang":
                return
            case "crash":
                wire.end("exited with status 5")
            case "expire":
                wire.fail(request, SessionExpiredError())
            case "unavailable":
                wire.fail(request, UpstreamError("answered with HTTP 503"))
            case _:
                answer: JSON = {"content": [{"type": "text", "text": name}]}
                wire.answer(request, answer | ({"structuredContent": self.structured} if self.structured else {}))


class MemoryCache(FeatureCache):
    """Remembers until the end of the test, without files and threads."""

    def __init__(self) -> None:
        super().__init__(None)
        self.entries: dict[str, Remembered] = {}

    async def load(self, fingerprint: str, name: str) -> Remembered | None:
        return self.entries.get(fingerprint)

    async def store(self, fingerprint: str, remembered: Remembered, secrets: tuple[str, ...] = ()) -> None:
        self.entries[fingerprint] = remembered
