from __future__ import annotations

import errno
import gc
import json
import logging
import signal
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.lowlevel import checkpoint
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gaia_bridge.errors import BridgeError, ListenError
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.connection import HttpConnection
from gaia_bridge.server.http.guard import Guard
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.http.request_heads import head_problem
from gaia_bridge.settings import HttpLimits
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

QUICK = HttpLimits(header_timeout=0.2, body_timeout=0.2, body_bytes=1000)
SMALL = HttpLimits(header_bytes=4096, body_bytes=1000)


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """An application without lifespan events that reads every body."""
    if scope["type"] == "http":
        body = await Request(scope, receive).body()
        await JSONResponse({"path": scope["path"], "received": len(body)})(scope, receive, send)


@asynccontextmanager
async def serving(
    app: ASGIApp,
    limits: HttpLimits | None = None,
    on_shutdown: Sequence[Callable[[], None]] = (),
) -> AsyncGenerator[tuple[HttpServer, int]]:
    """Serve on a free port; leaving the block stops the server and waits for its end."""
    server = HttpServer(app, sockets=bind("127.0.0.1", 0), limits=limits, on_shutdown=on_shutdown)
    port = server.addresses[0][1]
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        try:
            yield server, port
        finally:
            server.stop()


@asynccontextmanager
async def guarding(limits: HttpLimits) -> AsyncGenerator[int]:
    """The port of a guarded server."""
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    guard = Guard(hello, AccessPolicy.for_address("127.0.0.1", port, limits=limits))
    server = HttpServer(guard, sockets=sockets, limits=limits)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield port
        server.stop()


@pytest.fixture(scope="module")
async def quick() -> AsyncIterator[int]:
    """The port of a guarded server with short deadlines."""
    async with guarding(QUICK) as port:
        yield port


@pytest.fixture(scope="module")
async def small() -> AsyncIterator[int]:
    """The port of a guarded server with small limits."""
    async with guarding(SMALL) as port:
        yield port


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[SocketStream]:
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            yield stream


async def read_all(stream: SocketStream) -> bytes:
    """Read until the server closes."""
    data = bytearray()
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return bytes(data)


async def read_until(stream: SocketStream, end: bytes) -> bytes:
    data = b""
    while end not in data:
        data += await stream.receive()
    return data


def request(port: int, line: str = "GET /x HTTP/1.1", *headers: str) -> bytes:
    return "\r\n".join([line, f"Host: 127.0.0.1:{port}", *headers, "", ""]).encode()


def refusal(answer: bytes) -> tuple[int, str]:
    """The status and the message of an answer that must be one complete refusal, on a connection that ends."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    error = json.loads(body)["error"]
    assert error["code"] == -32600
    return int(head.split()[1]), error["message"]


# Sockets


def test_an_address_is_bound_alone() -> None:
    (sock,) = bind("127.0.0.1", 0)
    with sock:
        assert sock.family == socket.AF_INET
        assert sock.getsockname()[0] == "127.0.0.1"
        assert not sock.get_inheritable()


def test_answers_are_sent_without_waiting_for_more() -> None:
    """asyncio switches Nagle's algorithm off only for sockets that say they are TCP; it costs 40 ms per answer."""
    [sock] = bind("127.0.0.1", 0)
    with sock:
        assert sock.proto == socket.IPPROTO_TCP


def test_a_name_is_bound_on_all_its_addresses_with_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    name_stands_for(monkeypatch, "127.0.0.1", "127.0.0.2", "127.0.0.1")
    sockets = bind("localhost", 0)
    names = [sock.getsockname() for sock in sockets]
    close(sockets)
    assert [address for address, _ in names] == ["127.0.0.1", "127.0.0.2"]
    assert len({port for _, port in names}) == 1


@pytest.mark.requirement("F-120")
def test_an_address_that_this_machine_lacks_is_left_out_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    name_stands_for(monkeypatch, "192.0.2.1", "127.0.0.1")
    sockets = bind("localhost", 0)
    names = [sock.getsockname()[0] for sock in sockets]
    close(sockets)
    assert names == ["127.0.0.1"]


def test_an_ipv6_address_does_not_take_the_ipv4_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at before the address is bound: with any but the wildcard address, Linux sets the option by itself."""
    options: list[int] = []
    real_bind = socket.socket.bind

    def look(self: socket.socket, address: Any) -> None:
        options.append(self.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
        real_bind(self, address)

    monkeypatch.setattr(socket.socket, "bind", look)
    try:
        close(bind("::1", 0))
    except ListenError:
        pytest.skip("no IPv6 on this machine")
    assert options == [1]


@pytest.mark.requirement("F-120")
def test_a_port_in_use_is_one_clear_line() -> None:
    (first,) = bind("127.0.0.1", 0)
    with first:
        port = first.getsockname()[1]
        with pytest.raises(ListenError) as refused:
            bind("127.0.0.1", port)
    assert str(refused.value) == (
        f"cannot listen on 127.0.0.1:{port}: the port is in use (stop the other program, or choose another --port)"
    )


@pytest.mark.requirement("F-120")
def test_one_taken_address_of_a_name_frees_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = bind("127.0.0.2", 0)
    with taken:
        port = taken.getsockname()[1]
        name_stands_for(monkeypatch, "127.0.0.1", "127.0.0.2")
        with pytest.raises(ListenError, match="in use"):
            bind("localhost", port)
        monkeypatch.undo()
        close(bind("127.0.0.1", port))


@pytest.mark.requirement("F-120")
@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        ("192.0.2.1", 0, "cannot listen on 192.0.2.1:0: this machine has no such address"),
        ("2001:db8::1", 0, "cannot listen on [2001:db8::1]:0: "),
        ("127.0.0.1", 65536, "there is no such port"),
        ("127.0.0.1", -1, "there is no such port"),
        ("a..b", 0, "the host cannot be resolved"),
        ("x" * 300, 0, "the host cannot be resolved"),
        ("not a host", 0, "the host cannot be resolved"),
    ],
)
def test_an_address_that_cannot_be_is_one_clear_line(host: str, port: int, line: str) -> None:
    with pytest.raises(ListenError) as refused:
        bind(host, port)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.requirement("F-120")
def test_a_reserved_port_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom the kernel lets have any port."""

    def forbid(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", forbid)
    with pytest.raises(ListenError, match=r"127\.0\.0\.1:80: not permitted \(ports below 1024"):
        bind("127.0.0.1", 80)


def name_stands_for(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def resolve(host: str, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def close(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


# Deadlines


@pytest.mark.requirement("F-091")
@pytest.mark.parametrize("start", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n"])
async def test_headers_that_stop_halfway_time_out(quick: int, start: bytes) -> None:
    async with connected(quick) as stream:
        await stream.send(start)
        status, message = refusal(await read_all(stream))
    assert status == 408
    assert "within 0.2 seconds" in message


@pytest.mark.requirement("F-091")
async def test_headers_that_trickle_buy_no_more_time(quick: int) -> None:
    async with connected(quick) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nX: ")
        answer = b""
        while not answer:
            with anyio.move_on_after(0.02):
                answer = await stream.receive()
            if not answer:
                await stream.send(b"x")
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.requirement("F-091")
async def test_a_connection_that_says_nothing_is_closed_silently(quick: int) -> None:
    async with connected(quick) as stream:
        assert await read_all(stream) == b""


@pytest.mark.requirement("F-091")
async def test_the_headers_of_a_later_request_time_out_as_well(quick: int) -> None:
    async with connected(quick) as stream:
        await stream.send(request(quick))
        assert b" 200 " in await read_until(stream, b"}")
        await stream.send(b"GET / HTTP/1.1\r\n")
        assert refusal(await read_all(stream))[0] == 408


async def test_an_idle_connection_is_kept_beyond_the_header_deadline(quick: int) -> None:
    async with connected(quick) as stream:
        await stream.send(request(quick))
        await read_until(stream, b"}")
        async with connected(quick) as silent:
            assert await read_all(silent) == b"", "so the deadline has passed"
        await stream.send(request(quick))
        assert b" 200 " in await read_until(stream, b"}")


async def test_pipelined_requests_are_answered_in_order(small: int) -> None:
    async with connected(small) as stream:
        await stream.send(request(small, "GET /a HTTP/1.1") + request(small, "GET /b HTTP/1.1", "Connection: close"))
        answer = await read_all(stream)
    assert answer.index(b'"/a"') < answer.index(b'"/b"')


@pytest.mark.requirement("F-091")
async def test_a_body_that_stops_halfway_times_out(quick: int) -> None:
    async with connected(quick) as stream:
        await stream.send(
            request(quick, "POST /x HTTP/1.1", "Content-Type: application/json", "Content-Length: 9") + b"{"
        )
        assert refusal(await read_all(stream))[0] == 408


@pytest.mark.requirement("F-091", "F-077")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Content-Type: text/plain", "Content-Length: 900"), b" 415 "),
        (("Content-Type: application/json", "Content-Length: 90000"), b" 413 "),
    ],
)
async def test_a_refused_body_that_goes_on_for_ever_is_cut_off(
    quick: int, headers: tuple[str, ...], status: bytes
) -> None:
    async with connected(quick) as stream:
        await stream.send(request(quick, "POST /x HTTP/1.1", *headers) + b"x")
        assert status in await read_until(stream, b"}}")
        try:
            while True:
                with anyio.move_on_after(0.02):
                    assert await stream.receive() == b"", "nothing more is said"
                await stream.send(b"x")
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass


async def test_a_connection_is_usable_after_a_refused_body_has_arrived(small: int) -> None:
    async with connected(small) as stream:
        await stream.send(request(small, "POST /x HTTP/1.1", "Content-Type: text/plain", "Content-Length: 900") + b"x")
        assert b" 415 " in await read_until(stream, b"}}")
        await stream.send(b"x" * 899 + request(small))
        assert b" 200 " in await read_until(stream, b"}")


@pytest.mark.requirement("F-077")
async def test_a_chunked_body_over_the_limit_is_refused(small: int) -> None:
    async with connected(small) as stream:
        head = request(small, "POST /x HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
        await stream.send(head + b"1f4\r\n" + b"x" * 500 + b"\r\n1f5\r\n" + b"x" * 501 + b"\r\n")
        assert b" 413 " in await read_until(stream, b"}}")


LARGE = 32 * 1024 * 1024
"""More than the kernel buffers between two loopback sockets."""


async def talkative(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await Response(b"x" * LARGE)(scope, receive, send)


@pytest.mark.requirement("F-090")
async def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    ended = anyio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
                await checkpoint()
        finally:
            ended.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await StreamingResponse(endless())(scope, receive, send)

    async with serving(app, HttpLimits(body_timeout=0.1)) as (_, port), connected(port) as stream:
        await stream.send(request(port))
        await ended.wait()


@pytest.mark.requirement("F-090")
async def test_a_client_that_has_read_its_answer_may_ask_again_later() -> None:
    limits = HttpLimits(body_timeout=0.2, header_timeout=0.5)
    async with serving(talkative, limits) as (_, port), connected(port) as stream:
        await stream.send(request(port))
        received = 0
        while received < LARGE:
            received += len(await stream.receive())
        async with connected(port) as silent:
            assert await read_all(silent) == b"", "so the longer of the deadlines has passed"
        await stream.send(request(port))
        assert b" 200 " in await stream.receive()


@pytest.mark.requirement("F-090")
async def test_a_client_that_reads_slowly_gets_its_answer() -> None:
    limits = HttpLimits(body_timeout=0.4, header_timeout=0.15)
    async with serving(talkative, limits) as (_, port), connected(port) as stream:
        await stream.send(request(port, "GET /x HTTP/1.1", "Connection: close"))
        received = 0
        for part in range(1, 5):
            while received < part * LARGE // 8:
                received += len(await stream.receive())
            async with connected(port) as silent:
                assert await read_all(silent) == b"", "so the header deadline has passed"
        received += len(await read_all(stream))
    assert received > LARGE


PIECE = 4 * 1024 * 1024


@contextmanager
def no_collection() -> Generator[Callable[[], int]]:
    """Nothing is collected; counts the connections of servers that there are."""
    gc.collect()
    gc.disable()
    try:
        yield lambda: sum(isinstance(item, HttpConnection) for item in gc.get_objects())
    finally:
        gc.enable()


async def use_once(port: int, *sent: bytes, end: bytes) -> None:
    async with connected(port) as stream:
        for part in sent:
            await stream.send(part)
        if end:
            await read_until(stream, end)


@pytest.mark.requirement("F-315")
@pytest.mark.parametrize(
    ("sent", "end"),
    [
        ((), b""),
        (("GET /x HTTP/1.1",), b"}"),
        (("GET /x HTTP/1.1", "GET /y HTTP/1.1"), b"/y"),
        (("GET /x HTTP/1.0",), b"}"),
        (("POST /x HTTP/1.1", "content-length: 5"), b""),
        (("GET /x HTTP/9.9",), b"}"),
        (("GET /stream HTTP/1.1",), b"x"),
    ],
)
async def test_the_memory_of_a_connection_returns_when_it_ends_without_a_collection(
    sent: tuple[str, ...], end: bytes
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (talkative if scope.get("path") == "/stream" else hello)(scope, receive, send)

    async with serving(app) as (_, port):
        lines = [line for line in sent if line.startswith(("GET", "POST"))]
        headers = [line for line in sent if line not in lines]
        requests = [request(port, line, *headers) for line in lines]
        await use_once(port, *requests, end=end)
        with no_collection() as connections:
            before = connections()
            for _ in range(5):
                await use_once(port, *requests, end=end)
            await until(lambda: connections() <= before)  # the server has seen that they are closed


async def generous(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with as many bytes as the path says."""
    if scope["type"] == "http":
        await Response(b"x" * int(scope["path"][1:]))(scope, receive, send)


@pytest.mark.requirement("F-090", "F-251")
async def test_a_client_that_leaves_more_unread_than_it_may_is_cut_off_and_a_bystander_is_not() -> None:
    limits = HttpLimits(unsent_bytes=PIECE, unsent_total_bytes=100 * PIECE)
    async with serving(generous, limits) as (_, port), connected(port) as greedy, connected(port) as modest:
        await greedy.send(request(port, f"GET /{8 * PIECE} HTTP/1.1"))
        await modest.send(request(port, f"GET /{PIECE} HTTP/1.1", "Connection: close"))
        assert not await whole(greedy, 8 * PIECE), "but for what is in the buffers of the system"
        assert len(await read_all(modest)) > PIECE


@pytest.mark.requirement("F-090", "F-251")
async def test_those_that_read_nothing_for_longest_are_cut_off_when_all_together_leave_too_much() -> None:
    each = 8 * PIECE
    limits = HttpLimits(unsent_bytes=10 * each, unsent_total_bytes=3 * each)
    asked: list[str] = []

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.append(scope["path"])
        await generous(scope, receive, send)

    async with serving(counted, limits) as (_, port), AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connected(port)) for _ in range(8)]
        for number, stream in enumerate(streams, 1):
            await stream.send(request(port, f"GET /{each} HTTP/1.1", "Connection: close"))
            await until(partial(reached, asked, number))  # one after the other
            await anyio.wait_all_tasks_blocked()
        complete = [await whole(stream, each) for stream in streams]
    assert not any(complete[:4])
    assert complete[-1]


@pytest.mark.requirement("F-251")
async def test_a_piece_of_an_answer_counts_whole_until_the_last_of_it_was_sent() -> None:
    size = 16 * PIECE
    limits = HttpLimits(unsent_bytes=2 * size, unsent_total_bytes=2 * size)
    async with serving(generous, limits) as (server, port), connected(port) as stream:
        await stream.send(request(port, f"GET /{size} HTTP/1.1"))
        received = 0
        while received < size // 2:
            received += len(await stream.receive())
        [connection] = server._server.server_state.connections  # pyright: ignore[reportPrivateUsage]
        connection = cast("Any", connection)
        assert 0 < connection.transport.get_write_buffer_size() < size // 2
        assert connection.unsent >= size


def reached(asked: list[str], number: int) -> bool:
    return len(asked) == number


async def whole(stream: SocketStream, size: int) -> bool:
    """Whether an answer of that size comes to its end."""
    received = 0
    try:
        while True:
            received += len(await stream.receive())
    except anyio.EndOfStream:
        return received > size
    except anyio.BrokenResourceError:
        return False


# What h11 and the guard make of raw bytes


@pytest.mark.parametrize("size", [5_000, 200_000])
async def test_headers_over_the_limit_are_refused_however_they_arrive(small: int, size: int) -> None:
    async with connected(small) as stream:
        await stream.send(request(small, "GET /x HTTP/1.1", "X: " + "x" * size))
        assert b" 431 " in await read_until(stream, b"}}")
    async with connected(small) as stream:
        await stream.send(request(small, "GET /x HTTP/1.1", "X: " + "x" * size)[:-4])
        status, message = refusal(await read_all(stream))
    assert (status, "4096 bytes" in message) == (431, True)


@pytest.mark.requirement("C-33", "F-095", "S-2")
@pytest.mark.parametrize(
    "raw",
    [
        b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: +4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\n X: folded\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://HOST/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET http://evil.com/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET //evil.com HTTP/1.1\r\nHost: evil.com\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\x00\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_ambiguous_http_is_refused(small: int, raw: bytes) -> None:
    async with connected(small) as stream:
        await stream.send(raw.replace(b"HOST", b"127.0.0.1:%d" % small))
        answer = await read_until(stream, b"}}")
    assert answer.split()[1] in (b"400", b"421", b"501")


@pytest.mark.requirement("F-250", "F-095")
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            b"POST /x HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\ncontent-length: 4\r\n"
            b"Transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
            "expected one of them",
        ),
        (
            b"GET /x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            "expected one of them",
        ),
        (b"GET /x HTTP/1.1\r\nHost: HOST\r\nX: a\r\n b\r\n\r\n", "begins with a blank"),
        (b"GET /x HTTP/1.1\r\nHost: HOST\r\nX: a\r\n\tb\r\n\r\n", "begins with a blank"),
        (b"GET /x HTTP/1.1\nHost: HOST\n\n", "line feed alone"),
        (b"GET /x HTTP/1.1\r\nHost: HOST\nX: a\r\n\r\n", "line feed alone"),
        (b"GET /x HTTP/1.1\r\nHost: HOST\r\n\n", "line feed alone"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"GET /x HTTP/1.1\r\nHost: HOST\r\n\r\n"], ids=["first", "second"])
async def test_a_head_of_two_readings_ends_the_connection_and_what_follows_is_not_read(
    small: int, raw: bytes, said: str, before: bytes
) -> None:
    follows = b"GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n"
    host = b"127.0.0.1:%d" % small
    async with connected(small) as stream:
        if before:
            await stream.send(before.replace(b"HOST", host))
            await read_until(stream, b"}")
        await stream.send((raw + follows).replace(b"HOST", host))
        answer = await read_all(stream)
    status, message = refusal(answer)
    assert (status, said in message, answer.count(b"HTTP/1.1")) == (400, True, 1)


@pytest.mark.requirement("F-250", "F-091")
@pytest.mark.parametrize(
    "head",
    [
        b"GET /x HTTP/1.1\nHost: x\n\n",
        b"GET /x HTTP/1.1\r\nHost: x\nX: a\r\n\r\n",
        b"GET /x HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_head_that_comes_in_tiny_pieces_is_judged_once_and_as_if_it_had_come_whole(head: bytes) -> None:
    assert [head_problem(head[:size]) for size in range(len(head))] == [None] * len(head)
    assert head_problem(head) is not None


@pytest.mark.requirement("C-33", "F-095")
async def test_a_bad_chunk_ends_the_connection(small: int) -> None:
    async with connected(small) as stream:
        head = request(small, "POST /x HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
        await stream.send(head + b"zz\r\n{}\r\n0\r\n\r\n")
        assert refusal(await read_all(stream))[0] == 400


async def test_blanks_around_a_header_value_change_nothing(small: int) -> None:
    async with connected(small) as stream:
        await stream.send(b"GET /x HTTP/1.1\r\nHost: \t 127.0.0.1:%d \t \r\n\r\n" % small)
        assert b" 200 " in await read_until(stream, b"}")


# Serving


async def test_nothing_tells_which_software_answers(small: int) -> None:
    async with connected(small) as stream:
        await stream.send(request(small))
        head = (await read_until(stream, b"}")).lower()
    assert b"\r\ndate: " in head
    assert b"\r\nserver:" not in head


async def test_standard_output_and_signal_handlers_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def handler(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, handler)
    try:
        async with serving(hello) as (_, port), connected(port) as stream:
            assert signal.getsignal(signal.SIGTERM) is handler
            await stream.send(b"nonsense\r\n\r\n")
            await read_all(stream)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().out == ""


async def test_a_client_that_came_before_the_server_is_served() -> None:
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    server = HttpServer(hello, sockets=sockets)
    async with connected(port) as stream:
        await stream.send(request(port))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            assert b" 200 " in await read_until(stream, b"}")
            server.stop()


async def test_the_application_starts_before_the_first_request_and_ends_after_the_last() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        events.append("started")
        yield
        events.append("ended")

    async def endpoint(request: Request) -> Response:
        events.append("asked")
        return Response()

    async with serving(Starlette(routes=[Route("/x", endpoint)], lifespan=lifespan)) as (_, port):
        async with connected(port) as stream:
            await stream.send(request(port, "GET /x HTTP/1.1", "Connection: close"))
            await read_all(stream)
    assert events == ["started", "asked", "ended"]


async def test_an_application_that_cannot_start_is_an_error_and_frees_the_port(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        raise ValueError("no such model")
        yield

    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    with pytest.raises(BridgeError, match="failed to start"):
        await HttpServer(Starlette(lifespan=lifespan), sockets=sockets).run()
    assert "no such model" in caplog.text
    close(bind("127.0.0.1", port))


# Ending


class Streams:
    """An application whose every answer is an event stream that never ends by itself."""

    def __init__(self) -> None:
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await EventSourceResponse(self._events())(scope, receive, send)

    async def _events(self) -> AsyncIterator[dict[str, str]]:
        self.open += 1
        try:
            yield {"data": "first"}
            await anyio.sleep_forever()
        finally:
            self.open -= 1


PATIENT = HttpLimits(shutdown_grace=60)
"""So that nothing in the tests below ends because the grace is over."""


@pytest.mark.requirement("F-115")
async def test_an_open_event_stream_ends_cleanly_and_at_once() -> None:
    app = Streams()
    async with serving(app, PATIENT) as (server, port), connected(port) as stream:
        await stream.send(request(port))
        await read_until(stream, b"first")
        server.stop()
        assert (await read_all(stream)).endswith(b"0\r\n\r\n"), "the last chunk: a complete answer"
    assert app.open == 0


async def test_a_second_server_in_the_process_streams_like_the_first() -> None:
    app = Streams()
    for _ in range(2):
        async with serving(app, PATIENT) as (server, port), connected(port) as stream:
            await stream.send(request(port))
            await read_until(stream, b"first")
            server.stop()
            await read_all(stream)
    assert app.open == 0


async def test_a_server_streams_although_another_library_switched_streams_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = anyio.Event()

    async def events() -> AsyncIterator[dict[str, str]]:
        yield {"data": "first"}
        await more.wait()
        yield {"data": "second"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await EventSourceResponse(events())(scope, receive, send)

    monkeypatch.setattr(AppStatus, "should_exit", True)
    async with serving(app, PATIENT) as (_, port), connected(port) as stream:
        await stream.send(request(port))
        await read_until(stream, b"first")
        more.set()
        assert b"second" in await read_until(stream, b"second")


async def test_the_streams_of_another_server_stay_open() -> None:
    app = Streams()
    async with serving(app, PATIENT) as (_, port), connected(port) as stream:
        await stream.send(request(port))
        await read_until(stream, b"first")
        async with serving(app, PATIENT) as (other_server, other_port), connected(other_port) as other:
            await other.send(request(other_port))
            await read_until(other, b"first")
            assert app.open == 2
            other_server.stop()
            await read_all(other)
        assert app.open == 1


@pytest.mark.requirement("F-115")
async def test_a_request_in_flight_is_answered_within_the_grace() -> None:
    asked, ending = anyio.Event(), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.set()
            await ending.wait()
            await hello(scope, receive, send)

    async with serving(app, PATIENT, [ending.set]) as (server, port), connected(port) as stream:
        await stream.send(request(port, "POST /x HTTP/1.1", "Content-Length: 0"))
        await asked.wait()
        server.stop()
        assert b" 200 " in await read_all(stream)


@pytest.mark.requirement("F-115")
async def test_a_request_in_flight_hears_of_a_disconnect_after_the_grace() -> None:
    asked = anyio.Event()
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await receive()
            asked.set()
            heard.append((await receive())["type"])

    async with serving(app, HttpLimits(shutdown_grace=0.1)) as (server, port), connected(port) as stream:
        await stream.send(request(port, "POST /x HTTP/1.1", "Content-Length: 0"))
        await asked.wait()
        server.stop()
        answer = await read_all(stream)
    assert heard == ["http.disconnect"]
    assert b" 503 " in answer
    assert b"shutting down" in answer
    assert b"x-should-retry: false\r\n" in answer  # it may have had an effect, and OpenAI's clients would repeat it


@pytest.mark.requirement("F-115")
@pytest.mark.parametrize("method", ["POST", "HEAD"])
async def test_a_request_that_does_not_listen_to_that_is_cancelled_without_a_complaint(
    caplog: pytest.LogCaptureFixture, method: str
) -> None:
    caplog.set_level(logging.ERROR)
    asked = anyio.Event()
    ended: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        yield
        ended.append("lifespan")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await Starlette(lifespan=lifespan)(scope, receive, send)
            return
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("request")

    async with serving(app, HttpLimits(shutdown_grace=0.1)) as (server, port), connected(port) as stream:
        await stream.send(request(port, f"{method} /x HTTP/1.1", "Content-Length: 0"))
        await asked.wait()
        server.stop()
        assert (await read_all(stream)).count(b"shutting down") == (method == "POST")
    assert ended == ["request", "lifespan"]
    assert caplog.messages == []


async def test_hooks_are_called_in_order_while_connections_still_stand(caplog: pytest.LogCaptureFixture) -> None:
    app = Streams()
    seen: list[object] = []

    def fail() -> None:
        raise ValueError("a broken hook")

    hooks = [lambda: seen.append(app.open), fail, lambda: seen.append("last")]
    async with serving(app, PATIENT, hooks) as (server, port), connected(port) as stream:
        await stream.send(request(port))
        await read_until(stream, b"first")
        server.stop()
        await read_all(stream)
    assert seen == [1, "last"]
    assert "a broken hook" in caplog.text


async def test_new_connections_are_refused_while_the_server_ends() -> None:
    asked, finish = anyio.Event(), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.set()
            await finish.wait()
            await hello(scope, receive, send)

    ending = anyio.Event()
    async with serving(app, PATIENT, [ending.set]) as (server, port), connected(port) as stream:
        await stream.send(request(port, "POST /x HTTP/1.1", "Content-Length: 0"))
        await asked.wait()
        server.stop()
        await ending.wait()
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.1", port)
        finish.set()


async def test_stopping_twice_and_from_another_thread_is_stopping(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with serving(hello) as (server, _):
        thread = threading.Thread(target=server.stop)
        thread.start()
        thread.join()
        server.stop()
    assert caplog.messages == []


async def test_a_cancelled_server_ends_its_connections_and_frees_the_port() -> None:
    app = Streams()
    said: list[str] = []
    server = HttpServer(app, sockets=bind("127.0.0.1", 0), limits=PATIENT, on_shutdown=[lambda: said.append("goodbye")])
    port = server.addresses[0][1]
    async with connected(port) as stream, connected(port) as post:
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            await stream.send(request(port))
            await read_until(stream, b"first")
            await post.send(request(port, "POST /x HTTP/1.1", "Content-Length: 0"))
            await read_until(post, b"first")
            tasks.cancel_scope.cancel()
        assert (await read_all(stream)).endswith(b"0\r\n\r\n")
        await read_all(post)
    assert said == ["goodbye"]
    assert app.open == 0
    close(bind("127.0.0.1", port))


async def test_a_server_cancelled_while_it_ends_does_not_wait_for_the_grace() -> None:
    app = Streams()
    server = HttpServer(app, sockets=bind("127.0.0.1", 0), limits=PATIENT)
    port = server.addresses[0][1]
    async with connected(port) as post:
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            await post.send(request(port, "POST /x HTTP/1.1", "Content-Length: 0"))
            await read_until(post, b"first")
            server.stop()
            while True:  # until the server no longer accepts: it is ending, and waits for the open POST
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                except OSError:
                    break
            tasks.cancel_scope.cancel()
        await read_all(post)
    assert app.open == 0
