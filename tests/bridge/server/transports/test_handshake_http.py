"""Clients with sessions, over HTTP: what is theirs stays theirs, and a stream that breaks can be taken up again."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from starlette.types import ASGIApp, Message

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import BacklogLimits, HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

BASE = "http://127.0.0.1:8765"
LATEST, BATCHING = "2025-11-25", "2025-03-26"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
EVENTS_ONLY = {"accept": "text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PRESENT = '{"jsonrpc":"2.0","id":2,"result":{}}'


class Agent(ScriptedAgent):
    """Has a tool that says something before it answers, one that answers when it is let, and one that asks the user."""

    def __init__(self) -> None:
        super().__init__(self._execute, "tell", "wait", "ask")
        self.called = anyio.Event()
        self.let = threading.Event()
        self.calls = 0

    def _execute(self, name: str, arguments: JSON) -> Any:
        self.calls += 1
        if name == "tell":
            get_request_context().log(arguments["secret"])
        elif name == "ask":
            return get_request_context().elicit("Sure?", {"sure": {"type": "boolean"}}).action
        else:
            assert self.let.wait(PATIENCE)
        return arguments.get("secret", "x" * 1_000)


class Client:
    """One client: raw JSON-RPC over HTTP, with its session.

    Args:
        http: Carries its requests.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.session: dict[str, str] = {}

    async def post(self, message: object, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        every = {**HEADERS, **self.session, **(headers or {})}
        return await self.http.post("/mcp", content=json.dumps(message).encode(), headers=every)

    async def hello(self, revision: str = LATEST, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        params: JSON = {
            "protocolVersion": revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        }
        return await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, headers)

    async def open(self, revision: str = LATEST) -> None:
        answer = await self.hello(revision)
        self.session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": revision}
        assert (await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status_code == 202

    async def tell(self, secret: str, number: int = 7) -> list[dict[str, str]]:
        """The events of a call that has something said before its answer."""
        return events_of((await self.post(call("tell", number, secret=secret))).text)

    async def resume(self, last_event_id: str) -> list[dict[str, str]]:
        headers = {**EVENTS_ONLY, "last-event-id": last_event_id, **self.session}
        answer = await self.http.get("/mcp", headers=headers)
        assert answer.status_code == 200
        return events_of(answer.text)


class Request:
    """One request of which each part is seen when it comes, and which its client can leave.

    Args:
        app: Answers it.
        session: The headers of the session.
        message: The body.
        accept: What the client takes.
        method: The HTTP method.
        path: Where it is sent to.
    """

    def __init__(
        self,
        app: ASGIApp,
        session: Mapping[str, str],
        message: object,
        accept: str = HEADERS["accept"],
        method: str = "POST",
        path: str = "/mcp",
    ) -> None:
        self.begun = anyio.Event()
        """Whether the head of the answer came."""
        self.leave = anyio.Event()
        self.head: dict[str, str] = {}
        self.text = ""
        self._more = anyio.Event()
        self._app = app
        self._body: list[Message] = [{"type": "http.request", "body": json.dumps(message).encode()}]
        headers = {**HEADERS, **session, "accept": accept, "host": "127.0.0.1:8765"}
        self._scope: Any = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
        }

    async def __call__(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.head = {name.decode(): value.decode() for name, value in message["headers"]}
            self.begun.set()
        else:
            self.text += message.get("body", b"").decode()
            self._more.set()
            self._more = anyio.Event()

    async def until(self, part: str) -> None:
        """Wait for a part of the answer."""
        while part not in self.text:
            await self._more.wait()


def call(name: str, number: int, **arguments: Any) -> JSON:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def events_of(text: str) -> list[dict[str, str]]:
    """The fields of each event of a stream."""
    blocks = [block for block in text.split("\r\n\r\n") if block]
    return [dict(line.split(": ", 1) for line in block.split("\r\n") if ": " in line) for block in blocks]


@asynccontextmanager
async def publishing(
    agent: Agent | None = None, http: HttpLimits | None = None, backlog: BacklogLimits | None = None
) -> AsyncGenerator[ASGIApp]:
    """The application of a bridge, with an agent under `/agents/one` as well."""
    agent = agent or Agent()
    settings = Settings(http=http or HttpLimits(), backlog=backlog or BacklogLimits())
    with anyio.fail_after(PATIENCE):
        async with Bridge(settings=settings) as bridge:
            await bridge.add_agent(agent, "one")
            try:
                yield bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))
            finally:
                agent.let.set()


def client_of(app: ASGIApp, path: str = "") -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE + path)


# Whose a session is


@pytest.mark.requirement("S-11", "F-097")
async def test_sessions_that_use_the_same_request_id_never_see_each_others_events() -> None:
    async with publishing() as app, client_of(app) as http:
        alice, bob = Client(http), Client(http)
        await alice.open()
        await bob.open()
        of_alice, of_bob = await alice.tell("the secret of Alice"), await bob.tell("the secret of Bob")
        assert await alice.resume(of_alice[0]["id"]) == of_alice[1:]
        assert await bob.resume(of_bob[0]["id"]) == of_bob[1:]
        assert await bob.resume(of_alice[0]["id"]) == []
        assert await alice.resume(of_bob[0]["id"]) == []
        for events, name in ((of_alice, "Alice"), (of_bob, "Bob")):
            assert [f"secret of {name}" in event["data"] for event in events] == [False, True, True]


@pytest.mark.requirement("S-10", "F-094")
async def test_a_guessed_deleted_or_foreign_session_is_not_found() -> None:
    async with publishing() as app, client_of(app) as http, client_of(app, "/agents/one") as elsewhere:
        kept, deleted, foreign = Client(http), Client(http), Client(elsewhere)
        for client in (kept, deleted, foreign):
            await client.open()
        assert (await http.delete("/mcp", headers=deleted.session)).status_code == 200
        answers = [
            await http.post("/mcp", json=PING, headers={**HEADERS, **session})
            for session in (deleted.session, foreign.session, {"mcp-session-id": "0" * 32})
        ]
        assert [(answer.status_code, answer.text) for answer in answers] == [(404, answers[0].text)] * 3
        assert [(await client.post(PING)).status_code for client in (kept, foreign)] == [200, 200]


async def test_a_call_by_hand_without_a_session_is_told_where_such_calls_go() -> None:
    async with publishing() as app, client_of(app) as http:
        refused = await http.post("/mcp", json=PING, headers={"accept": "*/*"})
        assert refused.status_code == 400
        assert "A session begins with 'initialize'; single calls without one go to POST /" in refused.text
        assert (await http.post("/", json=PING, headers={"accept": "*/*"})).json()["result"] == {}


@pytest.mark.requirement("S-10")
async def test_session_ids_are_random() -> None:
    async with publishing() as app, client_of(app) as http:
        ids = [(await Client(http).hello()).headers["mcp-session-id"] for _ in range(50)]
    assert len(set(ids)) == 50
    # A random UUID has 122 free bits; over 50 of them each of the free hexadecimal places takes many values.
    assert all(len({session_id[place] for session_id in ids}) > 4 for place in range(32) if place not in (12, 16))


# What an answer comes as


async def test_who_takes_json_alone_is_answered_in_json_without_what_is_said_before() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        answer = await client.post(call("tell", 7, secret="x"), {"accept": "application/json"})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["content"][0]["text"] == "x"
        asked = (await client.post(call("ask", 8), {"accept": "application/json"})).json()
        assert asked["result"]["isError"]  # nobody can be asked there


@pytest.mark.requirement("F-247")
async def test_a_stream_begins_with_a_primer_that_says_when_to_come_back() -> None:
    async with publishing(http=HttpLimits(retry_interval=250)) as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        primer, said, answer = await client.tell("x")
    assert (primer["retry"], primer.get("data", "")) == ("250", "")
    assert all(event["id"] for event in (primer, said, answer))
    assert json.loads(said["data"])["method"] == "notifications/message"
    assert json.loads(answer["data"])["id"] == 7


@pytest.mark.requirement("F-247")
async def test_the_answer_to_a_handshake_is_never_behind_a_primer() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        assert (await client.hello()).json()["id"] == 0
        [event] = events_of((await client.hello(headers=EVENTS_ONLY)).text)
        assert json.loads(event["data"])["id"] == 0


async def test_clients_before_2025_11_25_are_sent_no_primer() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open(BATCHING)
        said, answer = await client.tell("x")
        assert ("method" in json.loads(said["data"]), json.loads(answer["data"])["id"]) == (True, 7)


async def test_an_answer_that_comes_soon_is_plain_json_unless_its_client_takes_events_only() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        plain = await client.post({**PING, "id": 2})
        assert (plain.headers["content-type"], plain.text) == ("application/json", PRESENT)
        assert plain.headers["mcp-session-id"] == client.session["mcp-session-id"]
        streamed = await client.post({**PING, "id": 2}, EVENTS_ONLY)
        assert streamed.headers["content-type"].startswith("text/event-stream")
        primer, answer = events_of(streamed.text)
        assert ("retry" in primer, answer["data"]) == (True, PRESENT)


async def test_an_answer_that_takes_longer_is_an_event_stream_from_then_on() -> None:
    agent = Agent()
    async with publishing(agent, HttpLimits(quick_answer=0.001)) as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        slow = Request(app, client.session, call("wait", 7))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow)
            await slow.begun.wait()
            agent.let.set()
        assert slow.head["content-type"].startswith("text/event-stream")
        primer, answer = events_of(slow.text)
        assert ("retry" in primer, json.loads(answer["data"])["id"]) == (True, 7)


@pytest.mark.requirement("S-11")
async def test_who_leaves_an_open_stream_comes_back_for_the_answer() -> None:
    agent = Agent()
    async with publishing(agent, HttpLimits(quick_answer=0.001)) as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        left = Request(app, client.session, call("wait", 7))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left)
            await left.until("retry: ")
            left.leave.set()
        agent.let.set()
        [primer] = events_of(left.text)
        [answer] = await client.resume(primer["id"])
        assert json.loads(answer["data"])["id"] == 7
        assert await client.resume(answer["id"]) == []  # the stream is over


async def test_who_has_seen_no_event_listens_to_what_is_new() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        listening = Request(app, {**client.session, "last-event-id": ""}, None, EVENTS_ONLY["accept"], "GET")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listening)
            await listening.begun.wait()
            assert (await http.get("/mcp", headers={**EVENTS_ONLY, **client.session})).status_code == 409
            listening.leave.set()


async def test_a_later_request_with_the_same_id_is_on_another_stream() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        first, second = await client.tell("first"), await client.tell("second")
        assert await client.resume(first[0]["id"]) == first[1:]
        assert await client.resume(second[0]["id"]) == second[1:]


# Calls that are given up


@pytest.mark.requirement("F-320")
async def test_who_leaves_before_its_call_is_made_is_kept_from_nothing_by_the_answer() -> None:
    agent = Agent()
    limits = BacklogLimits(client_bytes=1_000, large=1, at_once=1, interval=3_600.0, patience=PATIENCE)
    async with publishing(agent, HttpLimits(quick_answer=0.001), limits) as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        made, waiting = (Request(app, client.session, call("wait", number)) for number in (1, 2))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made)
            await made.begun.wait()
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(waiting)
                await waiting.begun.wait()
                waiting.leave.set()
            agent.let.set()
        assert "result" in (await client.post(call("wait", 3))).text
        assert "result" in (await client.post(call("wait", 4))).text
        assert agent.calls == 4


async def test_who_leaves_a_single_call_gives_it_up() -> None:
    agent, started, gone = Agent(), threading.Event(), threading.Event()

    def work(name: str, arguments: JSON) -> JSON:
        started.set()
        if get_request_context().wait_cancelled(PATIENCE):
            gone.set()
        return {}

    agent.execute_mcp_tool = work
    async with publishing(agent) as app:
        left = Request(app, {}, call("wait", 1), path="/")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left)
            await wait_in_thread(started.wait)
            left.leave.set()
        assert not left.begun.is_set()
        await wait_in_thread(gone.wait)


@pytest.mark.requirement("F-078")
async def test_every_message_of_the_longest_batch_is_answered_whatever_it_is() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open(BATCHING)
        most = HttpLimits().batch
        answer = await client.post([*[5] * (most - 1), {**PING, "id": 2}])
        messages = [json.loads(event["data"]) for event in events_of(answer.text)]
        assert [message["error"]["code"] for message in messages if "error" in message] == [-32600] * (most - 1)
        assert [message["id"] for message in messages if "result" in message] == [2]


async def test_a_batch_can_cancel_what_it_asks_for() -> None:
    agent = Agent()
    async with publishing(agent) as app, client_of(app) as http:
        client = Client(http)
        await client.open(BATCHING)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        answer = await client.post([call("wait", 7), cancel, {**PING, "id": 2}])
        messages = {message["id"]: message for message in (json.loads(e["data"]) for e in events_of(answer.text))}
        assert messages[7]["error"]["message"] == "Request cancelled"
        assert messages[2]["result"] == {}
        assert agent.calls == 0


async def test_a_cancelled_request_of_a_batch_ends_with_a_response_as_others_do() -> None:
    agent = Agent()
    async with publishing(agent) as app, client_of(app) as http:
        client = Client(http)
        await client.open(BATCHING)
        batch = Request(app, client.session, [call("wait", 7), {**PING, "id": 2}])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batch)
            await batch.until('"id":2')
            params = {"requestId": 7}
            await client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        messages = {
            message["id"]: message for message in (json.loads(event["data"]) for event in events_of(batch.text))
        }
        assert messages.keys() == {2, 7}
        assert messages[7]["error"]["message"] == "Request cancelled"


async def test_the_question_of_a_cancelled_request_is_taken_back_before_the_answer() -> None:
    async with publishing() as app, client_of(app) as http:
        client = Client(http)
        await client.open()
        asked = Request(app, client.session, call("ask", 7))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked)
            await asked.until("elicitation/create")
            params = {"requestId": 7}
            await client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        question, taken_back, answer = (json.loads(e["data"]) for e in events_of(asked.text) if e.get("data"))
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"]["requestId"] == question["id"]
        assert answer["error"]["message"] == "Request cancelled"
