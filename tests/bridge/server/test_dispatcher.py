"""What goes out: large results hold nobody else up, an answer is written once for all, and errors say enough."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gaia_bridge.calls import call_log
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.protocol import codes, meta
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.server.backlog import Backlog
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.settings import AgentLimits, BacklogLimits, Settings
from gaia_bridge.text import json_text
from gaia_bridge.text.json_types import JSON
from tests.probes.reaching import MODERN
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.fixed_sources import FixedSource
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


class Gated(FixedSource):
    """Answers all its calls at once, when it is let.

    Args:
        size: Characters of an answer.
    """

    def __init__(self, size: int) -> None:
        super().__init__("gated", "work")
        self.let = anyio.Event()
        self._size = size

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        await self.let.wait()
        return {"content": [{"type": "text", "text": "x" * self._size}]}


def call(number: int, connection: ClientConnection | None = None) -> Call:
    params: JSON = {"name": "work", "arguments": {}}
    message: JSON = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return Call(connection or ClientConnection(NOWHERE, LATEST_HANDSHAKE), NOWHERE, message)


@pytest.mark.requirement("F-253")
@pytest.mark.parametrize(("size", "at_once"), [(2_000, 1), (500, 5)])
async def test_others_have_a_turn_between_two_large_results_and_small_ones_wait_for_nobody(
    size: int, at_once: int
) -> None:
    source, turns, released = Gated(size), 0, list[int]()
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
    catalog.add(source)
    dispatcher = Dispatcher(catalog, Settings(agent=AgentLimits(large_result_bytes=1_000)), "test")

    async def answered(answer: Answer) -> None:
        assert len(answer.body) > size
        released.append(turns)

    with anyio.fail_after(PATIENCE):
        tasks = [dispatcher.begin(call(number), answered) for number in range(5)]
        await anyio.wait_all_tasks_blocked()
        source.let.set()
        while len(released) < 5:
            await checkpoint()
            turns += 1
        for task in tasks:
            await task
    assert max(released.count(turn) for turn in released) == at_once
    if at_once == 1:
        assert all(later - earlier >= 3 for earlier, later in zip(released, released[1:], strict=False))


async def test_nothing_is_counted_of_a_call_whose_client_left_before_its_turn_came() -> None:
    source, backlog = Gated(5), Backlog(BacklogLimits(at_once=1))
    catalog, connection = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE), ClientConnection(NOWHERE, "2025-11-25")
    catalog.add(source)
    dispatcher = Dispatcher(catalog, Settings(), "/gated", backlog=backlog)
    first, second = calls = [call(number, connection) for number in range(2)]

    async def answered(answer: Answer) -> None:
        assert answer.body

    with anyio.fail_after(PATIENCE):
        tasks = [dispatcher.begin(asked, answered) for asked in calls]
        await anyio.wait_all_tasks_blocked()
        assert (first.turn is None, second.turn is None) == (False, True)
        second.sent()
        source.let.set()
        for task in tasks:
            await task
    first.sent()
    assert (backlog.held, backlog.targets) == (0, [])


@pytest.mark.requirement("F-310")
@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_an_answer_is_written_once_for_all_who_want_to_know_its_size(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(level, call_log.__name__)
    written = list[Any]()

    def to_json(value: Any) -> bytes:
        written.append(value)
        return json_text.to_json(value)

    answers = list[Answer]()

    async def answered(answer: Answer) -> None:
        answers.append(answer)

    async with running_bridge(one_tool(lambda _: "found")) as running:
        for name, module in list(sys.modules.items()):
            ours = name.startswith(
                ("gaia_bridge.calls", "gaia_bridge.protocol", "gaia_bridge.server", "gaia_bridge.sources.agent")
            )
            if ours and module is not json_text and hasattr(module, "to_json"):
                monkeypatch.setattr(module, "to_json", to_json)
        await running.endpoint().begin(call(1), answered)
    [answer] = answers
    assert len([value for value in written if "content" in value]) == 1
    told = [record.getMessage() for record in caplog.records if record.name == call_log.__name__]
    assert [line.endswith(f", {len(answer.body)} B out") for line in told] == [True] * (level == logging.INFO)


class Acting(FixedSource):
    """Does the same whatever it is asked.

    Args:
        act: Returns the result, or raises.
    """

    def __init__(self, act: Callable[[], Awaitable[JSON]]) -> None:
        super().__init__("acting", "work", resources=("x://here",))
        self._act = act

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        return await self._act()

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        return await self._act()


def dispatching(act: Callable[[], Awaitable[JSON]], settings: Settings | None = None) -> Dispatcher:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
    catalog.add(Acting(act))
    return Dispatcher(catalog, settings or Settings(), "/acting")


def request(method: str, params: JSON, revision: str) -> Call:
    about: JSON = {meta.PROTOCOL_VERSION_KEY: revision, meta.CLIENT_CAPABILITIES_KEY: {}}
    message: JSON = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}
    return Call(ClientConnection(NOWHERE, revision), NOWHERE, message)


async def answer_to(dispatcher: Dispatcher, asked: Call) -> JSON:
    answers = list[JSON]()

    async def answered(answer: Answer) -> None:
        answers.append(json.loads(answer.body))

    with anyio.fail_after(PATIENCE):
        await dispatcher.begin(asked, answered)
    return answers[0]


async def test_a_cancelled_call_is_not_answered_though_its_source_ends_it_with_a_result() -> None:
    started = anyio.Event()

    async def ignore_the_cancellation() -> JSON:
        started.set()
        with suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        return {"content": []}

    answers = list[Answer]()

    async def answered(answer: Answer) -> None:
        answers.append(answer)

    asked = call(1)
    with anyio.fail_after(PATIENCE):
        task = dispatching(ignore_the_cancellation).begin(asked, answered)
        await started.wait()
        asked.cancel("enough")
        await task
    assert answers == [Answer(b"")]


@pytest.mark.parametrize(("revision", "code"), [(LATEST_HANDSHAKE, -32050), (MODERN, codes.INTERNAL_ERROR)])
async def test_a_code_that_the_latest_revision_reserves_is_kept_for_clients_that_know_no_reserved_codes(
    revision: str, code: int
) -> None:
    async def fail() -> JSON:
        raise ProtocolError(-32050, "out of stock", {"item": 7})

    answer = await answer_to(dispatching(fail), request("tools/call", {"name": "work"}, revision))
    assert answer["error"] == {"code": code, "message": "out of stock", "data": {"item": 7}}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, {"uri": "x://here"}),
        ({"why": "moved"}, {"uri": "x://here", "why": "moved"}),
        ({"uri": "x://there"}, {"uri": "x://there"}),
        (["moved"], ["moved"]),
    ],
    ids=["nothing", "an object", "an object with a URI", "a list"],
)
async def test_an_unknown_resource_is_told_with_its_uri_and_with_the_data_of_its_source(data: Any, told: Any) -> None:
    async def fail() -> JSON:
        raise ProtocolError(codes.LEGACY_RESOURCE_NOT_FOUND, "none", data)

    asked = request("resources/read", {"uri": "x://here"}, MODERN)
    error = (await answer_to(dispatching(fail), asked))["error"]
    assert (error["code"], error["data"]) == (codes.INVALID_PARAMS, told)
    earlier = await answer_to(dispatching(fail), request("resources/read", {"uri": "x://here"}, LATEST_HANDSHAKE))
    assert (earlier["error"]["code"], earlier["error"].get("data")) == (codes.LEGACY_RESOURCE_NOT_FOUND, data)


async def test_a_handshake_comes_first_and_may_be_repeated_until_it_is_complete() -> None:
    async def act() -> JSON:
        return {}

    dispatcher, connection = dispatching(act), ClientConnection(NOWHERE)
    early = await answer_to(dispatcher, Call(connection, NOWHERE, {"id": 1, "method": "tools/list"}))
    assert "send initialize first" in early["error"]["message"]
    hello = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    message: JSON = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    for _ in range(2):
        assert "result" in await answer_to(dispatcher, Call(connection, NOWHERE, message))
    dispatcher.notified(connection, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    refusal = await answer_to(dispatcher, Call(connection, NOWHERE, message))
    assert refusal["error"]["code"] == codes.INVALID_REQUEST


async def test_a_server_is_asked_for_methods_that_nobody_knows_and_for_none_that_the_revision_removed() -> None:
    class Answering(FixedSource):
        async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
            return {"by": self.name}

    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE, merges=False)
    catalog.add(Answering("up", "work", kind=SourceKind.SERVER))
    dispatcher = Dispatcher(catalog, Settings(), "/servers/up")
    assert (await answer_to(dispatcher, request("vendor/ask", {}, MODERN)))["result"]["by"] == "up"
    for method in ("ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        answer = await answer_to(dispatcher, request(method, {}, MODERN))
        assert answer["error"] == {"code": codes.METHOD_NOT_FOUND, "message": "Method not found", "data": method}


class Delegating(FixedSource):
    """A server whose calls are tasks, numbered; it knows those of everybody."""

    def __init__(self) -> None:
        super().__init__("up", "work", kind=SourceKind.SERVER, extras={"tasks": {"list": {}, "cancel": {}}})
        self.tasks = list[JSON]()
        self.asked = list[str]()

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        self.tasks.append({"taskId": f"task {len(self.tasks)}", "status": "working"})
        return {"task": self.tasks[-1]}

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        self.asked.append(method)
        return {"tasks": [*self.tasks, {"taskId": None}, {}, "task 0", None]}


async def test_a_client_sees_its_own_tasks_and_asks_for_no_other() -> None:
    source = Delegating()
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
    catalog.add(source)
    dispatcher = Dispatcher(catalog, Settings(), "/")
    clients = [ClientConnection(NOWHERE, LATEST_HANDSHAKE) for _ in range(3)]

    async def ask(client: ClientConnection, method: str, **params: Any) -> JSON:
        message: JSON = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await answer_to(dispatcher, Call(client, NOWHERE, message))

    for client in clients[:2]:
        await ask(client, "tools/call", name="work", arguments={}, task={})
    seen = [(await ask(client, "tasks/list"))["result"]["tasks"] for client in clients]
    assert seen == [[source.tasks[0]], [source.tasks[1]], []]
    source.asked.clear()
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        for other in clients[1:]:
            for task in ("task 0", None, ["task 0"]):
                assert "There is no such task" in (await ask(other, method, taskId=task))["error"]["message"]
        assert "result" in await ask(clients[0], method, taskId="task 0")
    assert source.asked == ["tasks/get", "tasks/result", "tasks/cancel"]


async def test_a_caller_that_is_no_client_gets_the_task_that_a_server_made_of_its_call() -> None:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
    catalog.add(Delegating())
    request = OwnRequest("somebody")
    request.params = {"name": "work", "arguments": {}}
    result = await Dispatcher(catalog, Settings(), "/").own_request(request)
    assert result["task"]["taskId"] == "task 0"


async def test_a_state_is_sealed_for_the_time_that_the_settings_say() -> None:
    async def ask() -> JSON:
        return {"resultType": "input_required", "requestState": "mine", "inputRequests": {}}

    dispatcher = dispatching(ask, Settings(agent=AgentLimits(state_lifetime=0)))
    asked = await answer_to(dispatcher, request("tools/call", {"name": "work"}, MODERN))
    again = {"name": "work", "requestState": asked["result"]["requestState"]}
    refusal = await answer_to(dispatcher, request("tools/call", again, MODERN))
    assert refusal["error"]["data"] == {"reason": "invalid_request_state"}


async def test_a_result_of_the_latest_revision_is_kept_by_nobody_unless_its_source_says_so_and_names_us() -> None:
    async def act() -> JSON:
        return {"contents": [], "_meta": {"a": 1}}

    read = (await answer_to(dispatching(act), request("resources/read", {"uri": "x://here"}, MODERN)))["result"]
    assert (read["resultType"], read["ttlMs"], read["cacheScope"]) == ("complete", 0, "private")
    assert read["_meta"].keys() == {"a", meta.SERVER_INFO_KEY}


async def test_an_earlier_revision_has_no_fields_of_a_later_one_in_its_results() -> None:
    async def act() -> JSON:
        return {"contents": [], "resultType": "complete", "ttlMs": 5, "cacheScope": "public", "_meta": {"a": 1}}

    read = await answer_to(dispatching(act), request("resources/read", {"uri": "x://here"}, LATEST_HANDSHAKE))
    assert read["result"] == {"contents": [], "_meta": {"a": 1}}


async def test_who_has_not_begun_a_handshake_cannot_complete_it() -> None:
    async def act() -> JSON:
        return {}

    connection = ClientConnection(NOWHERE)
    dispatching(act).notified(connection, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert not connection.is_initialized
