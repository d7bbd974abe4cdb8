"""Tools of the bridge that an agent is lent for a turn: which it gets, how they run, and when they are taken back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.types import Message

from gaia_bridge import source
from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.chat_types import ChatRequest, LentTool, Reply
from gaia_bridge.contract import ClientRequest
from gaia_bridge.model import NamingPolicy, ServerInfo, ServerOptions, ServerSpec
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import ChatEndpointLimits, Settings
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.lent_tools import Loan, offered_tools
from gaia_bridge_doors.conversation.tool_request import Borrowing, ChatClient, RequestedTools, ToolRequest
from gaia_bridge_doors.openai_api.turn_endpoint import HttpTurnLog
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.chat_endpoint import ChatAgent, Chatting, QueryAgent, chatting, saying
from tests.support.fixed_sources import FixedSource
from tests.support.upstreams import raw_server
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio


async def nowhere(message: Message) -> None:
    """Sends nothing."""


class Borrower(ChatAgent):
    """Calls every tool that it is lent, one after the other, and says what came of it.

    Args:
        arguments: What it calls them with.
    """

    def __init__(self, arguments: Any = None) -> None:
        super().__init__(self._use)
        self._arguments: Any = {} if arguments is None else arguments
        self.lent: list[LentTool] = []

    async def _use(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        self.lent += request.lent_tools
        results = {lent.definition["name"]: await lent.call(self._arguments) for lent in request.lent_tools}
        yield Reply(json.dumps(results))


class ServingBorrower(Borrower):
    """One that is a server too."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [tool("own")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        raise AssertionError("it was lent its own tool")


def borrowing(label: str = "*", *names: str) -> JSON:
    return {"type": "mcp", "server_label": label, **({"allowed_tools": list(names)} if names else {})}


async def results(server: Chatting, *tools: JSON, **fields: Any) -> dict[str, JSON]:
    """What came of the lent tools, by their names."""
    found: dict[str, JSON] = json.loads(await server.text(tools=list(tools), **fields))
    return found


async def test_an_agent_is_lent_the_tools_of_another_and_their_results_are_whole() -> None:
    other = ScriptedAgent(
        lambda name, arguments: {"ran": name, "with": arguments},
        {**tool("add", a={"type": "integer"}), "description": "Adds", "annotations": {"readOnlyHint": True}},
        "sub",
    )
    borrower = Borrower({"a": 1})
    async with chatting(named={"chat": borrower, "math": other}) as server:
        found = await results(server, borrowing("math"))
    assert list(found) == ["add", "sub"]
    assert found["add"]["structuredContent"] == {"ran": "add", "with": {"a": 1}}
    assert borrower.lent[0].definition == other.tools[0]


async def test_tools_are_chosen_and_named_as_on_the_endpoint_of_everything() -> None:
    agents = {"chat": Borrower(), "one": one_tool(lambda _: "1"), "two": one_tool(lambda _: "2")}
    async with chatting(named=agents) as server:
        assert list(await results(server, borrowing())) == ["work", "two__work"]
        assert list(await results(server, borrowing("two"))) == ["two__work"]
        assert list(await results(server, borrowing("two", "work"))) == ["two__work"]
        assert list(await results(server, borrowing("two", "two__work"))) == ["two__work"]
        assert list(await results(server, borrowing("*", "two__work"), borrowing("two"))) == ["two__work"]
        assert list(await results(server, borrowing("two"), borrowing("one"))) == ["two__work", "work"]


async def test_an_agent_is_never_lent_its_own_tools_whatever_it_is_called() -> None:
    agent = ServingBorrower()
    async with chatting(named={"chat": agent, "again": agent, "other": one_tool(lambda _: "x")}) as server:
        await server.bridge.add(source(agent, "composed").prefixed("its_"))
        assert list(await results(server, borrowing())) == ["work"]
        for label in ("chat", "again", "composed"):
            error = await server.error(tools=[borrowing(label)])
            assert (error["status"], error["code"]) == (400, "unknown_server_label")
            assert "there are '*', 'other'" in error["message"]


@pytest.mark.parametrize(
    ("tools", "code", "param", "message"),
    [
        ([borrowing("nobody")], "unknown_server_label", "tools[0].server_label", "'nobody' is no other agent"),
        ([borrowing("one", "play")], "unknown_tool", "tools[0].allowed_tools", "no tool 'play'; it has 'work'"),
        ([borrowing(), borrowing("*", "own")], "unknown_tool", "tools[1].allowed_tools", "no tool 'own'"),
        (
            [{"type": "function", "function": {"name": "work"}}, borrowing()],
            "invalid_value",
            "tools[0].function.name",
            "is the name of a tool of the bridge too",
        ),
    ],
)
async def test_what_cannot_be_lent_says_what_can(tools: list[JSON], code: str, param: str, message: str) -> None:
    async with chatting(named={"chat": ServingBorrower(), "one": one_tool(lambda _: "x")}) as server:
        error = await server.error(tools=tools)
    assert (error["status"], error["code"], error["param"]) == (400, code, param)
    assert message in error["message"]


async def test_a_tool_for_apps_only_is_not_lent() -> None:
    hidden = {**tool("refresh"), "_meta": {"ui": {"visibility": ["app"]}}}
    other = ScriptedAgent(lambda name, arguments: name, "look", hidden)
    async with chatting(named={"chat": Borrower(), "x": other}) as server:
        for label in ("*", "x"):
            assert list(await results(server, borrowing(label))) == ["look"]
            error = await server.error(tools=[borrowing(label, "refresh")])
            assert (error["status"], error["code"]) == (400, "unknown_tool")
            assert "no tool 'refresh'; it has 'look'" in error["message"]


async def test_there_is_a_limit_to_what_is_lent() -> None:
    other = ScriptedAgent(lambda name, arguments: name, "a", "b", "c")
    settings = Settings(chats=ChatEndpointLimits(lent_tools=2))
    async with chatting(named={"chat": Borrower(), "x": other}, settings=settings) as server:
        error = await server.error(tools=[borrowing()])
        assert (error["code"], error["param"]) == ("array_too_long", "tools")
        assert "Choose with allowed_tools" in error["message"]
        assert list(await results(server, borrowing("x", "a", "c"))) == ["a", "c"]


async def test_an_agent_that_answers_in_one_piece_is_lent_nothing() -> None:
    async with chatting(QueryAgent(lambda text: text), one_tool(lambda _: "x")) as server:
        error = await server.error(model="gaia-query", tools=[borrowing()])
        assert (error["status"], error["param"]) == (400, "tools")


# How they run


def failing(arguments: JSON) -> Any:
    raise RuntimeError("secret")


def asking(arguments: JSON) -> Any:
    return get_request_context().elicit("Sure?", {"type": "object", "properties": {}})


def reporting(arguments: JSON) -> Any:
    context = get_request_context()
    context.report_progress(1, 2, "half")
    context.log("a log message")
    return {"meta": dict(context.meta), "capabilities": dict(context.client_capabilities)}


FAILURES: list[tuple[Any, Any, str]] = [
    (failing, {}, "failed with RuntimeError"),
    (asking, {}, "elicitation"),
    (reporting, "no object", "takes an object of arguments"),
]


@pytest.mark.parametrize(("run", "arguments", "text"), FAILURES)
async def test_every_failure_is_a_result_that_the_model_can_read(run: Any, arguments: Any, text: str) -> None:
    async with chatting(Borrower(arguments), one_tool(run)) as server:
        [result] = (await results(server, borrowing())).values()
    assert result["isError"] is True
    assert text in result["content"][0]["text"]
    assert "secret" not in result["content"][0]["text"]


async def test_what_a_tool_says_on_the_way_goes_nowhere() -> None:
    async with chatting(Borrower(), one_tool(reporting)) as server:
        [result] = (await results(server, borrowing())).values()
    assert result["structuredContent"] == {"meta": {}, "capabilities": {}}


async def test_tools_can_be_called_from_any_event_loop_and_thread() -> None:
    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        [lent] = request.lent_tools

        def elsewhere() -> JSON:
            async def main() -> JSON:
                return await lent.call({})

            return asyncio.run(main())

        first, second = await asyncio.gather(lent.call({}), asyncio.to_thread(elsewhere))
        yield Reply(json.dumps([first["content"][0]["text"], second["content"][0]["text"]]))

    async with chatting(ChatAgent(script), one_tool(lambda _: "x")) as server:
        assert await server.text(tools=[borrowing()]) == '["x", "x"]'


async def test_a_tool_that_is_kept_beyond_its_turn_can_no_longer_be_called() -> None:
    borrower = Borrower()
    async with chatting(borrower, one_tool(lambda _: "x")) as server:
        await results(server, borrowing())
        late = await borrower.lent[0].call({})
    assert late["isError"] and "a turn that is over" in late["content"][0]["text"]
    assert (await borrower.lent[0].call({})) == late


async def test_a_bridge_that_ends_during_a_call_is_a_result_too() -> None:
    lent: list[LentTool] = []
    ready, started = threading.Event(), threading.Event()

    class Hanging(FixedSource):
        async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
            started.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError("it goes on for ever")

    async def bridge() -> None:
        catalog = Catalog(ServerInfo("b", "1"), NamingPolicy.DEFAULT)
        catalog.add(Hanging("x", "work"))
        asked = RequestedTools(borrowings=(Borrowing("tools[0]", "*", None),))
        line = HttpTurnLog({"path": "/v1/chat/completions", "headers": []}, nowhere)
        request = partial(ToolRequest, ChatClient("c"))
        tools = await offered_tools(catalog, asked, object(), 1)
        lent.extend(Loan(Dispatcher(catalog, Settings(), "/"), tools, request, line).tools)
        ready.set()
        await asyncio.to_thread(started.wait)

    thread = threading.Thread(target=asyncio.run, args=[bridge()])
    thread.start()
    await wait_in_thread(ready.wait)
    async with asyncio.timeout(PATIENCE):
        during = await lent[0].call({})
    await asyncio.to_thread(thread.join, PATIENCE)
    assert during["isError"] and "a turn that is over" in during["content"][0]["text"]
    assert await lent[0].call({}) == during


async def test_the_end_of_a_turn_cancels_its_calls() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def hang(arguments: JSON) -> None:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    calls: list[asyncio.Task[JSON]] = []

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        calls.append(asyncio.ensure_future(request.lent_tools[0].call({})))
        await asyncio.to_thread(started.wait)
        yield Reply("I do not wait for it")

    async with chatting(ChatAgent(script), one_tool(hang)) as server:
        assert await server.text(tools=[borrowing()]) == "I do not wait for it"
        await wait_in_thread(cancelled.wait)


# Servers


def server_spec(name: str = "raw", **options: Any) -> ServerSpec:
    return replace(raw_server(), name=name, options=ServerOptions(**options))


async def lending(server: Chatting, name: str = "raw") -> None:
    """Wait until a server has tools to lend."""
    [source] = [source for source in server.bridge.sources if source.name == name]
    ready = asyncio.Event()
    stop = source.listen(lambda _: ready.set() if source.features.tools else None)
    if not source.features.tools:
        await ready.wait()
    stop()


async def test_the_tools_of_a_server_are_lent_too_and_are_told_which_bridge_calls() -> None:
    async with chatting(Borrower()) as server:
        await server.bridge.add_upstream(server_spec())
        await lending(server)
        [(name, result)] = (await results(server, borrowing("raw", "meta"))).items()
        assert name == "raw__meta"
        told = json.loads(result["content"][0]["text"])
        assert len(told[HOPS_META_KEY]) == 1


async def test_a_server_that_is_not_ready_says_so() -> None:
    async with chatting(Borrower()) as server:
        await server.bridge.add_upstream(replace(raw_server(), name="raw", command="/nonexistent/command"))
        response = await server.complete(tools=[borrowing("raw")])
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "server_not_ready"
        assert "server 'raw' is not ready" in response.json()["error"]["message"]


async def test_a_server_that_is_not_shared_keeps_what_belongs_to_a_session() -> None:
    async with chatting(Borrower()) as server:
        await server.bridge.add_upstream(server_spec(isolation="session"))
        await lending(server)

        async def pid(session: str | None) -> str:
            headers = {} if session is None else {"X-Session-Id": session}
            response = await server.complete(tools=[borrowing("raw", "pid")], headers=headers)
            [result] = json.loads(response.json()["choices"][0]["message"]["content"]).values()
            text: str = result["content"][0]["text"]
            return text

        mine, yours = await pid("me"), await pid("you")
        assert mine != yours
        assert await pid("me") == mine
        assert len({await pid(None), await pid(None), mine, yours}) == 4


async def test_a_session_that_was_idle_has_ended() -> None:
    settings = Settings(chats=ChatEndpointLimits(session_idle=0))
    async with chatting(Borrower(), settings=settings) as server:
        await server.bridge.add_upstream(server_spec(isolation="session"))
        await lending(server)
        answers = {await server.text(tools=[borrowing("raw", "pid")], headers={"X-Session-Id": "me"}) for _ in range(2)}
        assert len(answers) == 2


async def test_a_turn_without_borrowed_tools_asks_no_source_for_them() -> None:
    other = one_tool(lambda _: "x")
    async with chatting(ChatAgent(saying("ok")), other) as server:
        listed: list[int] = []
        other.get_mcp_tool_definitions = lambda: listed.append(1) or []  # type: ignore[method-assign,func-returns-value]
        assert await server.text() == "ok"
        assert listed == []
