"""The two ways to a server: our core connected to it, and our core connected to a bridge that publishes it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from gaia_bridge.client import ClientDelegate, Connection, Era, connect
from gaia_bridge.client.transport_factory import transport_for
from gaia_bridge.model import HttpServerSpec, ServerSpec
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import PATIENT

__all__ = ["ALL_CAPABILITIES", "DEADLINE", "Role", "call", "connected", "published", "text_of", "until_connected"]

DEADLINE: Final = 120.0
"""Seconds for everything that one test does; only what is broken needs them."""
POLL_SECONDS: Final = 0.05
ALL_CAPABILITIES: Final[JSON] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""All that a client can declare."""


class Role(ClientDelegate):
    """Remembers what it was told, and answers as it is told to.

    Args:
        capabilities: What it declares.
        answer: Answers a question: method, parameters; returns a result, or raises.
    """

    def __init__(self, capabilities: JSON | None = None, answer: Callable[[str, JSON], JSON] | None = None) -> None:
        self.capabilities = capabilities or {}
        self._answer = answer
        self._heard: asyncio.Queue[tuple[str, JSON]] = asyncio.Queue()

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        assert self._answer is not None
        return self._answer(method, params)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        self._heard.put_nowait((method, params))

    async def until(self, method: str) -> JSON:
        """The parameters of the next notification with that method; what comes before it is forgotten."""
        while True:
            heard, params = await self._heard.get()
            if heard == method:
                return params


@asynccontextmanager
async def connected(
    spec: ServerSpec, role: ClientDelegate | None = None, era: Era | None = None
) -> AsyncGenerator[Connection]:
    """A connection of our core, within a deadline for everything that is done with it.

    Args:
        spec: The server.
        role: Who we are to it.
        era: Which era to insist on; the newest that the server speaks, if none.
    """
    with anyio.fail_after(DEADLINE):
        async with connect(transport_for(spec, PATIENT), role or Role(), PATIENT, era=era) as connection:
            yield connection


def published(url: str, name: str) -> HttpServerSpec:
    """A server as a bridge publishes it by itself.

    Args:
        url: Of the bridge.
        name: Of the server.
    """
    return HttpServerSpec(name, f"{url}/servers/{name}/mcp")


async def call(connection: Connection, tool: str, **arguments: Any) -> JSON:
    """The result of a tool, whatever it is."""
    return await connection.request("tools/call", {"name": tool, "arguments": arguments})


def text_of(result: JSON) -> str:
    """All the text in a result that did not fail."""
    assert not result.get("isError"), result
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def until_connected(url: str, names: Collection[str]) -> None:
    """Wait until a bridge knows what all of these servers offer."""
    deadline = time.monotonic() + DEADLINE
    pause = threading.Event()
    while waited_for := {name: state for name in names if (state := states_of(url).get(name)) != "ready"}:
        assert time.monotonic() < deadline, waited_for
        pause.wait(POLL_SECONDS)


def states_of(url: str) -> JSON:
    """How each server is that a bridge has."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE)
    try:
        connection.request("GET", "/ready")
        states: JSON = json.loads(connection.getresponse().read())["sources"]
        return states
    finally:
        connection.close()
