"""An upstream over HTTP: sessions that are forgotten, servers that are away, and come back."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import HttpServerSpec, ServerOptions, SourceState
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import Exchange, evil_http
from tests.support.upstreams import FakeRequest, running, text_of
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

LIMITS = UpstreamLimits(backoff_start=0.02, backoff_cap=0.1, call_timeout=2, ping_timeout=0.5, http_keep_alive=0.01)


class McpServer:
    """A legacy server with sessions, which it forgets when it is told to."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.opened = 0
        self.worked = 0
        """Calls that it did."""
        self.away = False
        """Whether it resets every connection."""
        self.forgotten: tuple[int, JSON | None] = (404, None)
        """The status and the error with which it answers requests in a session that it forgot."""
        self.forgets_always = False
        self.fault = ""
        """How it answers a call, as a path of the evil server."""

    async def serve(self, exchange: Exchange) -> None:
        """Serve one HTTP request."""
        if self.away:
            exchange.reset()
        elif exchange.method != "POST":
            await exchange.answer(status=405 if exchange.method == "GET" else 200, kind=None)
        else:
            await self._post(exchange)

    async def _post(self, exchange: Exchange) -> None:
        message = exchange.message
        if message["method"] == "server/discover":
            await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "error": {"code": -32601, "message": "no"}})
        elif message["method"] == "initialize":
            self.opened += 1
            session = f"s{self.opened}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "http", "version": "1"},
            }
            await exchange.answer(exchange.result(**result), headers={"mcp-session-id": session})
        elif exchange.headers["mcp-session-id"] not in self.sessions:
            status, error = self.forgotten
            body = {"jsonrpc": "2.0", "id": exchange.id, "error": error}
            await (exchange.answer(status=status, kind=None) if error is None else exchange.answer(body, status))
        elif "id" not in message:
            await exchange.answer(status=202, kind=None)
        else:
            await self._request(exchange, message["method"])

    async def _request(self, exchange: Exchange, method: str) -> None:
        if method == "tools/list":
            await exchange.answer(exchange.result(tools=[{"name": "work", "inputSchema": {"type": "object"}}]))
        elif method == "tools/call" and self.forgets_always:
            await exchange.answer(status=404, kind=None)
        elif method == "tools/call" and self.fault:
            exchange.path = self.fault.split("/")
            await exchange.server.faults[exchange.path[0]](exchange)
        elif method == "tools/call":
            self.worked += 1
            await exchange.answer(exchange.result(content=[{"type": "text", "text": f"work {self.worked}"}]))
        else:
            await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "result": {}})


async def say(upstream: Upstream, tool: str = "work") -> str:
    with anyio.fail_after(PATIENCE):
        return text_of(await upstream.call_tool(tool, {}, FakeRequest()))


@asynccontextmanager
async def served(limits: UpstreamLimits = LIMITS) -> AsyncGenerator[tuple[McpServer, Upstream]]:
    """An upstream over HTTP."""
    server = McpServer()
    async with evil_http() as http:
        http.faults["mcp"] = server.serve
        spec = HttpServerSpec("up", http.url("mcp"), options=ServerOptions(lazy=False))
        async with running(spec, limits) as upstream:
            yield server, upstream
        await http.until_all_closed()


async def in_state(upstream: Upstream, state: SourceState) -> None:
    await until(lambda: upstream.status.state is state)


@pytest.mark.requirement("F-053")
async def test_a_forgotten_session_is_opened_again_and_the_call_done_once() -> None:
    async with served() as (server, upstream):
        assert await say(upstream) == "work 1"
        server.sessions.clear()
        assert await say(upstream) == "work 2"
        assert (server.opened, server.worked) == (2, 2)
        assert upstream.status.state is SourceState.READY


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.requirement("F-053")
async def test_a_session_that_is_said_to_be_lost_in_another_way_fails_the_call_and_is_opened_for_the_next(
    status: int,
) -> None:
    async with served() as (server, upstream):
        assert await say(upstream) == "work 1"
        server.forgotten = status, {"code": -32001, "message": "Session not found"}
        server.sessions.clear()
        with pytest.raises(ProtocolError, match="Session not found"):
            await say(upstream)
        assert server.worked == 1
        assert await say(upstream) == "work 2"
        assert server.opened == 2


@pytest.mark.requirement("F-053")
async def test_a_session_that_is_forgotten_again_at_once_is_the_calls_error() -> None:
    async with served() as (server, upstream):
        server.forgets_always = True
        assert await say(upstream) == "upstream 'up' has ended the session (tool 'work')"
        assert (server.opened, server.worked) == (2, 0)
        server.forgets_always = False
        assert await say(upstream) == "work 1"


@pytest.mark.requirement("F-053")
async def test_calls_that_meet_a_forgotten_session_together_open_one_new_session() -> None:
    answers: list[str] = []
    async with served() as (server, upstream):
        server.sessions.clear()

        async def ask() -> None:
            answers.append(await say(upstream))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
        assert sorted(answers) == sorted(f"work {number}" for number in range(1, 11))
        assert server.opened == 2


@pytest.mark.requirement("F-050", "F-071")
async def test_a_server_that_goes_away_fails_its_calls_and_is_there_again_when_it_comes_back() -> None:
    async with served() as (server, upstream):
        features = upstream.features
        server.away = True
        for _ in range(3):
            assert "broke off before it answered" in await say(upstream)
        await in_state(upstream, SourceState.BACKOFF)
        assert upstream.features is features
        server.away = False
        await in_state(upstream, SourceState.READY)
        assert await say(upstream) == "work 1"


@pytest.mark.requirement("F-050")
async def test_one_call_shows_that_a_server_is_not_there_any_more() -> None:
    server = McpServer()
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(evil_http())
        http.faults["mcp"] = server.serve
        spec = HttpServerSpec("up", http.url("mcp"), options=ServerOptions(lazy=False))
        async with running(spec, LIMITS) as upstream:
            assert await say(upstream) == "work 1"
            await stack.aclose()
            assert "cannot be reached" in await say(upstream)
            await in_state(upstream, SourceState.BACKOFF)
            await until(lambda: upstream.status.state is SourceState.STARTING)
            assert "last time it cannot be reached" in upstream.status.reason


@pytest.mark.requirement("F-050")
async def test_a_server_that_is_not_there_at_all_is_tried_on_and_on_and_calls_are_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        spec = HttpServerSpec("up", f"http://127.0.0.1:{unused.getsockname()[1]}/mcp")
        async with running(spec, LIMITS) as upstream:
            assert "cannot be reached" in await say(upstream)
            await until(lambda: upstream.details["starts"] > 8)
            assert upstream.status.state in (SourceState.BACKOFF, SourceState.STARTING)


@pytest.mark.requirement(
    "F-051", "F-052", "F-054", "F-055", "F-057", "F-058", "F-059", "F-060", "F-061", "F-062", "F-064"
)
@pytest.mark.requirement("F-068", "F-069", "S-37")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("status/500", "answered with HTTP 500"),
        ("status/503/7", "HTTP 503 (Service Unavailable), and asks to be tried again after 7 s"),
        ("status/429/-1", "HTTP 429 (Too Many Requests): down for maintenance (tool"),
        ("reset", "whether it did the work is unknown"),
        ("reset_in_body", "whether it did the work is unknown"),
        ("drop_in_stream", "whether it did the work is unknown"),
        ("silent", "did not answer tools/call within 0.3 s"),
        ("keep_alives", "did not answer tools/call within 0.3 s"),
        ("drip", "did not answer tools/call within 0.3 s"),
        ("endless_event", "more than 1000000 bytes"),
        ("endless_body", "sent more than 1000000 bytes in one answer"),
        ("bomb/gzip", "sent more than 1000000 bytes in one answer"),
        ("bomb/br", "'br'"),
        ("kind/text/html", "text/html"),
        ("garbage", "broke off"),
        ("redirect/307/canary", "which is not followed"),
        ("redirect/302/good", "not followed"),
        ("empty/202", "and so not at all"),
        ("wrong_id/999", "answered another request than was made"),
        ("many_headers", "broke off"),
        ("long_header", "broke off"),
    ],
)
async def test_whatever_a_server_does_to_a_call_is_that_calls_error_and_no_other_call_suffers(
    fault: str, words: str
) -> None:
    async with served(replace(LIMITS, call_timeout=0.3, message_bytes=1_000_000)) as (server, upstream):
        server.fault = fault
        text = await say(upstream)
        assert text.startswith("upstream 'up' ")
        assert words in text
        assert text.endswith("(tool 'work')")
        server.fault = ""
        assert await say(upstream) == "work 1"
        assert (upstream.status.state, upstream.details["starts"], server.opened) == (SourceState.READY, 1, 1)
