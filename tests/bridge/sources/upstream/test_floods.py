"""A server that never stops sending, over every wire: others are served all the while, and it is told why it is not.

Beside each there is another server that has to answer within a second; see `conftest.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.model import HttpServerSpec, SourceState
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from tests.servers.evil_http import EvilServer, Exchange, evil_http
from tests.servers.odd_texts import Odd
from tests.support.http_links import LIMITS, Heard, SessionServer, in_session, linked, request
from tests.support.obedient_children import Received, child, do, launched
from tests.support.upstreams import FakeRequest, running
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
EVENT = b"data: " + NOTE + b"\n\n"

NOTHING = [
    pytest.param(b"\n", "lines that carry nothing", id="blank lines"),
    pytest.param(b":\r\n", "lines that carry nothing", id="comments"),
    pytest.param(b"event: ping\nid: 1\n\n", "lines that carry nothing", id="events without data"),
    pytest.param(b"id: 1\n", "lines that carry nothing", id="an event that never ends"),
    pytest.param(b"retry: 1\r\r", "lines that carry nothing", id="other line ends"),
]
NONSENSE = [*NOTHING, pytest.param(b"data: x\n\n", "events that are no MCP messages", id="events without sense")]


def endless(data: bytes) -> Callable[[Exchange], Awaitable[None]]:
    """An event stream that repeats itself."""

    async def flood(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n")
        piece = data * (65_536 // len(data))
        while True:
            await exchange.raw(piece)

    return flood


@pytest.mark.requirement("F-301")
@pytest.mark.parametrize(("data", "what"), NONSENSE)
async def test_a_standing_stream_of_nothing_ends_the_connection_with_its_reason(data: bytes, what: str) -> None:
    heard = Heard()
    with pytest.raises(ConnectionLostError, match=what):
        async with in_session(SessionServer(endless(data), hang=True), heard) as link:
            await link.request(request())
    [reason] = heard.ends
    assert reason in (f"sent more than {most} {what} within 10 s" for most in ("5,000", "20,000"))


@pytest.mark.requirement("F-301")
@pytest.mark.parametrize(("data", "what"), NOTHING)
async def test_an_answer_that_never_comes_of_a_stream_of_nothing_fails_alone(data: bytes, what: str) -> None:
    async with evil_http() as server, linked(server.url("flood")) as link:
        server.faults["flood"] = endless(data)
        with pytest.raises(UpstreamError, match=what):
            await link.request(request())
        server.faults["flood"] = server.faults["good"]
        assert "result" in await link.request(request(request_id=2))


@pytest.mark.requirement("F-301")
@pytest.mark.parametrize(("data", "what"), NONSENSE)
async def test_the_stream_of_an_sse_server_is_not_read_on(data: bytes, what: str) -> None:
    async def flood(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /good\n\n")
        while True:
            await exchange.raw(data * 10_000)

    heard = Heard()
    async with evil_http() as server:
        server.faults["flood"] = flood
        async with linked(server.url("flood"), heard, sse=True):
            await heard.until(lambda: bool(heard.ends))
    assert what in heard.ends[0]


@pytest.mark.requirement("F-301")
@pytest.mark.parametrize("data", [b"\n", b"\r\n", b"  \n"])
async def test_a_child_that_writes_blank_lines_without_end_is_given_up(data: bytes) -> None:
    received = Received()
    async with launched(child(f"while True: raw({data!r} * 10_000)"), received):
        await received.until(lambda: bool(received.reasons))
    assert received.reasons == ["sent more than 20,000 blank lines within 10 s"]


@pytest.mark.requirement("F-301")
async def test_a_child_that_writes_messages_without_end_is_read_slowly_and_its_answers_arrive() -> None:
    async with launched(child()) as link:
        line = NOTE + b"\n"
        for _ in range(3):
            await do(link, f"raw({line!r} * 20_000); reply()")


@pytest.mark.requirement("F-301")
async def test_a_standing_stream_of_messages_is_read_slowly_and_answers_arrive() -> None:
    async with in_session(SessionServer(endless(EVENT))) as link:
        for number in range(1, 50):
            assert "result" in await link.request(request(request_id=number))


INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"


async def interim_answers(exchange: Exchange) -> None:
    while True:
        await exchange.raw(INTERIM * 1_500)


async def tiny_chunks(exchange: Exchange) -> None:
    await exchange.chunks()
    while True:
        await exchange.raw(b"1\r\nd\r\n" * 10_000)


@pytest.mark.requirement("F-301")
@pytest.mark.parametrize("flood", [interim_answers, tiny_chunks])
async def test_http_that_takes_the_loop_much_time_for_nothing_is_read_slowly(
    flood: Callable[[Exchange], Awaitable[None]],
) -> None:
    boundless = replace(LIMITS, message_bytes=1_000_000_000)
    async with evil_http() as server, linked(server.url("flood"), limits=boundless) as link:
        server.faults["flood"] = flood
        with anyio.move_on_after(3):
            await link.request(request())
            raise AssertionError("it was answered")


@asynccontextmanager
async def flooding(server: EvilServer, data: bytes) -> AsyncGenerator[Upstream]:
    """A server that works, but for its standing stream."""
    odd = Odd("legacy", "text")

    async def serve(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await endless(data)(exchange)
        replies = list(odd.replies(exchange.message)) if exchange.body else []
        headers = {"mcp-session-id": "s"}
        await (exchange.answer(replies[-1], headers=headers) if replies else exchange.answer(status=202, kind=None))

    server.faults["flood"] = serve
    limits = UpstreamLimits(backoff_start=0.01, backoff_cap=0.05)
    async with running(HttpServerSpec("up", server.url("flood")), limits) as upstream:
        yield upstream


@pytest.mark.requirement("F-301")
async def test_a_server_that_floods_is_shown_with_the_reason() -> None:
    async with evil_http() as server, flooding(server, b"\n") as upstream:
        await until(lambda: "lines that carry nothing within 10 s" in upstream.status.reason)


@pytest.mark.thorough  # on a busy machine, those that flood get what little there is
@pytest.mark.requirement("F-301")
async def test_five_servers_that_send_messages_without_end_are_all_served() -> None:
    async with AsyncExitStack() as stack:
        upstreams = [
            await stack.enter_async_context(flooding(await stack.enter_async_context(evil_http()), EVENT))
            for _ in range(5)
        ]
        for upstream in upstreams:
            assert upstream.status.state is SourceState.READY
            result = await upstream.call_tool("speak", {}, FakeRequest())
            assert result["content"][0]["text"] == "text"
