"""What the tests of the HTTP transports share: a receiver that remembers, links to evil servers, requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.client.transport import Link, UpstreamError
from gaia_bridge.client.transports.http.sse import SseTransport
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import Exchange, evil_http, good
from tests.support.waiting import PATIENCE, Changing

__all__ = [
    "INITIALIZED",
    "LEGACY",
    "LIMITS",
    "MODERN",
    "Heard",
    "SessionServer",
    "failure_of",
    "give_up",
    "in_session",
    "initialize",
    "linked",
    "modern",
    "open_session",
    "request",
]

LEGACY, MODERN = "2025-11-25", "2026-07-28"

LIMITS = UpstreamLimits(
    http_connect_timeout=5, message_bytes=1_000_000, retry_floor=0.01, retry_cap=0.1, resumes=3, farewell=0.5
)
"""The bounds of production, but in a hurry."""

INITIALIZED: JSON = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Heard(Changing):
    """A receiver that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[JSON, int | None]] = []
        self.ends: list[str] = []

    def message(self, message: JSON, during: int | None) -> None:
        self.messages.append((message, during))
        self._changed()

    def ended(self, reason: str) -> None:
        self.ends.append(reason)
        self._changed()


def request(method: str = "tools/call", request_id: int = 1, **params: Any) -> JSON:
    """A request of the handshake revisions."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def modern(method: str = "tools/call", request_id: int = 1, **params: Any) -> JSON:
    """A request of 2026-07-28."""
    meta: JSON = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    return request(method, request_id, **params, _meta=meta)


def initialize(request_id: int = 100) -> JSON:
    client = {"name": "test", "version": "1"}
    return request("initialize", request_id, protocolVersion=LEGACY, capabilities={}, clientInfo=client)


@asynccontextmanager
async def linked(
    url: str,
    heard: Heard | None = None,
    revision: str | None = None,
    limits: UpstreamLimits = LIMITS,
    *,
    sse: bool = False,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[Link]:
    """A link, for the length of a block that has ten seconds; nothing of it may be left afterwards.

    Args:
        url: The server.
        heard: Who listens.
        revision: What was agreed on.
        limits: Bounds.
        sse: Whether it is HTTP+SSE.
        headers: What is sent with every request.
    """
    before = asyncio.all_tasks()
    transport = (SseTransport if sse else StreamableHttpTransport)(HttpServerSpec("up", url, headers or {}), limits)
    with anyio.fail_after(PATIENCE):
        async with transport.connect(heard or Heard()) as link:
            if revision is not None:
                link.agree(revision)
            yield link
        await _gone(before)


async def _gone(before: set[asyncio.Task[Any]]) -> None:
    """Wait until no task of the link is left; with `linked` around it, not for ever."""
    ours = ("Link.", "Reply.", "athrow", "aclose")
    while left := [task for task in asyncio.all_tasks() - before if any(name in repr(task) for name in ours)]:
        await asyncio.wait(left)


async def open_session(link: Link) -> None:
    """Perform the handshake."""
    assert "result" in await link.request(initialize())
    link.agree(LEGACY)
    await link.notify(INITIALIZED)


async def give_up(link: Link, message: JSON, arrived: Awaitable[object]) -> None:
    """Make a request, and cancel it once it has arrived."""
    waiting = asyncio.ensure_future(link.request(message))
    await arrived
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def failure_of(link: Link, message: JSON | None = None) -> str:
    """What an upstream did not do when it was asked."""
    with pytest.raises(UpstreamError) as caught:
        await link.request(message or request())
    return str(caught.value)


class SessionServer:
    """A legacy server with a session and a standing stream. Put `server.serve` among the faults.

    Args:
        stand: What a standing stream does.
        call: What a request gets.
        hang: Whether it gets nothing.
    """

    def __init__(
        self,
        stand: Callable[[Exchange], Awaitable[None]] | None = None,
        call: Callable[[Exchange], Awaitable[None]] = good,
        *,
        hang: bool = False,
    ) -> None:
        self.stand = stand
        self.call = Exchange.until_closed if hang else call
        self.posts: list[JSON] = []
        self.gets: list[dict[str, str]] = []
        self.deleted: list[str] = []
        self.called = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.standing = asyncio.Event()

    async def serve(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            self.gets.append(exchange.headers)
            self.standing.set()
            await (exchange.answer(status=405, kind=None) if self.stand is None else self.stand(exchange))
        elif exchange.method == "DELETE":
            self.deleted.append(exchange.headers["mcp-session-id"])
            await exchange.answer(status=200, kind=None)
        else:
            await self._post(exchange)

    async def _post(self, exchange: Exchange) -> None:
        message = exchange.message
        self.posts.append(message)
        if message["method"] == "initialize":
            await exchange.answer(exchange.result(), headers={"mcp-session-id": "s-1"})
        elif "id" in message:
            self.called.set()
            await self.call(exchange)
        else:
            await exchange.answer(status=202, kind=None)
            if message["method"] == "notifications/cancelled":
                self.cancelled.set()


@asynccontextmanager
async def in_session(
    sessions: SessionServer, heard: Heard | None = None, limits: UpstreamLimits = LIMITS
) -> AsyncGenerator[Link]:
    """A link to a server with sessions, after the handshake; see `linked`."""
    async with evil_http() as server:
        server.faults["session"] = sessions.serve
        async with linked(server.url("session"), heard, limits=limits) as link:
            await open_session(link)
            yield link
