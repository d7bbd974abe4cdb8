"""Conversations with tools of MCP servers: real ones, tools that come and go, and dozens that are searched for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Agent, MCPAgent, Tool
from gaia.agents.base.console import SilentConsole
from gaia.agents.base.tools import ToolEntry
from gaia.agents.chat.limits import ChatLimits
from gaia.mcp import MCPClient, MCPClientMixin
from gaia.mcp.client import mcp_client
from gaia.mcp.client.server_config import ConfiguredServer
from tests.support.fake_model import Asked, FakeModel, call, calls, made, say
from tests.support.gaia_clients import FakeTransport, all_tools, sdk_server
from tests.support.waiting import eventually

READ = {"name": "read_file", "description": "Read it", "inputSchema": {"type": "object"}}
PICK = {**READ, "name": "pick", "_meta": {"ui": {"visibility": ["app"]}}}
WIPE = {**READ, "name": "wipe", "description": "Wipe it", "annotations": {"destructiveHint": True}}


class Consuming(Agent, MCPClientMixin):
    """An agent that uses servers."""


def consuming(*answers: Any, **options: Any) -> tuple[Consuming, FakeModel]:
    model = FakeModel(*answers)
    return Consuming(silent_mode=True, model=model, auto_load_config=False, **options), model


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeTransport:
    """Every command is this server, which exists only here."""
    transport = FakeTransport(READ, WIPE)

    def make(
        name: str, config: dict[str, Any], timeout: float, debug: bool, folder: Path | None = None
    ) -> ConfiguredServer:
        return ConfiguredServer(transport, all_tools)

    monkeypatch.setattr(mcp_client, "configured_server", make)
    return transport


@pytest.mark.requirement("S2-24", "S0-64")
def test_own_tools_and_those_of_a_real_server_are_used_side_by_side() -> None:
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    agent, model = consuming(
        calls(("double", {"number": 4}), ("mcp_s_add", {"a": 1, "b": 2}), ("mcp_s_mix", {}), ("mcp_s_fail", {})),
        say("ok"),
        tools=[double],
    )
    agent.connect_mcp_server("s", sdk_server())
    assert agent.run("go") == "ok"
    doubled, added, mixed, failed = model.asked[-1].results()
    assert (doubled, added["status"], added["data"]["structuredContent"]) == (8, "success", {"sum": 3})
    assert [block["type"] for block in mixed["data"]["content"]] == [
        *("text", "image", "audio", "resource_link", "resource", "resource")
    ]
    assert "iVBORw0KGgo" not in str(mixed)
    assert "bytes of base64 left out" in mixed["data"]["content"][1]["data"]
    assert (failed["status"], failed["error"]) == ("error", "it did not work")
    agent.disconnect_mcp_server("s")


@pytest.mark.requirement("S3-10", "S3-14")
def test_tools_of_servers_are_described_to_the_model_by_both_of_their_names(server: FakeTransport) -> None:
    agent, model = consuming(say("ok"), system_prompt="You help.")
    agent.connect_mcp_server("fs", {"command": "fs"})
    agent.run("go")
    assert "- mcp_fs_read_file(): Read it" in model.asked[0].system
    assert "- mcp_fs_read_file: read_file (fs)" in model.asked[0].system
    assert model.asked[0].system == agent.system_prompt
    assert [tool["function"]["description"] for tool in model.asked[0].tools] == ["Read it", "Wipe it"]


@pytest.mark.parametrize("name", ["read_file", "fs_read_file", "MCP_FS_Read-File"])
@pytest.mark.requirement("S3-19")
def test_a_model_that_does_not_spell_a_name_quite_right_is_understood(server: FakeTransport, name: str) -> None:
    agent, model = consuming(call(name), say("ok"))
    agent.connect_mcp_server("fs", {"command": "fs"})
    agent.run("go")
    assert model.asked[-1].results()[0]["status"] == "success"


def test_a_tool_of_a_server_that_may_destroy_something_is_asked_about(server: FakeTransport) -> None:
    agent, model = consuming(call("mcp_fs_wipe"), say("ok"))
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert isinstance(agent.console, SilentConsole)
    agent.run("go")
    assert "nobody confirmed it" in model.asked[-1].results()[0]["error"]
    assert server.asked("tools/call") == 0


def test_tools_that_are_for_views_only_are_kept_from_the_model_but_not_from_clients(server: FakeTransport) -> None:
    agent, model = consuming(call("mcp_fs_pick"), say("ok"))
    server.tools.append(PICK)
    agent.connect_mcp_server("fs", {"command": "fs"})
    agent.run("go")
    assert model.asked[0].tool_names == ["mcp_fs_read_file", "mcp_fs_wipe"]
    assert "pick" not in model.asked[0].system
    assert "there is no tool 'mcp_fs_pick'" in model.asked[1].results()[0]["error"]
    assert server.asked("tools/call") == 0
    assert "mcp_fs_pick" in agent.tool_registry


def test_an_agents_own_tools_for_views_are_kept_from_its_model() -> None:
    class Published(MCPAgent):
        def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
            return [READ, PICK]

        def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
            return tool_name

    model = FakeModel(say("ok"))
    Published(silent_mode=True, model=model).run("go")
    assert model.asked[0].tool_names == ["read_file"]


def test_tools_that_come_and_go_in_the_middle_of_a_turn_are_seen_in_its_next_step(server: FakeTransport) -> None:
    def change() -> str:
        """Change the server."""
        server.change_tools({**READ, "name": "new"})
        eventually(lambda: "mcp_fs_new" in agent.tool_registry)
        return "changed"

    agent, model = consuming(call("change"), call("mcp_fs_new"), call("mcp_fs_read_file"), say("ok"), tools=[change])
    agent.connect_mcp_server("fs", {"command": "fs"})
    agent.run("go")
    assert [asked.tool_names[1:] for asked in model.asked] == [
        ["mcp_fs_read_file", "mcp_fs_wipe"],
        *[["mcp_fs_new"]] * 3,
    ]
    assert "- mcp_fs_new" in model.asked[1].system
    assert model.asked[2].results()[0]["status"] == "success"
    assert "there is no tool 'mcp_fs_read_file'" in model.asked[3].results()[0]["error"]


def test_a_tool_may_use_a_client_of_its_own() -> None:
    client = MCPClient.from_config("s", sdk_server())
    assert client.connect()

    def ask_server(a: int) -> Any:
        """Ask."""
        return client.call_tool("add", {"a": a, "b": 1})

    async def ask_server_too(a: int) -> Any:
        """Ask, too."""
        return client.call_tool("add", {"a": a, "b": 1})

    wanted = calls(*[(name, {"a": number}) for number in range(4) for name in ("ask_server", "ask_server_too")])
    agent, model = made(wanted, say("ok"), tools=[ask_server, ask_server_too])
    agent.run("go")
    assert model.asked[-1].results() == [number + 1 for number in range(4) for _ in range(2)]
    client.disconnect()


def many(count: int) -> list[Tool]:
    class Named(Tool):
        def call(self, /, **kwargs: Any) -> Any:
            return self.name

    return [Named(f"tool_{number}", f"Does number {number}") for number in range(count)]


@pytest.mark.parametrize(("count", "searched"), [(14, False), (15, True)])
@pytest.mark.requirement("S2-17", "S2-18")
def test_from_the_threshold_on_a_model_is_offered_a_search_and_no_list(count: int, searched: bool) -> None:
    agent, model = made(say("ok"), tools=many(count))
    agent.run("go")
    expected = ["tool_search_regex"] if searched else [f"tool_{number}" for number in range(count)]
    assert model.asked[0].tool_names == expected
    assert ("- tool_3()" in model.asked[0].system) is not searched
    assert ("You have 15 tools" in model.asked[0].system) is searched
    assert model.asked[0].system == agent.system_prompt == agent.get_session_history("default")[0]["content"]


@pytest.mark.requirement("S2-19")
def test_a_search_can_be_had_however_few_tools_there_are() -> None:
    agent, model = made(say("ok"), tools=many(1), deferred_tools=True, ranked_search=True)
    agent.run("go")
    assert model.asked[0].tool_names == ["tool_search_regex", "tool_search"]


@pytest.mark.requirement("S2-21")
def test_what_a_search_finds_is_offered_and_can_be_called_in_the_same_turn() -> None:
    agent, model = made(call("tool_search_regex", pattern="number (7|3)$"), call("tool_3"), say("ok"), tools=many(20))
    agent.run("go")
    assert [asked.tool_names[1:] for asked in model.asked] == [[], ["tool_3", "tool_7"], ["tool_3", "tool_7"]]
    assert [tool["name"] for tool in model.asked[1].results()[0]["tools"]] == ["tool_3", "tool_7"]
    assert model.asked[2].results() == ["tool_3"]


@pytest.mark.requirement("S2-22")
def test_a_tool_that_is_called_without_a_search_is_run_and_offered_from_then_on() -> None:
    agent, model = made(calls(("tool_9", {}), ("tool_9", {})), say("ok"), say("again"), tools=many(20))
    agent.run("go")
    agent.run("more")
    assert model.asked[1].results() == ["tool_9", "tool_9"]
    assert [asked.tool_names[1:] for asked in model.asked] == [[], ["tool_9"], ["tool_9"]]


def test_loaded_tools_are_those_of_one_session_and_stay_in_their_order() -> None:
    agent, model = made(
        call("tool_5"), say("ok"), call("tool_2"), say("ok"), say("ok"), call("tool_5"), say("ok"), tools=many(20)
    )
    for session_id in ("a", "a", "b", "a"):
        agent.run("go", session_id=session_id)
    last_of_a, of_b = model.asked[-1].tool_names[1:], model.asked[4].tool_names[1:]
    assert (last_of_a, of_b) == (["tool_5", "tool_2"], [])


def test_tools_are_found_by_words_where_that_is_wanted() -> None:
    class Find(Tool):
        def call(self, /, **kwargs: Any) -> Any:
            return "found"

    tools = [*many(20), Find("look_up", "Search the address book for a person")]
    agent, model = made(
        call("tool_search", query="find a person's address"), say("ok"), tools=tools, ranked_search=True
    )
    agent.run("go")
    assert model.asked[1].tool_names[2] == "look_up"


def test_a_search_with_arguments_that_are_none_is_answered_as_data() -> None:
    agent, model = made(
        calls(("tool_search_regex", "{"), ("tool_search_regex", '{"pattern": "("}')), say("ok"), tools=many(20)
    )
    assert agent.run("go") == "ok"
    assert [told["status"] for told in model.asked[1].results()] == ["error", "error"]


def test_all_tools_of_an_agent_may_come_and_go_between_the_modes() -> None:
    def shrink(asked: Asked) -> Any:
        for number in range(10, 20):
            agent.tool_registry.unregister(f"tool_{number}")
        return call("tool_3")

    agent, model = made(shrink, say("ok"), tools=many(20), chat_limits=ChatLimits(max_steps=3))
    agent.run("go")
    assert [len(asked.tools) for asked in model.asked] == [1, 10]


def test_names_that_servers_do_not_accept_are_translated_there_and_back() -> None:
    agent, model = made()
    entry: ToolEntry = {"name": "lies mich!", "description": "Read", "parameters": {}, "function": lambda: "read"}
    agent.tool_registry.register(entry)
    model.answers = [lambda asked: call(asked.tool_names[0]), say("ok")]
    agent.run("go")
    assert model.asked[0].tool_names[0].startswith("lies_mich__")
    assert model.asked[1].results() == ["read"]
