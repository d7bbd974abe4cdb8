"""Tools of MCP servers as tools of an agent: which there are, what they are called, what they answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from gaia.agents.base import Tool
from gaia.mcp.toolset import (
    ALL_SERVERS,
    MCPClientManager,
    MCPSchemaConverter,
    MCPServerConfig,
    MCPToolWrapper,
    create_mcp_tools,
)
from tests.servers.http_upstream import served
from tests.support.gaia_clients import raw_server
from tests.support.gated_servers import gate
from tests.support.provider_rules import violations


class Manager:
    """Answers calls as a test says; stands for the manager."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.call_tool = answer


def same(**call: Any) -> dict[str, Any]:
    return call


def wrapper(server: str = "srv", tool: str = "t", answer: Callable[..., Any] = same) -> MCPToolWrapper:
    manager = cast(MCPClientManager, Manager(answer))
    return MCPToolWrapper(server, tool, {"name": tool, "inputSchema": {}}, manager)


def named(tools: list[MCPToolWrapper]) -> dict[str, MCPToolWrapper]:
    return {tool.name: tool for tool in tools}


@pytest.mark.requirement("S4-25")
def test_the_names_of_the_toolset_import_together() -> None:
    from gaia.mcp.toolset import (
        MCPClientManager,
        MCPSchemaConverter,
        MCPServerConfig,
        MCPToolWrapper,
        create_mcp_tools,
        get_enabled_mcp_servers,
    )

    offered = (create_mcp_tools, get_enabled_mcp_servers, MCPServerConfig, MCPToolWrapper, MCPClientManager)
    assert all(map(callable, (*offered, MCPSchemaConverter)))


@pytest.mark.requirement("S4-8", "S4-9")
def test_a_wrapped_tool_has_the_attributes_of_the_document_and_answers_with_text(
    demo: MCPServerConfig, manager: MCPClientManager
) -> None:
    tool = named(create_mcp_tools())["demo__add"]
    assert isinstance(tool, Tool)
    assert (tool.name, tool.description) == ("demo__add", "Add two numbers.")
    assert (tool.server_name, tool.original_tool_name, tool.client_manager) == ("demo", "add", manager)
    assert tool.parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 0}},
        "required": ["a"],
    }
    assert tool.annotations["readOnlyHint"] is True
    assert tool.call(a=1, b=2) == "3"
    assert repr(tool) == "MCPToolWrapper('demo__add')"


@pytest.mark.requirement("S4-9")
def test_a_call_reaches_the_tool_by_its_own_name_with_any_arguments() -> None:
    calls: list[dict[str, Any]] = []

    def remembers(**call: Any) -> str:
        calls.append(call)
        return "done"

    tool = wrapper("a__b", "c__d", remembers)
    assert tool.call(self=1, server_name="x") == "done"
    assert calls == [
        {"server_name": "a__b", "tool_name": "c__d", "arguments": {"self": 1, "server_name": "x"}},
    ]


@pytest.mark.requirement("S4-10")
def test_every_failure_is_a_text_that_says_so(demo: MCPServerConfig, manager: MCPClientManager) -> None:
    tools = named(create_mcp_tools())
    assert tools["demo__fail"].call() == "Error: Error executing MCP tool 'demo__fail': it did not work"
    for failure in (ValueError("why"), TimeoutError("why"), KeyError("why"), RecursionError("why")):

        def fails(problem: Exception = failure, **call: Any) -> str:
            raise problem

        assert wrapper(answer=fails).call().startswith("Error: Error executing MCP tool 'srv__t': ")
    manager.stop_client("demo")
    gone = tools["demo__add"].call(a=1)
    assert gone.startswith("Error: ") and "'demo' is not started" in gone


@pytest.mark.requirement("S4-10")
def test_a_failure_without_words_is_told_by_its_kind() -> None:
    def fails(**call: Any) -> str:
        raise TimeoutError

    assert wrapper(answer=fails).call() == "Error: Error executing MCP tool 'srv__t': TimeoutError"


@pytest.mark.requirement("S4-11")
def test_a_tool_is_called_inside_of_a_running_loop(demo: MCPServerConfig) -> None:
    async def inside() -> str:
        return named(create_mcp_tools(["demo"]))["demo__add"].call(a=4)

    assert asyncio.run(inside()) == "4"
    assert asyncio.run(inside()) == "4"


@pytest.mark.requirement("S4-4")
def test_without_a_server_that_is_switched_on_there_are_no_tools(caplog: pytest.LogCaptureFixture) -> None:
    assert create_mcp_tools() == []
    assert caplog.records == []


@pytest.mark.requirement("S4-4")
def test_a_server_that_is_wanted_and_not_there_is_a_warning_that_says_what_to_do(
    demo: MCPServerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    tools = create_mcp_tools(server_names=["fetch", "demo", "weather"])
    assert {tool.server_name for tool in tools} == {"demo"}
    assert [record.message for record in caplog.records] == [
        "MCP server 'fetch' is switched off; set MCP_FETCH=True for it, also in .env",
        "MCP server 'weather' is not registered in ALL_SERVERS, which has fetch, demo",
    ]


@pytest.mark.requirement("S4-4")
def test_a_bad_server_does_not_stop_the_others(demo: MCPServerConfig, caplog: pytest.LogCaptureFixture) -> None:
    ALL_SERVERS.insert(0, MCPServerConfig("bad", command="/no/such/program"))
    assert {tool.server_name for tool in create_mcp_tools()} == {"demo"}
    assert "Failed to initialize MCP server 'bad': " in caplog.text
    assert "/no/such/program" in caplog.text and "its tools are missing" in caplog.text


@pytest.mark.requirement("S4-4")
def test_only_servers_that_are_wanted_are_started(demo: MCPServerConfig, manager: MCPClientManager) -> None:
    raw = raw_server()
    ALL_SERVERS.append(MCPServerConfig("raw", command=raw["command"], args=raw["args"]))
    assert {tool.server_name for tool in create_mcp_tools(["raw"])} == {"raw"}
    assert manager.get_discovered_tools("demo") == []
    assert create_mcp_tools([]) == []


def test_one_text_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match=re.escape("server_names is the text 'fetch'; expected a list of names")):
        create_mcp_tools("fetch")


def test_a_name_that_is_registered_twice_is_used_once(demo: MCPServerConfig, caplog: pytest.LogCaptureFixture) -> None:
    ALL_SERVERS.append(MCPServerConfig("demo", command="/no/such/program"))
    names = [tool.name for tool in create_mcp_tools()]
    assert len(names) == len(set(names)) > 0
    assert "'demo' is registered twice; the first one is used" in caplog.text


@pytest.mark.requirement("S4-7")
@pytest.mark.parametrize(("allowed", "names"), [(["add", "echo"], ["demo__add", "demo__echo"]), ([], [])])
def test_only_tools_that_are_allowed_are_there(demo: MCPServerConfig, allowed: list[str], names: list[str]) -> None:
    demo.allowed_tools = allowed
    assert [tool.name for tool in create_mcp_tools()] == names


@pytest.mark.requirement("S4-7")
def test_without_a_list_all_tools_are_allowed(demo: MCPServerConfig, manager: MCPClientManager) -> None:
    assert len(create_mcp_tools()) == len(manager.get_discovered_tools("demo")) == 7


@pytest.mark.parametrize("allowed", [None, ["pid", "view_b"]])
def test_tools_that_are_for_views_only_are_not_there(
    allowed: list[str] | None, manager: MCPClientManager, caplog: pytest.LogCaptureFixture
) -> None:
    with gate() as servers:
        entry = servers.server("a", "view_b")
        config = MCPServerConfig("a", command=entry["command"], args=entry["args"], allowed_tools=allowed)
        ALL_SERVERS.append(config)
        names = [tool.name for tool in create_mcp_tools()]
        assert ("a__pid" in names, "a__view_b" in names) == (True, False)
        assert "view_b" in [tool["name"] for tool in manager.get_discovered_tools("a")]
        assert "has no tool" not in caplog.text
        manager.stop_all()


@pytest.mark.requirement("S4-7")
def test_an_allowed_tool_that_is_not_there_is_a_warning(
    demo: MCPServerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    demo.allowed_tools = ["add", "ad"]
    assert [tool.name for tool in create_mcp_tools()] == ["demo__add"]
    assert "MCP server 'demo' has no tool 'ad', which allowed_tools names; it has add, echo," in caplog.text


@pytest.mark.requirement("S4-23")
def test_a_server_on_the_network_is_a_server_like_any_other() -> None:
    with served() as url:
        ALL_SERVERS.append(MCPServerConfig("web", transport="http", url=f"{url}/mcp/", allowed_tools=["add"]))
        [tool] = create_mcp_tools(["web"])
        assert tool.call(a=5) == "5"
        MCPClientManager().stop_all()


@pytest.mark.parametrize(
    ("server", "tool"), [("s", "x" * 80), ("s", "a.b"), ("s", "ü"), ("a.b", "c"), ("s", "a b"), ("x" * 64, "y")]
)
def test_a_name_is_one_that_every_provider_accepts(server: str, tool: str) -> None:
    one, other = wrapper(server, tool), wrapper(server, f"{tool}.")
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one.name)
    assert one.name != other.name
    assert one.original_tool_name == tool


def test_names_that_would_be_the_same_are_not(manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch) -> None:
    ALL_SERVERS[:] = [MCPServerConfig("a", command="x"), MCPServerConfig("a__b", command="x")]
    monkeypatch.setattr(manager, "start_client", same)
    tools: dict[str, Any] = {"a": [{"name": "b__c", "inputSchema": {}}], "a__b": [{"name": "c", "inputSchema": {}}]}
    monkeypatch.setattr(manager, "get_discovered_tools", tools.__getitem__)
    one, other = create_mcp_tools()
    assert one.name == "a__b__c" != other.name
    assert [(tool.server_name, tool.original_tool_name) for tool in (one, other)] == [("a", "b__c"), ("a__b", "c")]


@pytest.mark.requirement("S4-20")
def test_a_converter_of_ones_own_is_used(demo: MCPServerConfig) -> None:
    class Shouting(MCPSchemaConverter):
        @classmethod
        def _normalize_property(cls, prop: dict[str, Any]) -> dict[str, Any]:
            return {**super()._normalize_property(prop), "format": "loud"}

        @classmethod
        def convert_tool_result(cls, result: Any) -> str:
            return super().convert_tool_result(result) + "!"

    for converter in (Shouting, Shouting()):
        tool = named(create_mcp_tools(converter=converter))["demo__add"]
        assert tool.call(a=1) == "1!"
        assert tool.construct_schema("openai")["parameters"]["properties"]["a"] == {"type": "number", "format": "loud"}


def test_a_tool_that_cannot_be_converted_is_left_out_alone(
    demo: MCPServerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    class Picky(MCPSchemaConverter):
        @classmethod
        def extract_tool_info(cls, tool_schema: dict[str, Any]) -> dict[str, Any]:
            if tool_schema["name"] == "add":
                raise ValueError("not this one")
            return super().extract_tool_info(tool_schema)

    assert "demo__add" not in named(create_mcp_tools(converter=Picky))
    assert "tool 'add' of MCP server 'demo' is left out" in caplog.text


@pytest.mark.parametrize("provider", ["openai", "ollama", "anthropic", "gemini"])
def test_every_provider_can_be_told_of_the_tools(demo: MCPServerConfig, provider: str) -> None:
    for tool in create_mcp_tools():
        assert violations(provider, tool.parameters_for(provider)) == []
        assert tool.name in str(tool.construct_schema(provider))


def test_a_registry_knows_which_server_a_tool_is_from(demo: MCPServerConfig) -> None:
    entry = named(create_mcp_tools())["demo__add"].entry()
    assert (entry["name"], entry["_mcp_server"], entry["_mcp_tool_name"]) == ("demo__add", "demo", "add")
    assert entry["function"](a=2) == "2"
    assert entry["annotations"]["readOnlyHint"] is True


def test_the_server_judges_the_arguments_that_an_agent_gives(demo: MCPServerConfig) -> None:
    tools = named(create_mcp_tools())
    assert '"undeclared": 1' in tools["demo__echo"].entry()["function"](undeclared=1)
    assert tools["demo__add"].entry()["function"]().startswith("Error: ")
