"""`ToolAgent`: a chat that uses the tools of MCP servers."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.agents.base import tool
from gaia.agents.base.tools import get_tool_display_name
from gaia.mcp.aio import ManagerLimits, MCPAgent, ToolAgent
from gaia_bridge.settings import UpstreamLimits
from tests.support.fake_model import FakeModel, call, calls, say
from tests.support.gated_servers import Gate
from tests.support.waiting import after_collection, eventually

pytestmark = pytest.mark.anyio

QUICK = ManagerLimits(upstream=UpstreamLimits(backoff_start=0.01, backoff_cap=0.01, crashes=2, refresh_interval=0.01))
TOOLS = ["answer", "pid", "env", "crash", "hang", "change"]


class OwnTools(ToolAgent):
    """An agent that has two tools of its own, one of which is called like one of the servers'."""

    def _register_tools(self) -> None:
        @tool
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        @tool
        def pid() -> str:
            """Its own."""
            return "own"


def made(model: FakeModel, *, kind: type[ToolAgent] = ToolAgent, **servers: Any) -> ToolAgent:
    """An agent with these servers."""
    return kind(model=model, mcp_config={"mcpServers": servers}, mcp_limits=QUICK, silent_mode=True)


@asynccontextmanager
async def using(agent: ToolAgent) -> AsyncGenerator[ToolAgent]:
    """Close an agent at the end."""
    try:
        yield agent
    finally:
        await asyncio.to_thread(agent.close)


async def registered(agent: ToolAgent, *names: str) -> None:
    """Wait until the agent has these tools and no others."""
    await anyio.to_thread.run_sync(eventually, lambda: list(agent.tool_registry) == list(names))


def test_it_has_two_names() -> None:
    assert MCPAgent is ToolAgent


@pytest.mark.requirement("S2-15")
async def test_without_configuration_it_chats_with_its_own_tools() -> None:
    model = FakeModel(call("double", number=4), say("eight"))
    async with using(OwnTools(model=model, silent_mode=True)) as agent:
        assert await agent.chat("twice four?") == "eight"
        assert (model.asked[0].tool_names, model.asked[1].results()) == (["double", "pid"], [8])
        await agent.init_mcp_servers()
        await agent.cleanup()
        assert agent.mcp_manager is None


@pytest.mark.requirement("S2-16")
async def test_the_servers_are_connected_by_the_first_chat_and_their_tools_are_offered(servers: Gate) -> None:
    model = FakeModel(call("of_a"), say("done"), say("again"))
    async with using(made(model, a=servers.server("a", "of_a"))) as agent:
        assert list(agent.tool_registry) == []
        assert await agent.chat("go") == "done"
        assert model.asked[0].tool_names == [*TOOLS, "of_a"]
        assert model.asked[1].results() == ["a"]
        assert await agent.chat("once more") == "again"
        assert servers.count("a", "born") == 1


async def test_tools_that_are_for_views_only_are_not_offered(servers: Gate) -> None:
    model = FakeModel(say("done"))
    async with using(made(model, a=servers.server("a", "view_b"))) as agent:
        assert await agent.chat("go") == "done"
        assert model.asked[0].tool_names == TOOLS


@pytest.mark.requirement("S2-16")
async def test_the_servers_are_connected_when_that_is_asked_for_once_for_all_who_ask(servers: Gate) -> None:
    model = FakeModel(say("hello"))
    async with using(made(model, a=servers.server("a", hold=True))) as agent:
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(agent.init_mcp_servers()) for _ in range(3)]
            chatting = tasks.create_task(agent.chat("hi"))
            await servers.told("a", "born")
            assert not any(task.done() for task in [*asking, chatting])
            servers.release("a")
        assert chatting.result() == "hello"
        assert (model.asked[0].tool_names, servers.count("a", "born")) == (TOOLS, 1)


@pytest.mark.requirement("S2-16")
def test_the_servers_of_a_file_are_used_from_ordinary_code_too(servers: Gate, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": servers.server("a", "of_a")}}), "utf-8")
    model = FakeModel(call("of_a"), say("done"))
    agent = ToolAgent(model=model, mcp_config_path=path, silent_mode=True)
    assert agent.run("go") == "done"
    assert model.asked[1].results() == ["a"]
    agent.close()
    servers.wait("a", "dead")
    assert list(agent.tool_registry) == []


@pytest.mark.requirement("S2-16", "S2-24")
async def test_its_own_tools_run_here_and_keep_their_names(servers: Gate, caplog: pytest.LogCaptureFixture) -> None:
    model = FakeModel(calls(("pid", {}), ("a__pid", {}), ("double", {"number": 3})), say("done"))
    async with using(made(model, kind=OwnTools, a=servers.server("a"))) as agent:
        await agent.chat("go")
        own, servers_own, doubled = model.asked[1].results()
        assert (own, doubled) == ("own", 6)
        assert int(servers_own) > 0
        assert "the agent has a tool 'pid' of its own; that of MCP server 'a' is 'a__pid'" in caplog.text
        assert get_tool_display_name("a__pid") == "pid (a)"
        await agent.cleanup()
        assert list(agent.tool_registry) == ["double", "pid"]


async def test_a_tool_is_described_as_its_server_does(servers: Gate) -> None:
    model = FakeModel(say("hello"))
    async with using(made(model, a=servers.server("a"))) as agent:
        await agent.chat("hi")
        function = model.asked[0].tools[1]["function"]
        assert (function["name"], function["description"]) == ("pid", "pid of a")
        assert function["parameters"]["properties"] == {"x": {"$ref": "#/$defs/x"}}


async def test_tools_that_change_are_offered_in_the_same_turn(servers: Gate) -> None:
    class Waiting(ToolAgent):
        def _register_tools(self) -> None:
            @tool
            def wait() -> str:
                """Wait until the agent has the new tool."""
                eventually(lambda: "new" in self.tool_registry)
                return "it has"

    model = FakeModel(call("change", tools=["pid", "new"]), call("wait"), say("done"))
    async with using(made(model, kind=Waiting, a=servers.server("a"))) as agent:
        await agent.chat("go")
        assert model.asked[0].tool_names == ["wait", *TOOLS]
        assert model.asked[2].tool_names == ["wait", "pid", "new"]


async def test_tools_of_a_server_that_is_lost_are_not_offered_any_more(servers: Gate) -> None:
    model = FakeModel(call("crash"), call("crash"), say("it is gone"), say("nothing"))
    async with using(made(model, kind=OwnTools, a=servers.server("a"))) as agent:
        assert await agent.chat("go") == "it is gone"
        assert [result["status"] for asked in model.asked[1:] for result in asked.results()] == ["error", "error"]
        await registered(agent, "double", "pid")
        assert await agent.chat("and now?") == "nothing"
        assert model.asked[3].tool_names == ["double", "pid"]


async def test_a_server_that_fails_keeps_nobody_from_chatting(servers: Gate) -> None:
    model = FakeModel(say("hello"))
    async with using(made(model, bad={"command": "no-such-program"}, a=servers.server("a"))) as agent:
        assert await agent.chat("hi") == "hello"
        assert model.asked[0].tool_names == TOOLS


async def test_cleaning_up_takes_the_tools_away_and_the_next_turn_brings_them_back(servers: Gate) -> None:
    model = FakeModel(say("one"), say("two"))
    async with using(made(model, a=servers.server("a"))) as agent:
        await agent.chat("hi")
        await asyncio.gather(agent.cleanup(), agent.cleanup())
        servers.wait("a", "dead")
        assert list(agent.tool_registry) == []
        await agent.chat("hi")
        assert model.asked[1].tool_names == TOOLS
        await agent.cleanup()


async def test_cleaning_up_while_servers_are_being_connected_leaves_the_next_turn_to_do_it(servers: Gate) -> None:
    model = FakeModel(say("hello"))
    async with using(made(model, a=servers.server("a", hold=True))) as agent:
        initialising = asyncio.create_task(agent.init_mcp_servers())
        await servers.told("a", "born")
        await agent.cleanup()
        await initialising
        chatting = asyncio.create_task(agent.chat("hi"))
        await servers.told("a", "born", 2)
        servers.release("a")
        assert await chatting == "hello"
        assert model.asked[0].tool_names == TOOLS


async def test_many_tools_are_searched_for(servers: Gate) -> None:
    model = FakeModel(call("tool_search_regex", pattern="^t1$"), call("t1"), say("done"))
    async with using(made(model, a=servers.server("a", *(f"t{number}" for number in range(20))))) as agent:
        assert await agent.chat("go") == "done"
        offered = [asked.tool_names for asked in model.asked]
        assert offered == [["tool_search_regex"], ["tool_search_regex", "t1"], ["tool_search_regex", "t1"]]
        assert model.asked[2].results() == ["a"]


async def test_options_reach_the_conversation(servers: Gate) -> None:
    model = FakeModel(call("double", number=1), say("enough"))
    async with using(
        OwnTools(model=model, system_message="Be brief.", deferred_tools=True, max_iterations=1, silent_mode=True)
    ) as agent:
        await agent.chat("go")
        assert model.asked[0].system.startswith("Be brief.")
        assert model.asked[0].tool_names == ["tool_search_regex"]
        with pytest.raises(TypeError, match="does not know nonsense"):
            ToolAgent(nonsense=1)


async def test_an_agent_that_is_forgotten_lets_its_servers_go(servers: Gate) -> None:
    agent: ToolAgent | None = made(FakeModel(say("hello")), a=servers.server("a"))
    assert agent is not None
    await agent.chat("hi")
    gone = weakref.ref(agent)
    del agent
    await anyio.to_thread.run_sync(eventually, after_collection(lambda: gone() is None))
    await servers.told("a", "dead")
