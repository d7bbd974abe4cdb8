"""What clients do not read is bounded: their next calls wait until they have read, and everybody else is served."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import NamingPolicy
from gaia_bridge.server import backlog as module
from gaia_bridge.server.backlog import Backlog, CallTurn, Target
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.transports.stdio import ClaimedStdio
from gaia_bridge.settings import BacklogLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

LEGACY, MODERN = "2025-11-25", "2026-07-28"
CLIENT = {"name": "test", "version": "1"}
SIZE = 250_000
"""Bytes of an answer."""
CALLS = 200
BUFFERED = 16 * 1024 * 1024
"""Bytes that the system takes of us for a client of a socket of TCP that does not read, at most."""
LIMITS = BacklogLimits(client_bytes=4 * SIZE, large=SIZE // 2, at_once=8, interval=3_600.0, large_interval=3_600.0)
BOUND = 4 + 8 + 4
"""Calls that may be made for one who reads nothing: what may wait, what may be in flight, what is being written."""


class GivingAgent:
    """Gives what takes long to read, and remembers how often."""

    def __init__(self) -> None:
        self.calls = 0

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in ("give", "nod")]

    async def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> str:
        if tool_name == "nod":
            return "yes"
        self.calls += 1
        return "x" * SIZE


@asynccontextmanager
async def serving(
    agent: GivingAgent, limits: BacklogLimits = LIMITS, beside: int = 0
) -> AsyncGenerator[tuple[Bridge, int]]:
    """A bridge with the agent and others beside it, and its port."""
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    with anyio.fail_after(6 * PATIENCE):
        async with (
            Bridge(settings=Settings(backlog=limits), names=NamingPolicy.BARE) as bridge,
            anyio.create_task_group() as tasks,
        ):
            await bridge.add_agent(agent, "giver")
            for number in range(beside):
                await bridge.add_agent(one_tool(lambda _: None, f"other-{number}"), f"beside-{number}")
            server = HttpServer(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)), sockets=sockets)
            await tasks.start(server.run)
            yield bridge, port
            tasks.cancel_scope.cancel()


def request(number: int, method: str, params: JSON, *, modern: bool = False) -> JSON:
    if modern:
        about: JSON = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": CLIENT}
        params = params | {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def give(number: int, *, modern: bool = False) -> JSON:
    return request(number, "tools/call", {"name": "give", "arguments": {}}, modern=modern)


HELLO = request(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT})
GREETED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def a_bystander_is_served(port: int) -> None:
    """Calls one after the other, all of them answered."""
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN}
    headers |= {"mcp-method": "tools/call", "mcp-name": "nod"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        for number in range(20):
            call = request(number, "tools/call", {"name": "nod", "arguments": {}}, modern=True)
            with anyio.fail_after(PATIENCE):
                answer = await client.post("/mcp", json=call)
            assert answer.json().get("result", {}).get("content") == [{"type": "text", "text": "yes"}], answer.text


class PipedClient:
    """A client of a bridge on a pair of sockets, in lines."""

    def __init__(self, bridge: Bridge, tasks: Any) -> None:
        to_server, reading = socket.socketpair()
        self._from_server, writing = socket.socketpair()
        self._to_server = to_server
        self._received = b""
        for sock in (to_server, self._from_server):
            sock.setblocking(False)
        tasks.start_soon(bridge.serve_stdio, ClaimedStdio(reading.detach(), writing.detach()))

    async def send(self, message: JSON) -> None:
        await asyncio.get_running_loop().sock_sendall(self._to_server, json.dumps(message).encode() + b"\n")

    async def next(self) -> JSON:
        while b"\n" not in self._received:
            self._received += await asyncio.get_running_loop().sock_recv(self._from_server, 2**20)
        line, _, self._received = self._received.partition(b"\n")
        message: JSON = json.loads(line)
        return message

    async def aclose(self) -> None:
        self._to_server.close()
        self._from_server.close()


@pytest.mark.requirement("F-320")
@pytest.mark.parametrize(("modern", "beside"), [(False, 0), (True, 0), (False, 1), (True, 2)])
async def test_calls_of_a_client_on_stdio_that_reads_nothing_wait_and_all_are_answered_when_it_reads(
    modern: bool, beside: int
) -> None:
    agent = GivingAgent()
    async with (
        serving(agent, beside=beside) as (bridge, port),
        anyio.create_task_group() as tasks,
        aclosing(PipedClient(bridge, tasks)) as client,
    ):
        if not modern:
            await client.send(HELLO)
            await client.next()
            await client.send(GREETED)
        for number in range(1, CALLS + 1):
            await client.send(give(number, modern=modern))
        await a_bystander_is_served(port)
        assert 0 < agent.calls <= BOUND
        answers = [await client.next() for _ in range(CALLS)]
        assert sorted(answer["id"] for answer in answers) == list(range(1, CALLS + 1))
        assert all(len(answer["result"]["content"][0]["text"]) == SIZE for answer in answers)
        assert agent.calls == CALLS


@asynccontextmanager
async def sse_stream(port: int) -> AsyncGenerator[tuple[anyio.abc.SocketStream, str]]:
    """An event stream of the legacy transport, after the handshake, and where its messages are posted."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET /sse HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        seen = b""
        while b"session_id=" not in seen:
            seen += await stream.receive()
        path = f"/messages/?session_id={seen.partition(b'session_id=')[2].split()[0].decode()}"
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await http.post(path, json=HELLO)
            while b"serverInfo" not in seen:
                seen += await stream.receive()
            await http.post(path, json=GREETED)
        yield stream, path


async def ask(port: int, path: str) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        for number in range(1, CALLS + 1):
            with suppress(httpx2.RemoteProtocolError):  # the connection of a message that came as the stream ended
                assert (await http.post(path, json=give(number))).status_code in (202, 404)


@pytest.mark.requirement("F-320")
async def test_calls_of_a_client_on_an_event_stream_that_reads_nothing_wait_and_all_are_answered_when_it_reads() -> (
    None
):
    agent = GivingAgent()
    async with serving(agent) as (_, port), sse_stream(port) as (stream, path):
        await ask(port, path)
        await a_bystander_is_served(port)
        assert 0 < agent.calls <= BOUND + BUFFERED // SIZE
        received = 0
        while received < CALLS * SIZE:
            received += len(await stream.receive())
        assert agent.calls == CALLS


@pytest.mark.requirement("F-320")
async def test_of_streams_on_which_too_much_waits_for_the_process_the_fullest_is_ended_and_said_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = GivingAgent()
    limits = BacklogLimits(client_bytes=100 * SIZE, total_bytes=4 * SIZE, large=SIZE // 2, at_once=8)
    async with serving(agent, limits) as (_, port), sse_stream(port) as (stream, path):
        await ask(port, path)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive()
        await a_bystander_is_served(port)
    assert "of its answers unread" in caplog.text
    assert agent.calls < CALLS


@pytest.mark.requirement("F-320")
@pytest.mark.parametrize("modern", [False, True])
async def test_of_calls_that_may_be_large_only_so_many_are_made_at_once_over_many_connections(modern: bool) -> None:
    agent = GivingAgent()
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN if modern else LEGACY}
    running, worst = 0, 0
    original = agent.execute_mcp_tool

    async def counted(tool_name: str, arguments: JSON) -> str:
        nonlocal running, worst
        running += 1
        worst = max(worst, running)
        await asyncio.sleep(0.01)
        running -= 1
        return await original(tool_name, arguments)

    agent.execute_mcp_tool = counted  # type: ignore[method-assign]
    async with serving(agent) as (_, port):
        base = f"http://127.0.0.1:{port}"
        limits = httpx2.Limits(max_connections=100)
        async with httpx2.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=PATIENCE * 2) as client:
            if modern:
                client.headers |= {"mcp-method": "tools/call", "mcp-name": "give"}
            else:
                handshake = await client.post("/mcp", json=HELLO)
                client.headers |= {"mcp-session-id": handshake.headers["mcp-session-id"]}
                await client.post("/mcp", json=GREETED)
            sizes: list[int] = []

            async def one(number: int) -> None:
                sizes.append(len((await client.post("/mcp", json=give(number, modern=modern))).content))

            async with anyio.create_task_group() as tasks:
                for number in range(1, 61):
                    tasks.start_soon(one, number)
    assert len(sizes) == 60
    assert min(sizes) > SIZE
    assert worst <= 8


# The budget alone: what a connection of any kind can rely on


@pytest.fixture
def backlog() -> Backlog:
    return Backlog(BacklogLimits(client_bytes=10, total_bytes=30, large=5, at_once=2, patience=0.05))


async def begun(backlog: Backlog, client: str, target: str, cut: Callable[[], None] | None = None) -> CallTurn:
    with anyio.fail_after(PATIENCE):
        return await backlog.begin(client, ("tools/call", target), cut)


@pytest.mark.requirement("F-320")
async def test_what_has_answered_little_is_called_at_once_and_what_is_unknown_in_turn(backlog: Backlog) -> None:
    first = await begun(backlog, "one", "small")
    first.answered(1)
    first.over()
    turns = [await begun(backlog, "one", "small") for _ in range(10)]
    turns += [await begun(backlog, "one", "unknown") for _ in range(2)]
    with pytest.raises(ProtocolError, match="Read the answers"):
        await begun(backlog, "one", "unknown")
    turns.append(await begun(backlog, "two", "unknown"))
    turns[-2].over()
    turns.append(await begun(backlog, "one", "unknown"))
    for turn in turns:
        turn.over()
    assert backlog.held == 0


async def test_it_names_the_calls_that_are_made_or_wait_and_are_not_over() -> None:
    backlog = Backlog(BacklogLimits(client_bytes=10, total_bytes=30, large=5, at_once=2, patience=PATIENCE))
    turns = [await begun(backlog, client, "unknown") for client in ("one", "one", "two")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begun, backlog, "one", "late")
        await anyio.wait_all_tasks_blocked()
        assert sorted(name for _, name in backlog.targets) == ["late", "unknown", "unknown", "unknown"]
        tasks.cancel_scope.cancel()
    for turn in turns[:2]:
        turn.over()
    assert backlog.targets == [("tools/call", "unknown")]
    turns[2].answered(1)
    assert backlog.targets == [("tools/call", "unknown")]
    turns[2].over()
    assert backlog.targets == []


async def test_of_large_answers_only_so_many_are_asked_for_at_once_as_may_wait(backlog: Backlog) -> None:
    first = await begun(backlog, "one", "large")
    first.answered(10)
    first.over()
    turns = [await begun(backlog, "one", "large")]
    with pytest.raises(ProtocolError, match="Read the answers"):
        await begun(backlog, "one", "large")
    turns[0].over()
    turns.append(await begun(backlog, "one", "large"))
    turns[1].over()
    assert backlog.held == 0


async def test_memory_is_given_back_when_much_that_waited_has_left(
    backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = anyio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(module, "return_free_memory", lambda: loop.call_soon_threadsafe(returned.set))
    for size, is_returned in ((9, False), (12, True)):
        turn = await begun(backlog, "one", "tool")
        turn.answered(size)
        assert not returned.is_set()
        turn.over()
        if is_returned:
            with anyio.fail_after(PATIENCE):
                await returned.wait()


@pytest.mark.requirement("F-320")
async def test_nothing_of_a_client_is_called_while_much_waits_for_it_and_its_words_say_so(backlog: Backlog) -> None:
    turn = await begun(backlog, "one", "tool")
    turn.answered(12)
    with pytest.raises(ProtocolError, match="12 bytes of answers wait for this client"):
        await begun(backlog, "one", "tool")
    turn.over()
    (await begun(backlog, "one", "tool")).over()


@pytest.mark.requirement("F-320")
async def test_a_call_that_takes_long_makes_way_for_the_next() -> None:
    backlog = Backlog(BacklogLimits(at_once=1, interval=0.01))
    slow = await begun(backlog, "one", "slow")
    other = await begun(backlog, "one", "other")
    for turn in (slow, other):
        turn.over()


@pytest.mark.requirement("F-320")
@pytest.mark.parametrize(
    "how", ["sent", "sent before it is answered", "sent twice", "never answered", "while it waits"]
)
async def test_however_a_call_ends_nothing_of_it_is_counted_any_more(backlog: Backlog, how: str) -> None:
    turn = await begun(backlog, "one", "tool")
    if how == "while it waits":
        second = await begun(backlog, "one", "tool")
        with anyio.move_on_after(0.001):
            await begun(backlog, "one", "tool")
        second.over()
    if how == "sent before it is answered":  # the client has left meanwhile
        turn.over()
    if how != "never answered":
        turn.answered(7)
    for _ in range(2 if how == "sent twice" else 1):
        turn.over()
    assert backlog.held == 0
    full = [await begun(backlog, "one", "another") for _ in range(2)]
    for turn in full:
        turn.over()


@pytest.mark.requirement("F-320")
async def test_each_answer_is_counted_until_it_has_left(backlog: Backlog) -> None:
    turns = [await begun(backlog, "one", "tool") for _ in range(2)]
    for turn in turns:
        turn.answered(4)
    assert backlog.held == 8
    turns[0].over()
    assert backlog.held == 4
    turns[1].over()
    assert backlog.held == 0


@pytest.mark.requirement("F-320")
async def test_when_too_much_waits_for_the_process_the_fullest_way_that_can_be_ended_is(backlog: Backlog) -> None:
    ended: list[str] = []
    turns = [
        await begun(backlog, "whose way ends by itself", "tool"),
        await begun(backlog, "fuller", "tool", lambda: ended.append("fuller")),
        await begun(backlog, "less full", "tool", lambda: ended.append("less full")),
    ]
    for turn, size in zip(turns, (15, 9, 7), strict=True):
        assert ended == []
        turn.answered(size)
    assert ended == ["fuller"]
    for turn in turns:
        turn.over()
    assert backlog.held == 0


class Direct(NamedTuple):
    target: Target


async def answered_once(backlog: Backlog, target: str, size: int) -> Direct:
    turn = await begun(backlog, "anyone", target)
    turn.answered(size)
    turn.over()
    return Direct(("tools/call", target))


async def test_a_call_is_direct_where_a_small_answer_is_expected_and_little_waits_for_its_client(
    backlog: Backlog,
) -> None:
    small, large = await answered_once(backlog, "small", 1), await answered_once(backlog, "large", 5)
    assert not backlog.begin_direct("one", Direct(("tools/call", "unknown")))
    assert not backlog.begin_direct("one", large)
    assert backlog.begin_direct("one", small)
    assert backlog.targets == [small.target]
    backlog.end_direct("one", small, 1)
    assert backlog.targets == []
    full = await begun(backlog, "one", "full")
    full.answered(10)
    assert not backlog.begin_direct("one", small)
    assert backlog.begin_direct("two", small)
    full.over()
    assert backlog.begin_direct("one", small)
    backlog.end_direct("one", small, 5)
    assert not backlog.begin_direct("one", small), "its last answer was large"
    backlog.end_direct("two", small)


async def test_a_direct_call_does_not_overtake_calls_that_wait_for_the_same_client() -> None:
    backlog = Backlog(BacklogLimits(at_once=1, patience=PATIENCE))
    small = await answered_once(backlog, "small", 1)
    first = await begun(backlog, "one", "unknown")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begun, backlog, "one", "unknown")
        await anyio.wait_all_tasks_blocked()
        assert not backlog.begin_direct("one", small)
        tasks.cancel_scope.cancel()
    first.over()
