"""Nothing of one client reaches another: every interleaving of calls, questions, logs, progress, failures and tasks.

Two clients, of one name or of two, in each pair of eras and ways of connecting, use a server at once. Whatever goes
back and forth for one of them carries a secret of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, ScriptedTransport, Wire, legacy, modern
from tests.support.bridges import RunningBridge, running_bridge
from tests.support.clients_of_revisions import RevisionClient, envelope
from tests.support.upstreams import until_ready

pytestmark = pytest.mark.anyio

NAMES = ("alice", "bob")
TASKS: JSON = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
RELATED = "io.modelcontextprotocol/related-task"
QUESTION: JSON = {
    "a call that ended without the answer to its question": [
        *[("begin", "alice"), ("begin", "bob"), ("ask", "alice"), ("give up", "alice"), ("log", "bob"), ("end", "bob")]
    ],
    "requestedSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
}
TURNS = 60
"""Steps of the loop in which whatever was said has reached whoever hears it."""

Way = Literal["stream 2025-06-18", "stream 2025-11-25", "stream 2026-07-28", "http 2026-07-28"]
Server = Literal["legacy", "legacy that says for which call", "modern"]
WAYS: tuple[Way, ...] = ("stream 2025-06-18", "stream 2025-11-25", "stream 2026-07-28", "http 2026-07-28")
SERVERS: tuple[Server, ...] = ("legacy", "legacy that says for which call", "modern")
PATHS = ("", "servers/up")
STEPS = ("begin", "make task", "log", "progress", "ask", "finish link", "end", "fail", "cancel", "look at tasks")
LATE = {
    "asks after a cancellation": [("begin", "alice"), ("cancel", "alice"), ("begin", "bob"), ("ask", "alice")],
    "logs after a cancellation": [("begin", "alice"), ("cancel", "alice"), ("begin", "bob"), ("log", "alice")],
    "asks after its answer": [("begin", "alice"), ("end", "alice"), ("begin", "bob"), ("ask", "alice")],
    "logs after its answer": [("begin", "alice"), ("end", "alice"), ("begin", "bob"), ("log", "alice")],
    "logs when nobody calls": [("begin", "alice"), ("end", "alice"), ("log", "alice")],
    "asks for a task": [("make task", "alice"), ("end", "alice"), ("begin", "bob"), ("ask", "alice")],
    "logs for a task": [("make task", "alice"), ("end", "alice"), ("begin", "bob"), ("log", "alice")],
    "says that a link was opened": [
        ("begin", "alice"), ("ask", "alice"), ("end", "alice"), ("begin", "bob"), ("finish link", "alice")
    ],
}  # fmt: skip
"""What a server does late for a client, while another one calls."""


async def settle() -> None:
    """Let everybody hear what was said."""
    for _ in range(TURNS):
        await checkpoint()


def secret(name: str) -> str:
    return f"secret of {name}"


class ServerEnd:
    """A server that does what the test says, but for what no client could tell apart: without saying for which call, it
    asks for none that it has answered, and for a task names the task.

    Args:
        kind: Its era, and whether it says to which call something belongs, as over HTTP.
    """

    def __init__(self, kind: Server) -> None:
        self.kind = kind
        self.calls: dict[str, JSON] = {}
        """The newest call of each client, also after it was given up."""
        self.answers: list[tuple[str, str]] = []
        """Whom a question was for, and what came as the answer."""
        self.logs_late = True
        """Whether it says something about calls that it has answered."""
        self._wire: Wire | None = None
        self._asked: dict[str, str] = {}
        self._answered: set[str] = set()
        self._links: set[str] = set()

    @property
    def transport(self) -> ScriptedTransport:
        made = modern if self.kind == "modern" else legacy
        declared: JSON = {"tools": {}, "logging": {}, **({} if self.kind == "modern" else {"tasks": TASKS})}
        return ScriptedTransport(made(self._serve, capabilities=declared))

    async def _serve(self, wire: Wire) -> None:
        self._wire = wire
        while True:
            message = await wire.next()
            params: Any = message.get("params") or {}
            match message.get("method"):
                case "tools/list":
                    tool = {"name": "work", "inputSchema": {"type": "object"}}
                    wire.answer(message, self._complete({"tools": [tool], **self._fresh()}))
                case "tools/call":
                    who: str = params["arguments"]["who"]
                    self.answers += [(who, str(answer)) for answer in params.get("inputResponses", {}).values()]
                    self.calls[who] = message
                    self._answered.discard(who)
                case "tasks/list":
                    wire.answer(message, {"tasks": [self._task(name) for name in NAMES]})
                case "tasks/result":
                    wire.answer(message, {"content": [{"type": "text", "text": secret(_owner(params))}]})
                case "tasks/get" | "tasks/cancel":
                    wire.answer(message, self._task(_owner(params)))
                case None:
                    asked = self._asked.pop(str(message["id"]), None)
                    if asked is not None and "result" in message:
                        self.answers.append((asked, str(message["result"])))
                        self._links.add(asked)
                case _ if "id" in message:
                    wire.answer(message, self._complete({}))
                case _:
                    pass

    def say(self, what: str, name: str) -> None:  # noqa: C901 - a table of what a server says
        """Say something on behalf of a client's newest call; nothing if there is none."""
        if self._wire is None or (call := self.calls.get(name)) is None:
            return
        during = call["id"] if self.kind == "legacy that says for which call" else None
        is_over = name in self._answered
        related: JSON = (
            {"_meta": {RELATED: {"taskId": f"task of {name}"}}} if is_over and "task" in call["params"] else {}
        )
        match what:
            case "log" if related or self.logs_late or not is_over:
                params = {"level": "error", "data": secret(name), **related}
                self._wire.notify("notifications/message", params, during)
            case "progress" if "progressToken" in call["params"].get("_meta", {}):
                self._wire.progress(call, 1, message=secret(name))
            case "ask" if self.kind == "modern":
                question = {"method": "elicitation/create", "params": {**QUESTION, "mode": "form", **_message(name)}}
                result = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}
                self._answer(name, call, result)
            case "ask" if related or during is not None or not is_over:
                number = f"q{len(self._asked) + len(self.answers) * 100}"
                self._asked[number] = name
                question = {**QUESTION, **_message(name), "elicitationId": secret(name), **related}
                self._wire.ask(number, "elicitation/create", question, during)
            case "finish link" if name in self._links:
                self._wire.notify("notifications/elicitation/complete", {"elicitationId": secret(name)})
            case "end" if "task" in call["params"]:
                self._answer(name, call, {"task": self._task(name)})
            case "end":
                self._answer(name, call, self._complete({"content": [{"type": "text", "text": secret(name)}]}))
            case "give up":  # its question has waited too long, and is not taken back
                self._answered.add(name)
                failed = {"content": [{"type": "text", "text": secret(name)}], "isError": True}
                self._wire.answer(call, self._complete(failed))
            case "fail":
                self._take_back(name)
                self._answered.add(name)
                self._wire.refuse(call, -32000, secret(name), {"about": secret(name)})
            case _:
                pass

    def _answer(self, name: str, call: JSON, result: JSON) -> None:
        assert self._wire is not None
        self._take_back(name)
        self._answered.add(name)
        self._wire.answer(call, result)

    def _take_back(self, name: str) -> None:
        """Take back what was asked for a call that is to be answered."""
        assert self._wire is not None
        for number in [number for number, asked in self._asked.items() if asked == name]:
            del self._asked[number]
            self._wire.notify("notifications/cancelled", {"requestId": number})

    def _task(self, name: str) -> JSON:
        now = "2026-01-01T00:00:00Z"
        return {
            "taskId": f"task of {name}",
            "status": "working",
            "statusMessage": secret(name),
            "ttl": 60_000,
            "createdAt": now,
            "lastUpdatedAt": now,
        }

    def _complete(self, result: JSON) -> JSON:
        return {**result, "resultType": "complete"} if self.kind == "modern" else result

    def _fresh(self) -> JSON:
        return {"ttlMs": 60_000, "cacheScope": "private"} if self.kind == "modern" else {}


def _owner(params: JSON) -> str:
    return str(params["taskId"]).rpartition(" ")[2]


def _message(name: str) -> JSON:
    return {"message": f"{secret(name)}?"}


class Person:
    """A client with one call at a time, which answers with its own secret whatever it is asked.

    Args:
        name: Whose secret it has.
        running: The bridge.
        way: How it is connected.
        path: The endpoint.
        program: The name that its program gives itself.
    """

    def __init__(self, name: str, running: RunningBridge, way: Way, path: str, program: str) -> None:
        self.name = name
        self.heard: list[str] = []
        """Everything that came, as text."""
        self.asked = 0
        self._path = path
        self._program = program
        transport, _, self._revision = way.partition(" ")
        self._modern = self._revision == "2026-07-28"
        self._stream = RevisionClient(running.endpoint(path), self._revision) if transport == "stream" else None
        self._app = running.bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))
        self._number = ""
        self._requests: set[asyncio.Task[None]] = set()
        self._read = 0

    async def introduce(self) -> None:
        """Play the handshake, where there is one."""
        if self._stream is not None:
            await self._stream.introduce()
            if not self._modern:
                await self._stream.result("logging/setLevel", {"level": "debug"})

    @property
    def tool(self) -> str:
        return "work" if self._path else "up__work"

    async def begin(self, more: JSON | None = None) -> None:
        """Call the tool, unless a call is on its way."""
        if not self._number:
            meta = {"progressToken": "token"}
            arguments = {"who": self.name}
            await self._send("tools/call", {"name": self.tool, "arguments": arguments, "_meta": meta, **(more or {})})

    async def cancel(self) -> None:
        """Give the call up."""
        if self._stream is not None and self._number:
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self._number}}
            await self._stream._client.take(message)  # pyright: ignore[reportPrivateUsage]
        for task in self._requests:
            task.cancel()
        self._number = ""

    async def look_at_tasks(self) -> None:
        """Ask for every task that there might be."""
        await self._send("tasks/list", {})
        prefix = "" if self._path else "up:"
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for name in NAMES:
                await self._send(method, {"taskId": f"{prefix}task of {name}"})

    async def listen(self) -> None:
        """Take what came, and answer it."""
        if self._stream is not None:
            new, self._read = self._stream.messages[self._read :], len(self._stream.messages)
            for message in new:
                await self._take(message)

    def leave(self) -> None:
        for task in self._requests:
            task.cancel()
        if self._stream is not None:
            self._stream.close()

    async def _take(self, message: JSON) -> None:
        self.heard.append(json.dumps(message))
        if "method" in message and "id" in message:
            self.asked += message["method"] == "elicitation/create"
            assert self._stream is not None
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": self._answer}
            await self._stream._client.take(answer)  # pyright: ignore[reportPrivateUsage]
            return
        result: Any = message.get("result") or {}
        if message.get("id") == self._number:
            self._number = ""
            if result.get("resultType") == "input_required":
                self.asked += 1
                answers = dict.fromkeys(result["inputRequests"], self._answer)
                await self.begin({"inputResponses": answers, "requestState": result["requestState"]})

    @property
    def _answer(self) -> JSON:
        return {"action": "accept", "content": {"word": f"word of {self.name}"}}

    async def _send(self, method: str, params: JSON) -> None:
        if self._stream is not None:
            number = await self._stream.begin(method, params)
        else:
            number = f"{method} {len(self.heard)}"
            task = asyncio.get_running_loop().create_task(self._post(number, method, params))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        if method == "tools/call":
            self._number = number

    async def _post(self, number: str, method: str, params: JSON) -> None:
        meta = {**envelope(self._revision), **params.get("_meta", {})}
        meta["io.modelcontextprotocol/clientInfo"] = {"name": self._program, "version": "1"}
        head = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self._revision}
        head["mcp-method"] = method
        if "name" in params:
            head["mcp-name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
        transport = httpx2.ASGITransport(self._app, client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765", timeout=60) as client:
            response = await client.post(f"/{self._path}/mcp".replace("//", "/"), json=body, headers=head)
        lines = response.text.splitlines()
        data = [line[6:] for line in lines if line.startswith("data: {")] or [response.text]
        for text in data:
            await self._take(json.loads(text))


class Plan(Struct, frozen=True):
    """Who connects how to what, and what happens."""

    ways: tuple[Way, Way]
    paths: tuple[str, str]
    server: Server
    is_of_one_name: bool
    steps: list[tuple[str, str]]


PLANS = st.builds(
    Plan,
    st.tuples(st.sampled_from(WAYS), st.sampled_from(WAYS)),
    st.tuples(st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.sampled_from(SERVERS),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), min_size=3, max_size=14),
)


@asynccontextmanager
async def two_people(plan: Plan) -> AsyncGenerator[tuple[ServerEnd, dict[str, Person]]]:
    """Two clients of a bridge with one server, beside another one."""
    end = ServerEnd(plan.server)
    end.logs_late = plan.ways != ("http 2026-07-28", "http 2026-07-28")  # of one address, as one program's calls are
    spec = StdioServerSpec(
        "up", command="none", options=ServerOptions(era="2026-07-28" if plan.server == "modern" else "handshake")
    )
    async with running_bridge(settings=Settings(upstream=QUICK)) as running:
        other = ScriptedTransport(legacy(None, capabilities={}))
        await running.bridge.add_upstream(StdioServerSpec("other", command="none"), other)
        await running.bridge.add_upstream(spec, end.transport)
        await until_ready(*running.bridge.sources)
        programs = ("one", "one" if plan.is_of_one_name else "two")
        people = {
            name: Person(name, running, way, path, program)
            for name, way, path, program in zip(NAMES, plan.ways, plan.paths, programs, strict=True)
        }
        for person in people.values():
            await person.introduce()
        try:
            yield end, people
        finally:
            for person in people.values():
                person.leave()


async def carry_out(plan: Plan) -> tuple[ServerEnd, dict[str, Person]]:
    async with two_people(plan) as (end, people):
        for step, name in plan.steps:
            match step:
                case "begin":
                    await people[name].begin()
                case "make task":
                    await people[name].begin({"task": {"ttl": 60_000}})
                case "cancel":
                    await people[name].cancel()
                case "look at tasks":
                    await people[name].look_at_tasks()
                case _:
                    end.say(step, name)
            await settle()
            for person in people.values():
                await person.listen()
            await settle()
        return end, people


@given(plan=PLANS)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
async def test_no_secret_of_one_client_is_seen_by_the_other(plan: Plan) -> None:
    end, people = await carry_out(plan)
    for name, person in people.items():
        others = [secret(other) for other in NAMES if other != name]
        assert not [text for text in person.heard for other in others if other in text]
    for asked, answer in end.answers:
        assert f"word of {asked}" in answer or "word of" not in answer


@pytest.mark.parametrize("path", PATHS, ids=["of several sources", "of one server"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("way", WAYS)
async def test_each_of_two_clients_of_one_name_is_asked_and_hears_of_its_own_call(
    way: Way, server: Server, path: str
) -> None:
    steps = [("begin", "alice"), ("begin", "bob"), ("ask", "alice"), ("end", "bob"), ("end", "alice"), ("end", "alice")]
    end, people = await carry_out(Plan((way, way), (path, path), server, True, steps))
    assert (people["alice"].asked, people["bob"].asked) == (1, 0)
    assert [asked for asked, answer in end.answers if "word of alice" in answer] == ["alice"]
    for name, person in people.items():
        assert any(secret(name) in text for text in person.heard)


@pytest.mark.parametrize("steps", LATE.values(), ids=LATE)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("way", ["stream 2025-11-25", "http 2026-07-28"])
async def test_a_server_that_is_late_reaches_nobody_else(
    way: Way, server: Server, steps: list[tuple[str, str]]
) -> None:
    end, people = await carry_out(Plan((way, way), ("", ""), server, True, steps))
    assert not [text for text in people["bob"].heard if secret("alice") in text]
    assert not [answer for _, answer in end.answers if "word of bob" in answer]
    assert people["bob"].asked == 0
