"""The specification's own tests of `MCPAgent` (document 001, "Unit Tests"), and what else it says about the class.

The first thirteen tests keep the document's names, bodies and assertions.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Agent, MCPAgent
from gaia.agents.base.console import Console
from tests.support.fake_model import FakeModel, calls, say


class TestMCPAgent(MCPAgent, Agent):
    """Test agent for MCPAgent base class."""

    __test__ = False  # the document's name for it, which pytest would take for a test class

    def _get_system_prompt(self) -> str:
        return "Test MCP agent"

    def _create_console(self) -> Console:
        from gaia import SilentConsole

        return SilentConsole()

    def _register_tools(self) -> None:
        pass

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "test-tool",
                "description": "Test tool",
                "inputSchema": {
                    "type": "object",
                    "properties": {"param": {"type": "string"}},
                    "required": ["param"],
                },
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "test-tool":
            return {"result": arguments["param"].upper()}
        raise ValueError(f"Unknown tool: {tool_name}")


@pytest.mark.requirement("S1-1", "S1-24")
def test_mcp_agent_can_be_imported() -> None:
    from gaia.agents.base import MCPAgent

    assert MCPAgent is not None


@pytest.mark.requirement("S1-2", "S1-24")
def test_mcp_agent_is_abstract() -> None:
    class IncompleteAgent(MCPAgent, Agent):
        def _get_system_prompt(self) -> str:
            return "Test"

        def _create_console(self) -> Console:
            from gaia import SilentConsole

            return SilentConsole()

        def _register_tools(self) -> None:
            pass

    with pytest.raises(TypeError, match="execute_mcp_tool.*get_mcp_tool_definitions"):
        IncompleteAgent(silent_mode=True)  # no type checker knows: what is decorated is not in the types


@pytest.mark.requirement("S1-5", "S1-24")
def test_get_mcp_tool_definitions() -> None:
    agent = TestMCPAgent(silent_mode=True)
    tools = agent.get_mcp_tool_definitions()
    assert isinstance(tools, list)
    assert len(tools) == 1
    assert tools[0]["name"] == "test-tool"
    assert "inputSchema" in tools[0]


@pytest.mark.requirement("S1-6", "S1-24")
def test_execute_mcp_tool() -> None:
    agent = TestMCPAgent(silent_mode=True)
    result = agent.execute_mcp_tool("test-tool", {"param": "hello"})
    assert result["result"] == "HELLO"


@pytest.mark.requirement("S1-6", "S1-24")
def test_execute_unknown_tool() -> None:
    agent = TestMCPAgent(silent_mode=True)
    with pytest.raises(ValueError) as exc_info:
        agent.execute_mcp_tool("nonexistent-tool", {})
    assert "Unknown tool" in str(exc_info.value)


@pytest.mark.requirement("S1-7", "S1-24")
def test_get_mcp_prompts_default() -> None:
    agent = TestMCPAgent(silent_mode=True)
    prompts = agent.get_mcp_prompts()
    assert isinstance(prompts, list)
    assert len(prompts) == 0


@pytest.mark.requirement("S1-7", "S1-24")
def test_get_mcp_prompts_custom() -> None:
    class CustomAgent(TestMCPAgent):
        def get_mcp_prompts(self) -> list[dict[str, Any]]:
            return [{"name": "custom-prompt", "description": "Custom prompt"}]

    agent = CustomAgent(silent_mode=True)
    prompts = agent.get_mcp_prompts()
    assert len(prompts) == 1
    assert prompts[0]["name"] == "custom-prompt"


@pytest.mark.requirement("S1-7", "S1-24")
def test_get_mcp_resources_default() -> None:
    agent = TestMCPAgent(silent_mode=True)
    resources = agent.get_mcp_resources()
    assert isinstance(resources, list)
    assert len(resources) == 0


@pytest.mark.requirement("S1-7", "S1-24")
def test_get_mcp_resources_custom() -> None:
    class CustomAgent(TestMCPAgent):
        def get_mcp_resources(self) -> list[dict[str, Any]]:
            return [{"uri": "test://resource", "name": "Test Resource"}]

    agent = CustomAgent(silent_mode=True)
    resources = agent.get_mcp_resources()
    assert len(resources) == 1
    assert resources[0]["uri"] == "test://resource"


@pytest.mark.requirement("S1-8", "S1-24")
def test_get_mcp_server_info_default() -> None:
    agent = TestMCPAgent(silent_mode=True)
    info = agent.get_mcp_server_info()
    assert "name" in info
    assert "version" in info
    assert "TestMCPAgent" in info["name"]
    assert info["version"] == "2.0.0"


@pytest.mark.requirement("S1-8", "S1-24")
def test_get_mcp_server_info_custom() -> None:
    class CustomAgent(TestMCPAgent):
        def get_mcp_server_info(self) -> dict[str, Any]:
            return {"name": "Custom MCP Server", "version": "3.0.0", "description": "Custom server"}

    agent = CustomAgent(silent_mode=True)
    info = agent.get_mcp_server_info()
    assert info["name"] == "Custom MCP Server"
    assert info["version"] == "3.0.0"
    assert info["description"] == "Custom server"


@pytest.mark.requirement("S1-5", "S1-6", "S1-24")
def test_multiple_tools() -> None:
    class MultiToolAgent(MCPAgent, Agent):
        def _get_system_prompt(self) -> str:
            return "Multi-tool agent"

        def _create_console(self) -> Console:
            from gaia import SilentConsole

            return SilentConsole()

        def _register_tools(self) -> None:
            pass

        def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
            return [
                {"name": "tool-1", "description": "Tool 1", "inputSchema": {}},
                {"name": "tool-2", "description": "Tool 2", "inputSchema": {}},
                {"name": "tool-3", "description": "Tool 3", "inputSchema": {}},
            ]

        def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            if tool_name in ["tool-1", "tool-2", "tool-3"]:
                return {"tool": tool_name}
            raise ValueError(f"Unknown tool: {tool_name}")

    agent = MultiToolAgent(silent_mode=True)
    tools = agent.get_mcp_tool_definitions()
    assert len(tools) == 3
    assert agent.execute_mcp_tool("tool-1", {})["tool"] == "tool-1"
    assert agent.execute_mcp_tool("tool-2", {})["tool"] == "tool-2"
    assert agent.execute_mcp_tool("tool-3", {})["tool"] == "tool-3"


@pytest.mark.requirement("S1-3", "S1-9", "S1-24")
def test_inheritance_with_api_agent() -> None:
    from gaia.agents.base import ApiAgent

    class DualAgent(MCPAgent, ApiAgent, Agent):
        def _get_system_prompt(self) -> str:
            return "Dual agent"

        def _create_console(self) -> Console:
            from gaia import SilentConsole

            return SilentConsole()

        def _register_tools(self) -> None:
            pass

        def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
            return [{"name": "test", "inputSchema": {}}]

        def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"status": "ok"}

    agent = DualAgent(silent_mode=True)
    assert isinstance(agent, MCPAgent)
    assert isinstance(agent, ApiAgent)
    assert isinstance(agent, Agent)
    tools = agent.get_mcp_tool_definitions()
    assert len(tools) > 0
    model_id = agent.get_model_id()
    assert isinstance(model_id, str)


@pytest.mark.requirement("S1-8")
def test_the_default_server_info_is_exactly_name_and_version() -> None:
    assert TestMCPAgent().get_mcp_server_info() == {"name": "GAIA TestMCPAgent", "version": "2.0.0"}


@pytest.mark.requirement("S1-2")
@pytest.mark.parametrize("missing", ["get_mcp_tool_definitions", "execute_mcp_tool"])
def test_an_agent_that_lacks_one_method_cannot_be_built_and_the_error_names_it(missing: str) -> None:
    methods = {name: value for name, value in vars(TestMCPAgent).items() if "_mcp_tool" in name and name != missing}
    incomplete: type[Any] = type("IncompleteAgent", (MCPAgent, Agent), methods)
    with pytest.raises(TypeError, match=missing):
        incomplete(silent_mode=True)


def test_an_abstract_agent_is_found_as_such() -> None:
    assert inspect.isabstract(MCPAgent)
    assert not inspect.isabstract(TestMCPAgent)


def test_a_bare_agent_offers_no_optional_hook_so_that_no_capability_is_promised() -> None:
    hooks = ("get_mcp_prompt", "read_mcp_resource", "get_mcp_resource_templates", "complete_mcp_argument")
    assert [hook for hook in hooks if hasattr(TestMCPAgent(silent_mode=True), hook)] == []


def test_execute_mcp_tool_may_be_a_coroutine_function() -> None:
    class AsyncAgent(TestMCPAgent):
        async def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # narrowed by the class above
            return {"tool": tool_name}

    assert inspect.iscoroutinefunction(AsyncAgent(silent_mode=True).execute_mcp_tool)


def test_announcements_reach_every_publisher_until_it_leaves() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def tools_changed(self) -> None:
            self.heard.append("tools")

        def prompts_changed(self) -> None:
            self.heard.append("prompts")

        def resources_changed(self) -> None:
            self.heard.append("resources")

        def own_files(self) -> tuple[Path, ...]:
            return ()

        def resource_updated(self, uri: str) -> None:
            self.heard.append(uri)

    agent, first, second = TestMCPAgent(silent_mode=True), Recorder(), Recorder()
    agent.notify_mcp_tools_changed()
    agent.on_mcp_published(first)
    agent.on_mcp_published(second)
    agent.notify_mcp_tools_changed()
    agent.on_mcp_unpublished(first)
    agent.notify_mcp_resource_updated("project://dashboard")
    assert first.heard == ["tools"]
    assert second.heard == ["tools", "project://dashboard"]


def test_what_clients_may_call_the_agents_own_model_may_call_too() -> None:
    model = FakeModel(calls(("test-tool", {"param": "x"}), ("Test_Tool", {"param": "y"}), ("test-tool", {})), say("ok"))
    agent = TestMCPAgent(model=model)
    assert agent.run("go") == "ok"
    first, second, refused = model.asked[-1].results()
    assert (first, second) == ({"result": "X"}, {"result": "Y"})
    assert refused["error"].startswith("The arguments do not fit the input schema of tool 'test-tool'")
    assert model.asked[0].tool_names == ["test-tool"]
    assert (
        model.asked[0].system
        == agent.system_prompt
        == "Test MCP agent\n\nTools:\n- test-tool(param: string): Test tool"
    )


def test_definitions_that_are_none_are_kept_from_the_agents_own_model() -> None:
    class Odd(TestMCPAgent):
        def get_mcp_tool_definitions(self) -> list[Any]:
            return ["x", {"description": "without a name"}, *super().get_mcp_tool_definitions()]

        async def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # as the documents allow
            return {"tool": tool_name}

    model = FakeModel(calls(("test-tool", {"param": "x"})), say("ok"))
    Odd(model=model).run("go")
    assert model.asked[0].tool_names == ["test-tool"]
    assert model.asked[-1].results() == [{"tool": "test-tool"}]


def test_the_base_classes_load_neither_the_protocol_nor_the_terminal_nor_the_web_server() -> None:
    program = (
        "import sys, gaia.agents.base\n"
        "class A(gaia.agents.base.MCPAgent, gaia.agents.base.Agent):\n"
        "    def get_mcp_tool_definitions(self): return []\n"
        "    def execute_mcp_tool(self, tool_name, arguments): return {}\n"
        "A()\n"
        "print(sorted({'mcp', 'mcp_types', 'rich', 'starlette', 'uvicorn', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == ""
