"""Kept connections: used again when all of an answer has come, and never when it is not known what is on them."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
import uvloop

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.http.connections import (
    ConnectError,
    Connections,
    ConnectTimeoutError,
    connect_directly,
)
from gaia_bridge.client.transports.http.http1 import ClosedError, Response
from tests.servers.evil_http import EvilServer, Exchange, evil_http

pytestmark = pytest.mark.anyio
left_clean = pytest.mark.usefixtures("nothing_left")

GET = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n"
_DROPS = 200


@asynccontextmanager
async def connections_to(port: int, host: str = "127.0.0.1", **options: Any) -> AsyncGenerator[Connections]:
    loop = asyncio.get_running_loop()
    bounds: dict[str, Any] = {"connect_timeout": 4, "write_timeout": 4, "keep_alive": 4, "alive_after": 60, **options}
    way = partial(connect_directly, host, port, None)
    connections = Connections(way, share=lambda: Share(0.1, 0.25, loop.time), **bounds)
    try:
        with anyio.fail_after(50):
            yield connections
    finally:
        connections.close()


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[tuple[EvilServer, Connections]]:
    async with evil_http() as server, connections_to(server.port, **options) as connections:
        yield server, connections


async def whole(response: Response) -> bytes:
    body = b""
    while part := await response.read():
        body += part
    return body


async def get(connections: Connections, path: bytes = b"good") -> tuple[int, bytes]:
    response = await connections.send(GET % path)
    return response.status, await whole(response)


@left_clean
async def test_what_goes_on_at_once_has_a_connection_each_and_what_comes_after_it_has_none_of_its_own() -> None:
    async with served() as (server, connections):
        await asyncio.gather(*(get(connections) for _ in range(5)))
        assert server.connections == 5
        for _ in range(20):
            assert (await get(connections))[0] == 405
        assert server.connections == 5


@left_clean
async def test_no_more_than_a_few_connections_are_kept() -> None:
    async with served() as (server, connections):
        await asyncio.gather(*(get(connections) for _ in range(40)))
        with anyio.fail_after(5):
            while len(server.open) > 32:
                await anyio.lowlevel.checkpoint()
        await asyncio.gather(*(get(connections) for _ in range(40)))
        assert server.connections == 48


@left_clean
async def test_a_connection_is_not_kept_for_ever() -> None:
    async with served(keep_alive=0.01) as (server, connections):
        await get(connections)
        await server.until_all_closed()
        assert (await get(connections))[0] == 405


@left_clean
async def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    async def once(exchange: Exchange) -> None:
        await exchange.answer(b"x")
        exchange.close()

    async with served() as (server, connections):
        server.faults["once"] = once
        for _ in range(3):
            assert await get(connections, b"once") == (200, b"x")
            await server.until_all_closed()
        assert (server.connections, server.hits["once"]) == (3, 3)


async def test_a_connection_whose_end_the_loop_has_not_told_yet_is_not_used() -> None:
    """The server closes it while the loop is busy."""
    closed = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            connection.recv(1_000)
            connection.sendall(b"HTTP/1.1 200 X\r\ncontent-length: 1\r\n\r\nx")
            go_on.wait(5)
            connection.close()
            closed.set()

    go_on, thread = threading.Event(), threading.Thread(target=serve)
    thread.start()
    with listener:
        async with connections_to(listener.getsockname()[1]) as connections:
            assert await get(connections) == (200, b"x")
            go_on.set()
            assert closed.wait(5)
            assert await get(connections) == (200, b"x")
        thread.join()


async def test_a_connection_that_is_dropped_as_soon_as_it_was_taken_is_none() -> None:
    """As by a server that is being killed: the loop tells its end before anybody could use it, in some of the tries."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(20)

    def drop() -> None:
        for _ in range(_DROPS):
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    thread = threading.Thread(target=drop)
    thread.start()
    with listener:
        async with connections_to(listener.getsockname()[1]) as connections:
            for _ in range(_DROPS):
                with pytest.raises((ConnectError, ClosedError)):
                    await get(connections)
        thread.join()


@left_clean
async def test_a_request_that_was_sent_is_not_sent_again() -> None:
    async with served() as (server, connections):
        await get(connections)
        with pytest.raises(ClosedError):
            await get(connections, b"reset")
        assert (server.connections, server.hits["reset"]) == (1, 1)


@left_clean
async def test_what_is_cancelled_in_the_middle_of_an_answer_leaves_nothing_of_it_for_the_next() -> None:
    async def half(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhalf")
        await exchange.until_closed()

    async with served() as (server, connections):
        server.faults["half"] = half
        response = await connections.send(GET % b"half")
        reading = asyncio.ensure_future(whole(response))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        response.close()
        assert (await get(connections))[0] == 405
        assert server.connections == 2


@left_clean
async def test_what_is_cancelled_before_its_answer_leaves_no_connection() -> None:
    async with served() as (server, connections):
        waiting = asyncio.ensure_future(get(connections, b"silent"))
        await server.until_seen("silent")
        waiting.cancel()
        await asyncio.wait([waiting])
        await server.until_all_closed()


@left_clean
async def test_who_gives_up_as_the_answer_comes_leaves_the_connection_to_whoever_has_it_by_then() -> None:
    let = asyncio.Event()

    async def mute(exchange: Exchange) -> None:
        await let.wait()

    async with served() as (server, connections):
        server.faults["mute"] = mute
        waiting = asyncio.ensure_future(get(connections, b"mute"))
        await server.until_seen("mute")
        following = asyncio.ensure_future(get(connections))
        [connection] = connections._all  # pyright: ignore[reportPrivateUsage]
        connection.data_received(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n")
        waiting.cancel()
        let.set()
        assert (await following)[0] == 405
        assert waiting.cancelled()
        assert server.connections == 1


@left_clean
async def test_closing_ends_what_waits_and_what_comes_after() -> None:
    async with served() as (server, connections):
        waiting = asyncio.ensure_future(get(connections, b"silent"))
        await server.until_seen("silent")
        connections.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ConnectError):
            await get(connections)
        await server.until_all_closed()


@left_clean
@pytest.mark.parametrize("calls", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
async def test_many_calls_take_one_connection(calls: int) -> None:
    async with served() as (server, connections):
        for _ in range(calls):
            assert (await get(connections))[0] == 405
        server.seen.clear()
        assert server.connections == 1


# Finding the server


class Addresses:
    """Gives a host several addresses, of which some never answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, addresses: list[str], silent: set[str]) -> None:
        self._connect = asyncio.get_running_loop().create_connection
        self._silent = silent
        self._addresses = addresses
        self.left = 0
        """Attempts that were given up."""
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._found)
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", self._connected)

    async def _found(self, host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self._addresses]

    async def _connected(self, make: Callable[[], Any], address: str, port: int, **options: Any) -> Any:
        if address not in self._silent:
            return await self._connect(make, address, port, **options)
        try:
            await anyio.sleep_forever()
        finally:
            self.left += 1


@left_clean
@pytest.mark.parametrize("silent", [set[str](), {"127.0.0.2"}])
async def test_an_address_that_does_not_answer_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, silent: set[str]
) -> None:
    async with evil_http() as server, connections_to(server.port, "several.example") as connections:
        found = Addresses(monkeypatch, ["127.0.0.2", "127.0.0.1"], silent)
        assert (await get(connections))[0] == 405
        assert (server.connections, found.left) == (1, len(silent))


@left_clean
async def test_a_host_of_which_no_address_answers_fails_with_the_reason_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with evil_http() as server:
        pass
    async with connections_to(server.port, "several.example") as connections:
        Addresses(monkeypatch, ["127.0.0.2", "127.0.0.1"], set())
        with pytest.raises(ConnectError) as caught:
            await get(connections)
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    async with connections_to(server.port, "several.example", connect_timeout=0.01) as connections:
        found = Addresses(monkeypatch, ["127.0.0.2"], {"127.0.0.2"})
        with pytest.raises(ConnectTimeoutError):
            await get(connections)
        assert found.left == 1


@left_clean
@pytest.mark.parametrize("turns", range(8))
async def test_who_gives_up_just_as_the_connection_stands_leaves_none_open(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def connected(*arguments: Any, **options: Any) -> Any:
        made = await connect(*arguments, **options)
        after(turns, waiting.cancel)
        return made

    def after(turns: int, do: Callable[[], object]) -> None:
        if turns:
            loop.call_soon(after, turns - 1, do)
        else:
            loop.call_soon(do)

    async with served() as (server, connections):
        monkeypatch.setattr(loop, "create_connection", connected)
        waiting = asyncio.ensure_future(get(connections, b"silent"))
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await server.until_all_closed()


# The other loop


def test_all_of_it_works_with_uvloop() -> None:
    async def several() -> None:
        async def large(exchange: Exchange) -> None:
            await exchange.answer(b"x" * 3_000_000)

        async with served(alive_after=7) as (server, connections):
            server.faults["large"] = large
            assert await get(connections, b"large") == (200, b"x" * 3_000_000)
            assert (await get(connections))[0] == 405
            assert server.connections == 1
            with pytest.raises(ClosedError):
                await get(connections, b"drop_in_stream")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(get(connections, b"silent"), 0.01)
            await server.until_all_closed()
        async with connections_to(server.port) as connections:
            with pytest.raises(ConnectError):
                await get(connections)

    uvloop.run(several())
