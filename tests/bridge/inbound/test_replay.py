from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    TextContent,
)

from gaia_bridge.inbound.replay import ReplayingSessionManager, ReplayStore
from gaia_bridge.settings import HttpLimits

pytestmark = pytest.mark.anyio

VERSION = "2025-11-25"
HEADERS = {"Accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def response(request_id: int = 1) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=request_id, result={"text": "done"})


def make_store(max_events: int = 100, max_bytes: int = 1_000_000) -> ReplayStore:
    return ReplayStore(max_events, max_bytes)


async def replay(store: ReplayStore, after: str) -> tuple[str | None, list[EventMessage]]:
    """What a client that resumes gets: the stream that stays open for it, and the events."""
    sent: list[EventMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event)

    return await store.replay_events_after(after, send), sent


# The store


@pytest.mark.requirement("S-11")
async def test_what_followed_on_the_same_stream_is_replayed_in_order_with_its_ids() -> None:
    store = make_store()
    primer = await store.store_event("1", None)
    first = await store.store_event("1", note("a"))
    await store.store_event("2", note("other stream"))
    await store.store_event(GET_STREAM_KEY, note("other stream"))
    second = await store.store_event("1", note("b"))
    stream, events = await replay(store, primer)
    assert stream == "1"
    assert events == [EventMessage(note("a"), first), EventMessage(note("b"), second)]
    assert await replay(store, first) == ("1", [EventMessage(note("b"), second)])
    assert await replay(store, second) == ("1", [])


@pytest.mark.requirement("S-11")
async def test_a_primer_is_no_message_and_is_not_replayed() -> None:
    store = make_store()
    first = await store.store_event("1", note("a"))
    await store.store_event("1", None)
    assert await replay(store, first) == ("1", [])


@pytest.mark.parametrize(
    "end", [response(), JSONRPCError(jsonrpc="2.0", id=1, error=ErrorData(code=-32603, message="failed"))]
)
async def test_a_stream_that_carried_its_response_is_replayed_and_then_ended(end: JSONRPCMessage) -> None:
    store = make_store()
    primer = await store.store_event("1", None)
    last = await store.store_event("1", end)
    assert await replay(store, primer) == (None, [EventMessage(end, last)])
    assert await replay(store, last) == (None, [])


async def test_a_later_request_with_the_same_id_is_another_stream() -> None:
    store = make_store()
    primer = await store.store_event("1", None)
    last = await store.store_event("1", response())
    await store.store_event("1", None)
    await store.store_event("1", note("of the second request"))
    assert await replay(store, primer) == (None, [EventMessage(response(), last)])
    assert await replay(store, last) == (None, [])


async def test_an_error_without_a_request_does_not_end_the_standalone_stream() -> None:
    store = make_store()
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=-32700, message="Parse error"))
    first = await store.store_event(GET_STREAM_KEY, note("a"))
    second = await store.store_event(GET_STREAM_KEY, error)
    assert await replay(store, first) == (GET_STREAM_KEY, [EventMessage(error, second)])
    assert await replay(store, second) == (GET_STREAM_KEY, [])


@pytest.mark.requirement("S-11", "F-097")
@pytest.mark.parametrize(
    "forged", ["", "0", "1", "-1", "x-0", "{id}0", "{id} ", " {id}", "0{id}", "{prefix}", "{prefix}-٠"]
)
async def test_a_forged_id_replays_nothing(forged: str) -> None:
    store = make_store()
    event_id = await store.store_event("1", note("a"))
    await store.store_event("1", note("b"))
    prefix = event_id.rpartition("-")[0]
    assert await replay(store, forged.format(id=event_id, prefix=prefix)) == (None, [])


@pytest.mark.requirement("S-11", "F-097")
async def test_an_id_of_another_store_replays_nothing() -> None:
    one, other = make_store(), make_store()
    ids = [await store.store_event("1", note("a")) for store in (one, other)]
    await one.store_event("1", note("b"))
    assert len(set(ids)) == 2
    assert await replay(one, ids[1]) == (None, [])


async def test_an_id_that_is_yet_to_come_replays_nothing() -> None:
    store = make_store()
    event_id = await store.store_event("1", note("a"))
    assert await replay(store, event_id.removesuffix("0") + "1") == (None, [])


@pytest.mark.requirement("S-11")
async def test_the_oldest_events_go_when_there_are_too_many() -> None:
    store = make_store(max_events=3)
    ids = [await store.store_event("1", note(str(number))) for number in range(5)]
    assert [await replay(store, event_id) for event_id in ids[:2]] == [(None, []), (None, [])]
    _, events = await replay(store, ids[2])
    assert [event.event_id for event in events] == ids[3:]


@pytest.mark.requirement("S-11")
async def test_the_oldest_events_go_when_they_are_too_large() -> None:
    store = make_store(max_bytes=10_000)
    ids = [await store.store_event("1", note("x" * 4_000)) for _ in range(3)]
    assert await replay(store, ids[0]) == (None, [])
    _, events = await replay(store, ids[1])
    assert [event.event_id for event in events] == ids[2:]


async def test_an_event_over_the_limit_is_delivered_but_not_kept() -> None:
    store = make_store(max_bytes=10_000)
    before = await store.store_event("1", note("a"))
    huge = await store.store_event("1", note("x" * 20_000))
    after = await store.store_event("1", note("b"))
    assert len({before, huge, after}) == 3
    assert await replay(store, before) == (None, [])
    assert await replay(store, huge) == (None, [])
    assert await replay(store, after) == ("1", [])


async def test_what_is_stored_while_the_client_catches_up_is_sent_as_well() -> None:
    store = make_store()
    first = await store.store_event("1", note("a"))
    await store.store_event("1", note("b"))
    sent: list[JSONRPCMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event.message)
        if len(sent) < 3:
            await store.store_event("1", note(f"new {len(sent)}"))

    assert await store.replay_events_after(first, send) == "1"
    assert sent == [note("b"), note("new 1"), note("new 2")]


async def test_a_gap_that_opens_while_the_client_catches_up_ends_the_stream() -> None:
    store = make_store(max_events=3)
    first = await store.store_event("1", note("a"))
    await store.store_event("1", note("b"))
    await store.store_event("1", note("c"))
    sent: list[JSONRPCMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event.message)
        for _ in range(3):
            await store.store_event("2", note("flood"))

    assert await store.replay_events_after(first, send) is None
    assert sent == [note("b")]


@pytest.mark.requirement("S-11")
@given(
    streams=st.lists(st.sampled_from(["1", "2", GET_STREAM_KEY]), min_size=1, max_size=30),
    max_events=st.integers(1, 40),
    data=st.data(),
)
def test_a_replay_is_the_rest_of_the_stream_or_nothing(
    streams: list[str], max_events: int, data: st.DataObject
) -> None:
    resumed = data.draw(st.integers(0, len(streams) - 1), label="resumed")

    async def scenario() -> None:
        store = make_store(max_events=max_events)
        ids = [await store.store_event(stream, note(str(number))) for number, stream in enumerate(streams)]
        stream, events = await replay(store, ids[resumed])
        if resumed < len(streams) - max_events:
            assert (stream, events) == (None, [])
        else:
            assert stream == streams[resumed]
            assert [event.event_id for event in events] == [
                event_id
                for event_id, other in list(zip(ids, streams, strict=True))[resumed + 1 :]
                if other == streams[resumed]
            ]

    anyio.run(scenario)


# Sessions of the SDK, over HTTP


async def echo(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=str((params.arguments or {})["secret"]))])


class Client:
    """One legacy client: raw JSON-RPC over HTTP, with its session."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.session: dict[str, str] = {}

    async def post(self, message: dict[str, Any]) -> httpx2.Response:
        return await self._http.post("/mcp", json={"jsonrpc": "2.0", **message}, headers={**HEADERS, **self.session})

    async def initialize(self) -> httpx2.Response:
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        return await self.post({"id": 0, "method": "initialize", "params": params})

    async def open(self) -> None:
        answer = await self.initialize()
        self.session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": VERSION}
        assert (await self.post({"method": "notifications/initialized"})).status_code == 202

    async def call(self, request_id: int, secret: str) -> list[dict[str, str]]:
        params = {"name": "echo", "arguments": {"secret": secret}}
        answer = await self.post({"id": request_id, "method": "tools/call", "params": params})
        return events_of(answer.text)

    async def resume(self, last_event_id: str) -> list[dict[str, str]]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": last_event_id, **self.session}
        answer = await self._http.get("/mcp", headers=headers)
        assert answer.status_code == 200
        return events_of(answer.text)


def events_of(text: str) -> list[dict[str, str]]:
    """The fields of each event of a stream."""
    blocks = [block for block in text.replace("\r\n", "\n").split("\n\n") if block]
    return [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in blocks]


@asynccontextmanager
async def serving(manager: ReplayingSessionManager) -> AsyncGenerator[httpx2.AsyncClient]:
    """An HTTP client of the manager's server, without sockets."""
    transport = httpx2.ASGITransport(manager.handle_request)
    with anyio.fail_after(5):
        async with manager.run(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            yield http


def make_manager(limits: HttpLimits | None = None) -> ReplayingSessionManager:
    return ReplayingSessionManager(Server("test", on_call_tool=echo), limits)


@pytest.mark.requirement("S-11", "F-097")
async def test_sessions_that_use_the_same_request_id_never_see_each_others_events() -> None:
    async with serving(make_manager()) as http:
        alice, bob = Client(http), Client(http)
        await alice.open()
        await bob.open()
        of_alice = await alice.call(7, "the secret of Alice")
        of_bob = await bob.call(7, "the secret of Bob")
        primer_of_alice, primer_of_bob = of_alice[0]["id"], of_bob[0]["id"]
        assert await alice.resume(primer_of_alice) == of_alice[1:]
        assert await bob.resume(primer_of_bob) == of_bob[1:]
        assert await bob.resume(primer_of_alice) == []
        assert await alice.resume(primer_of_bob) == []
        assert "Alice" in json.dumps(of_alice[1:])
        assert "Bob" in json.dumps(of_bob[1:])


async def test_every_session_has_exactly_one_store() -> None:
    """The way this is done rests on the SDK reading `event_store` once for each session and never otherwise."""
    reads = 0

    class Counting(ReplayingSessionManager):
        @property
        def event_store(self) -> ReplayStore:
            nonlocal reads
            reads += 1
            return make_store()

        @event_store.setter
        def event_store(self, value: object) -> None: ...

    manager = Counting(Server("test", on_call_tool=echo))
    async with serving(manager) as http:
        for opened in range(3):
            client = Client(http)
            await client.open()
            await client.call(1, "x")
            assert reads == opened + 1


@pytest.mark.requirement("S-10", "F-094")
async def test_a_guessed_deleted_or_foreign_session_is_not_found() -> None:
    """Foreign is a session of another endpoint: each endpoint has a manager of its own."""
    async with serving(make_manager()) as http, serving(make_manager()) as other_http:
        kept, deleted, foreign = Client(http), Client(http), Client(other_http)
        for client in (kept, deleted, foreign):
            await client.open()
        assert (await http.delete("/mcp", headers=deleted.session)).status_code == 200
        answers = [
            await http.post("/mcp", json=PING, headers={**HEADERS, **session})
            for session in (deleted.session, foreign.session, {"Mcp-Session-Id": "0" * 32})
        ]
        assert [(answer.status_code, answer.text) for answer in answers] == [(404, answers[0].text)] * 3
        assert (await http.post("/mcp", json=PING, headers={**HEADERS, **kept.session})).status_code == 200


@pytest.mark.requirement("S-10")
async def test_session_ids_are_random() -> None:
    async with serving(make_manager()) as http:
        ids = [(await Client(http).initialize()).headers["mcp-session-id"] for _ in range(50)]
    assert len(set(ids)) == 50
    # A random UUID has 122 free bits; over 50 of them each of the free hexadecimal places takes many values.
    assert all(len({session_id[place] for session_id in ids}) > 4 for place in range(32) if place not in (12, 16))


async def test_a_stream_begins_with_a_primer_that_says_when_to_come_back() -> None:
    async with serving(make_manager(HttpLimits(retry_interval=250))) as http:
        client = Client(http)
        await client.open()
        primer, answer = await client.call(1, "x")
    assert primer["retry"] == "250"
    assert primer["id"]
    assert json.loads(answer["data"])["id"] == 1


def test_a_store_for_all_sessions_cannot_be_set() -> None:
    manager = make_manager()
    with pytest.raises(TypeError, match="each session has its own"):
        manager.event_store = make_store()
