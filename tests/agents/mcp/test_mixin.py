"""`MCPClientMixin`: tools of servers appear in an agent's registry, work there, and go with their server."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Agent
from gaia.agents.base import tool as native
from gaia.agents.base.console import AgentConsole
from gaia.agents.base.tools import (
    _TOOL_REGISTRY,  # pyright: ignore[reportPrivateUsage]  # the specification's name for it
    ToolRegistry,
    get_tool_display_name,
    matching_tools,
)
from gaia.mcp import MCPClient, MCPClientManager, MCPClientMixin
from gaia.mcp.client import MCPConfig, mcp_client
from gaia.mcp.client.server_config import ConfiguredServer
from tests.support.fake_model import FakeModel, calls, say
from tests.support.gaia_clients import CountingAgent, EchoAgent, FakeTransport, all_tools
from tests.support.waiting import PATIENCE, eventually

READ = {"name": "read_file", "description": "Read it", "inputSchema": {"type": "object"}}
WRITE = {"name": "write-file", "description": "Write it", "inputSchema": {"type": "object"}}


@pytest.fixture(autouse=True)
def transports(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeTransport]:
    """Every command is a server that exists only here; by their commands."""
    made: dict[str, FakeTransport] = {}

    def make(
        name: str, config: dict[str, Any], timeout: float, debug: bool, folder: Path | None = None
    ) -> ConfiguredServer:
        transport = made.setdefault(config["command"], FakeTransport(READ, WRITE))
        transport.connects = config["command"] != "missing"
        return ConfiguredServer(transport, all_tools)

    monkeypatch.setattr(mcp_client, "configured_server", make)
    return made


def manager_of(agent: MCPClientMixin) -> MCPClientManager:
    return agent._mcp_manager  # pyright: ignore[reportPrivateUsage]  # the specification's name for it


def own_tools(agent: MCPClientMixin) -> list[str]:
    return [name for name in agent.tool_registry if name.startswith("mcp_")]


def write_config(path: Path, **servers: str) -> str:
    entries = {name: {"command": command} for name, command in servers.items()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return str(path)


class Stubborn:
    """A base class that does not call `super().__init__()`."""

    def __init__(self) -> None:
        self.name = "stubborn"


@pytest.mark.requirement("S0-13")
@pytest.mark.parametrize(
    "bases",
    [
        (Agent, MCPClientMixin),
        (MCPClientMixin, Agent),
        (MCPClientMixin,),
        (Stubborn, MCPClientMixin),
        (MCPClientMixin, Stubborn),
    ],
    ids=lambda bases: "-".join(base.__name__ for base in bases),
)
def test_it_works_among_any_base_classes(bases: tuple[type, ...]) -> None:
    mixed: type[Any] = type("MixedAgent", bases, {})
    agent = mixed()
    assert isinstance(agent._mcp_manager, MCPClientManager)
    assert agent._mcp_manager is agent._mcp_manager
    assert agent.connect_mcp_server("fs", {"command": "fs"})
    assert own_tools(agent) == ["mcp_fs_read_file", "mcp_fs_write-file"]
    assert agent.tool_registry["mcp_fs_read_file"]["function"]()["status"] == "success"
    agent.disconnect_mcp_server("fs")
    assert own_tools(agent) == []


def test_options_go_on_to_the_next_class() -> None:
    class MixedAgent(MCPClientMixin, Agent):
        pass

    agent = MixedAgent(silent_mode=True, debug=True, auto_load_config=False)
    assert (agent.silent_mode, agent.debug, manager_of(agent).debug) == (True, True, True)


@pytest.mark.requirement("S0-12")
@pytest.mark.parametrize("bases", [(Agent, MCPClientMixin), (MCPClientMixin, Agent), (MCPClientMixin,)])
def test_debug_of_the_agent_is_debug_of_its_clients(bases: tuple[type, ...], caplog: pytest.LogCaptureFixture) -> None:
    mixed: type[Any] = type("MixedAgent", bases, {})
    caplog.set_level(logging.DEBUG)
    agent = mixed(debug=True)
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert agent.get_mcp_client("fs").debug
    assert "MCP server 'fs': connected" in caplog.text


def test_a_server_can_be_connected_while_the_agent_registers_its_own_tools() -> None:
    class EarlyAgent(MCPClientMixin, Agent):
        def _register_tools(self) -> None:
            assert self.connect_mcp_server("fs", {"command": "fs"})

    assert own_tools(EarlyAgent(silent_mode=True)) == ["mcp_fs_read_file", "mcp_fs_write-file"]


@pytest.mark.requirement("S0-14", "S3-13", "S3-17", "S3-18")
def test_connecting_registers_the_tools() -> None:
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "fs"}) is True
    entry = agent.tool_registry["mcp_fs_read_file"]
    assert _TOOL_REGISTRY["mcp_fs_read_file"] is entry
    assert (entry["_mcp_server"], entry["_mcp_tool_name"]) == ("fs", "read_file")
    assert agent.list_mcp_servers() == ["fs"]


@pytest.mark.requirement("S0-59")
def test_an_entry_is_the_gaia_format_and_the_function() -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    entry = dict(agent.tool_registry["mcp_fs_read_file"])
    client = agent.get_mcp_client("fs")
    assert client is not None
    assert callable(entry.pop("function"))
    assert (entry.pop("inputSchema"), entry.pop("_owner")) == (READ["inputSchema"], agent.tool_registry.owner)
    assert entry == client.list_tools()[0].to_gaia_format("fs")


@pytest.mark.requirement("S-27")
def test_a_tool_that_says_that_it_destroys_is_not_run_unasked(transports: dict[str, FakeTransport]) -> None:
    transports["server"] = FakeTransport(READ | {"annotations": {"destructiveHint": True}}, WRITE | {"annotations": 3})

    class Thinking(Agent, MCPClientMixin):
        """It has nobody who could be asked."""

    model = FakeModel(calls(("mcp_s_read_file", {})), say("as you like"))
    agent = Thinking(silent_mode=True, auto_load_config=False, model=model)
    assert agent.connect_mcp_server("s", {"command": "server"})
    assert agent.run("Read it!") == "as you like"
    assert "nobody confirmed" in str(model.asked[1].results())
    assert "tools/call" not in [method for method, _ in transports["server"].requests]
    agent.close()


@pytest.mark.requirement("S0-14", "S0-16")
@pytest.mark.parametrize("answer", [None, {"error": {"code": -32600, "message": "not today"}}])
def test_a_server_that_cannot_be_connected_is_false_and_no_exception(
    answer: Any, transports: dict[str, FakeTransport], caplog: pytest.LogCaptureFixture
) -> None:
    command = "missing" if answer is None else "refusing"
    transports["refusing"] = FakeTransport(READ, initialize=answer)
    agent = CountingAgent()
    assert agent.connect_mcp_server("bad", {"command": command}) is False
    assert (agent.list_mcp_servers(), own_tools(agent), agent.rebuilt) == ([], [], 0)
    [said] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("MCP server 'bad' is not connected: ")


@pytest.mark.requirement("S0-14")
def test_a_name_that_is_taken_is_false_and_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "one"})
    assert not agent.connect_mcp_server("fs", {"command": "two"})
    assert agent.rebuilt == 1
    assert caplog.messages[1:] == ["MCP server 'fs' is not added: MCP server 'fs' already exists"]


@pytest.mark.requirement("S0-15")
@pytest.mark.parametrize("config", ["npx", None, [], {}, {"args": ["x"]}, {"command": "x", "url": "http://localhost"}])
def test_a_configuration_that_names_no_server_is_an_exception(config: Any) -> None:
    with pytest.raises(ValueError, match="Config"):
        CountingAgent().connect_mcp_server("bad", config)


@pytest.mark.requirement("S0-16", "S0-18")
def test_the_prompt_is_rebuilt_once_for_each_change() -> None:
    agent = CountingAgent()
    assert "read_file" not in agent.system_prompt
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert agent.rebuilt == 1
    assert "mcp_fs_read_file" in agent.system_prompt
    agent.disconnect_mcp_server("fs")
    assert agent.rebuilt == 2
    assert "read_file" not in agent.system_prompt


@pytest.mark.requirement("S3-14")
def test_the_prompt_lists_tools_without_repeating_their_server() -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert "- mcp_fs_read_file(): Read it" in agent.system_prompt
    assert "[MCP:" not in agent.system_prompt
    assert agent.tool_registry["mcp_fs_read_file"]["description"] == "[MCP:fs] Read it"


@pytest.mark.requirement("S3-10", "S3-11")
def test_people_see_a_tool_by_its_own_name_and_its_server(capsys: pytest.CaptureFixture[str]) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("acer", {"command": "fs"})
    assert get_tool_display_name("mcp_acer_read_file") == "read_file (acer)"
    AgentConsole().print_tool_usage("mcp_acer_read_file")
    shown = capsys.readouterr().err
    assert "🔧 Executing operation" in shown
    assert "Tool: read_file (acer)" in shown
    assert "mcp_acer" not in shown


@pytest.mark.requirement("S0-18")
def test_disconnecting_an_unknown_server_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    agent = CountingAgent()
    agent.disconnect_mcp_server("nobody")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert agent.rebuilt == 0


@pytest.mark.requirement("S0-18", "S0-19")
def test_a_disconnected_server_is_gone_with_its_tools(transports: dict[str, FakeTransport]) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    client = agent.get_mcp_client("fs")
    assert isinstance(client, MCPClient)
    agent.disconnect_mcp_server("fs")
    assert (agent.list_mcp_servers(), agent.get_mcp_client("fs"), own_tools(agent)) == ([], None, [])
    assert not transports["fs"].connected
    assert not manager_of(agent).config.server_exists("fs")


@pytest.mark.requirement("S0-60")
def test_one_tool_of_two_servers_is_two_tools_each_of_its_own_server(transports: dict[str, FakeTransport]) -> None:
    agent = CountingAgent()
    for name in ("one", "two"):
        agent.connect_mcp_server(name, {"command": name})
    agent.tool_registry["mcp_one_read_file"]["function"](path="/1")
    agent.tool_registry["mcp_two_read_file"]["function"](path="/2")
    assert transports["one"].requests[-1][1] == {"name": "read_file", "arguments": {"path": "/1"}}
    assert transports["two"].requests[-1][1] == {"name": "read_file", "arguments": {"path": "/2"}}
    agent.disconnect_mcp_server("one")
    assert own_tools(agent) == ["mcp_two_read_file", "mcp_two_write-file"]


def test_a_server_with_any_name_has_tools_that_a_model_can_call(transports: dict[str, FakeTransport]) -> None:
    name = "@scope/my server"
    agent = CountingAgent()
    assert agent.connect_mcp_server(name, {"command": "one"})
    assert own_tools(agent) == ["mcp_scope_my_server_read_file", "mcp_scope_my_server_write-file"]
    assert get_tool_display_name("mcp_scope_my_server_read_file") == f"read_file ({name})"
    assert agent.tool_registry["mcp_scope_my_server_read_file"]["_mcp_server"] == name
    assert matching_tools(agent.tool_registry, "scope_my_server_read_file") == ["mcp_scope_my_server_read_file"]
    assert agent.list_mcp_servers() == [name]
    report = manager_of(agent).config
    assert report.server_exists(name)
    agent.disconnect_mcp_server(name)
    assert (agent.list_mcp_servers(), own_tools(agent)) == ([], [])


def test_servers_whose_prefixes_meet_keep_their_tools_apart(transports: dict[str, FakeTransport]) -> None:
    agent = CountingAgent()
    for name, command in (("my server", "one"), ("my/server", "two")):
        assert agent.connect_mcp_server(name, {"command": command})
    assert len(set(own_tools(agent))) == 4
    agent.disconnect_mcp_server("my/server")
    assert own_tools(agent) == ["mcp_my_server_read_file", "mcp_my_server_write-file"]


def test_two_tools_that_would_have_one_name_get_two(transports: dict[str, FakeTransport]) -> None:
    transports["one"], transports["two"] = FakeTransport({"name": "b_c"}), FakeTransport({"name": "c"})
    agent = CountingAgent()
    agent.connect_mcp_server("a", {"command": "one"})
    agent.connect_mcp_server("a_b", {"command": "two"})
    first, second = own_tools(agent)
    assert first == "mcp_a_b_c"
    assert second.startswith("mcp_a_b_c_")
    assert agent.tool_registry[second]["name"] == second
    agent.disconnect_mcp_server("a")
    assert own_tools(agent) == [second]


def test_a_tool_of_the_agents_own_keeps_its_name() -> None:
    class OwnAgent(CountingAgent):
        def _register_tools(self) -> None:
            @native(name="mcp_fs_read_file")
            def own() -> str:
                return "own"

    agent = OwnAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert agent.tool_registry["mcp_fs_read_file"]["function"]() == "own"
    assert len(own_tools(agent)) == 3


@pytest.mark.requirement("S3-20")
def test_unregistering_takes_away_what_this_client_registered_and_nothing_else() -> None:
    first, second = CountingAgent(), CountingAgent()
    for agent in (first, second):
        agent.connect_mcp_server("fs", {"command": "fs"})
    _TOOL_REGISTRY["mcp_fs_by_hand"] = {"name": "mcp_fs_by_hand", "_mcp_server": "fs", "_mcp_tool_name": "by_hand"}
    first.disconnect_mcp_server("fs")
    assert own_tools(first) == ["mcp_fs_by_hand"]
    assert own_tools(second) == ["mcp_fs_by_hand", "mcp_fs_read_file", "mcp_fs_write-file"]
    assert _TOOL_REGISTRY["mcp_fs_read_file"] is second.tool_registry["mcp_fs_read_file"]


@pytest.mark.requirement("S0-20")
def test_the_specifications_custom_wrapper_works_and_is_cleaned_up() -> None:
    class CustomAgent(Agent, MCPClientMixin):
        def _register_mcp_tools(self, client: MCPClient) -> None:
            tools = client.list_tools()
            for tool in tools:
                gaia_tool = tool.to_gaia_format(client.name)

                # Custom wrapper with additional logic
                def custom_wrapper(tool: Any = tool, **kwargs: Any) -> Any:
                    result = client.call_tool(tool.name, kwargs)
                    # Add custom processing
                    return result

                gaia_tool["function"] = custom_wrapper
                _TOOL_REGISTRY[gaia_tool["name"]] = gaia_tool

    agent = CustomAgent(silent_mode=True)
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert "content" in agent.tool_registry["mcp_fs_read_file"]["function"](path="/x")
    agent.disconnect_mcp_server("fs")
    assert own_tools(agent) == []
    assert "mcp_fs_read_file" not in _TOOL_REGISTRY


@pytest.mark.requirement("S0-20", "S3-20")
def test_a_custom_wrapper_that_is_registered_with_its_agent_alone_is_cleaned_up_too(
    transports: dict[str, FakeTransport],
) -> None:
    class CustomAgent(Agent, MCPClientMixin):
        def _register_mcp_tools(self, client: MCPClient) -> None:
            for tool in client.list_tools():
                self.tool_registry.register(tool.to_gaia_format(client.name))

    agent, other = CustomAgent(silent_mode=True), CustomAgent(silent_mode=True)
    for each in (agent, other):
        each.connect_mcp_server("fs", {"command": "fs"})
    client = agent.get_mcp_client("fs")
    assert client is not None
    client.transport = transports["fs"] = FakeTransport(READ)
    assert client.connect()
    agent._register_client(client)  # pyright: ignore[reportPrivateUsage]  # as when the server changed its tools
    assert own_tools(agent) == ["mcp_fs_read_file"]
    agent.disconnect_mcp_server("fs")
    assert own_tools(agent) == []
    assert own_tools(other) == ["mcp_fs_read_file", "mcp_fs_write-file"]


@pytest.mark.requirement("S0-20")
def test_an_entry_written_by_hand_without_the_tools_name_keeps_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"name": "mcp_fs_read_file", "_mcp_server": "fs"}
    monkeypatch.setitem(_TOOL_REGISTRY, "mcp_fs_read_file", own)
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "fs"})
    assert _TOOL_REGISTRY["mcp_fs_read_file"] is own
    assert len(own_tools(agent)) == 3
    agent.disconnect_mcp_server("fs")
    assert own_tools(agent) == ["mcp_fs_read_file"]


class HastyAgent(Agent, MCPClientMixin):
    """Fails after it registered more than its server has, at once or when that server's tools change."""

    fails = True

    def _register_mcp_tools(self, client: MCPClient) -> None:
        super()._register_mcp_tools(client)
        _TOOL_REGISTRY["mcp_fs_extra"] = {"name": "mcp_fs_extra", "_mcp_server": "fs", "_mcp_tool_name": "extra"}
        if self.fails:
            raise LookupError("nothing more")


@pytest.mark.requirement("S0-20", "S3-20")
def test_what_a_hook_registered_before_it_failed_goes_with_the_server() -> None:
    agent = HastyAgent(silent_mode=True)
    for _ in range(2):
        agent.fails = False
        assert agent.connect_mcp_server("fs", {"command": "fs"})
        client = agent.get_mcp_client("fs")
        assert client is not None
        agent.fails = True
        with pytest.raises(LookupError):
            agent._register_client(client)  # pyright: ignore[reportPrivateUsage]  # as when the server changed its tools
        assert own_tools(agent) == ["mcp_fs_extra", "mcp_fs_read_file", "mcp_fs_write-file"]
        agent.disconnect_mcp_server("fs")
        assert own_tools(agent) == []
        assert "mcp_fs_extra" not in _TOOL_REGISTRY


@pytest.mark.requirement("F-290")
def test_whatever_fails_while_a_server_is_connected_leaves_the_agent_without_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = HastyAgent(silent_mode=True)
    for _ in range(2):
        assert agent.connect_mcp_server("fs", {"command": "fs"}) is False
        assert (agent.get_mcp_client("fs"), own_tools(agent)) == (None, [])
        assert "mcp_fs_extra" not in _TOOL_REGISTRY
    agent.fails = False
    cancelled = asyncio.CancelledError()
    for error in (OSError("disk"), KeyError("x"), TimeoutError(), cancelled, BaseExceptionGroup("of", [cancelled])):

        def fails(*args: object, raised: BaseException = error) -> None:
            raise raised

        with monkeypatch.context() as patched:
            patched.setattr(MCPClientManager, "add_server", fails)
            assert agent.connect_mcp_server("fs", {"command": "fs"}) is False
    kept, *failures = caplog.records
    assert "takes it out" in kept.getMessage()
    assert {record.levelname for record in failures} == {"ERROR"}
    assert agent.connect_mcp_server("fs", {"command": "fs"})


@pytest.mark.requirement("S0-20")
def test_the_hooks_can_be_called_directly() -> None:
    agent = CountingAgent()
    client = MCPClient("fs", FakeTransport(READ))
    assert client.connect()
    agent._register_mcp_tools(client)  # pyright: ignore[reportPrivateUsage]  # specified
    assert own_tools(agent) == ["mcp_fs_read_file"]
    agent._unregister_mcp_tools(client)  # pyright: ignore[reportPrivateUsage]  # specified
    assert own_tools(agent) == []


def call(transports: dict[str, FakeTransport], answer: Any, **arguments: Any) -> Any:
    """What an agent's model is given for a call that the server answers like this."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    transports["fs"] = FakeTransport({**READ, "inputSchema": schema}, read_file=answer)
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    return agent.tool_registry["mcp_fs_read_file"]["function"](**arguments)


@pytest.mark.requirement("S0-21")
def test_a_result_is_wrapped_word_for_word(transports: dict[str, FakeTransport]) -> None:
    result = {"content": [{"type": "text", "text": "file contents..."}]}
    assert call(transports, {"result": result}) == {
        "status": "success",
        "message": "Tool 'read_file' returned data",
        "data": {"content": [{"type": "text", "text": "file contents..."}]},
        "instruction": "Parse this JSON data and provide a human-readable summary. "
        "Your answer must be a plain text string, not a JSON object.",
    }


@pytest.mark.requirement("S0-22")
def test_an_error_is_wrapped_word_for_word(transports: dict[str, FakeTransport]) -> None:
    error = {"code": -32603, "message": "File not found: /nonexistent"}
    assert call(transports, {"error": error}) == {
        "status": "error",
        "error": "File not found: /nonexistent",
        "data": {"error": "File not found: /nonexistent"},
    }


@pytest.mark.requirement("S0-23")
@pytest.mark.parametrize("result", ["text", 5, ["list"]])
def test_what_is_no_dict_is_passed_on(result: Any, transports: dict[str, FakeTransport]) -> None:
    assert call(transports, {"result": result}) == result


@pytest.mark.requirement("S0-24")
def test_a_result_that_says_it_is_an_error_is_one(transports: dict[str, FakeTransport]) -> None:
    result = {"content": [{"type": "text", "text": "it did not work"}], "isError": True}
    assert call(transports, {"result": result}) == {"status": "error", "error": "it did not work", "data": result}


@pytest.mark.requirement("S0-35")
@pytest.mark.parametrize("reported", ["as an error", "as a result"])
def test_refused_arguments_come_back_with_the_schema_however_they_were_reported(
    reported: str, transports: dict[str, FakeTransport]
) -> None:
    problem = "Input validation error: 5 is not of type 'string'"
    result = {"content": [{"type": "text", "text": problem}], "isError": True}
    answer = {"error": {"code": -32602, "message": problem}} if reported == "as an error" else {"result": result}
    error = call(transports, answer, path=5)["error"]
    assert error.startswith(f"MCP tool 'read_file' input validation failed.\n\nError details:\n{problem}\n\nExpected")
    assert error.endswith('Your arguments:\n{\n  "path": 5\n}')


@pytest.mark.parametrize("failure", [TimeoutError("did not answer tools/call within 30 s"), RuntimeError("is gone")])
def test_a_server_that_fails_to_answer_is_an_error_that_the_model_reads(
    failure: Exception, transports: dict[str, FakeTransport]
) -> None:
    assert call(transports, failure) == {"status": "error", "error": str(failure), "data": {"error": str(failure)}}


def test_a_server_that_went_away_is_connected_again_before_a_call(transports: dict[str, FakeTransport]) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    function = agent.tool_registry["mcp_fs_read_file"]["function"]
    transports["fs"].connected = False
    assert agent.list_mcp_servers() == []
    assert function()["status"] == "success"
    assert (agent.list_mcp_servers(), transports["fs"].asked("initialize")) == (["fs"], 2)


def test_a_tool_that_somebody_still_holds_does_not_bring_its_server_back(
    transports: dict[str, FakeTransport],
) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    function = agent.tool_registry["mcp_fs_read_file"]["function"]
    agent.disconnect_mcp_server("fs")
    assert function()["error"] == "Not connected to MCP server 'fs'"
    assert not transports["fs"].connected


@pytest.mark.requirement("P-5")
def test_a_server_that_changes_its_tools_changes_the_registry(transports: dict[str, FakeTransport]) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    agent.rebuilt_once_more.clear()
    transports["fs"].change_tools(READ, {"name": "new"})
    assert agent.rebuilt_once_more.wait(PATIENCE)
    assert own_tools(agent) == ["mcp_fs_read_file", "mcp_fs_new"]
    assert agent.rebuilt == 2
    assert "mcp_fs_new" in agent.system_prompt
    agent.disconnect_mcp_server("fs")
    assert own_tools(agent) == []


@pytest.mark.requirement("P-5")
def test_a_server_that_changes_its_tools_while_they_are_registered_changes_the_registry(
    transports: dict[str, FakeTransport],
) -> None:
    class Restless(FakeTransport):
        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            answer = super().send_request(method, params)
            if method == "tools/list" and self.asked(method) == 1:
                self.change_tools(WRITE)
            return answer

    transports["fs"] = Restless(READ)
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "fs"})
    eventually(lambda: own_tools(agent) == ["mcp_fs_write-file"])
    agent.disconnect_mcp_server("fs")


def test_a_server_that_does_not_say_which_tools_it_has_now_keeps_the_old_ones(
    transports: dict[str, FakeTransport], caplog: pytest.LogCaptureFixture
) -> None:
    agent = CountingAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    transports["fs"].answers["tools/list"] = {"error": {"code": -32603, "message": "busy"}}
    transports["fs"].change_tools()
    eventually(lambda: "changed its tools, but did not list them: busy" in caplog.text)
    assert len(own_tools(agent)) == 2
    agent.disconnect_mcp_server("fs")


@pytest.mark.requirement("S0-17", "S3-15")
def test_the_configuration_is_loaded_with_the_agent_and_the_prompt_rebuilt_once() -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", one="one", two="two", bad="missing")
    agent = CountingAgent()
    assert agent.list_mcp_servers() == ["one", "two"]
    assert len(own_tools(agent)) == 4
    assert agent.rebuilt == 1
    assert agent.load_mcp_servers_from_config() == 2
    assert agent.rebuilt == 1


@pytest.mark.requirement("S0-17")
def test_loading_counts_the_servers_and_rebuilds_the_prompt_once() -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", one="one", two="two", bad="missing")
    agent = CountingAgent(auto_load_config=False)
    assert (agent.list_mcp_servers(), agent.rebuilt) == ([], 0)
    assert agent.load_mcp_servers_from_config() == 2
    assert (agent.list_mcp_servers(), agent.rebuilt) == (["one", "two"], 1)


@pytest.mark.requirement("S3-15")
@pytest.mark.parametrize("auto_load", [True, False])
def test_a_file_that_is_named_is_the_only_one(auto_load: bool, tmp_path: Path) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", home="home")
    named = write_config(tmp_path / "servers.json", named="named")
    agent = CountingAgent(config_file=named, auto_load_config=auto_load)
    assert agent.list_mcp_servers() == ["named"]


@pytest.mark.requirement("S3-15")
def test_what_is_said_explicitly_counts_also_after_the_agent_did_it_by_itself(
    tmp_path: Path, transports: dict[str, FakeTransport]
) -> None:
    home = Path.home() / ".gaia" / "mcp_servers.json"
    named = write_config(tmp_path / "servers.json", named="named")
    write_config(home, home="home")

    class QuietAgent(Agent, MCPClientMixin):
        def __init__(self) -> None:
            Agent.__init__(self, silent_mode=True)
            MCPClientMixin.__init__(self, auto_load_config=False)

    class NamingAgent(Agent, MCPClientMixin):
        def __init__(self) -> None:
            Agent.__init__(self, silent_mode=True)
            MCPClientMixin.__init__(self, config_file=named)

    quiet = QuietAgent()
    assert (quiet.list_mcp_servers(), own_tools(quiet)) == ([], [])
    assert NamingAgent().list_mcp_servers() == ["named"]
    assert "home" not in transports
    assert "home" in json.loads(home.read_text("utf-8"))["mcpServers"]


@pytest.mark.requirement("S3-15")
def test_servers_of_the_configuration_are_there_as_soon_as_somebody_asks_and_when_the_agent_is_built(
    transports: dict[str, FakeTransport],
) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", home="home")
    seen: list[object] = []

    class Base(Agent, MCPClientMixin):
        def __init__(self, asks: bool) -> None:
            super().__init__(silent_mode=True)
            seen.append("home" in transports)
            if asks:
                seen.extend(self.list_mcp_servers())

    class Derived(Base):
        def __init__(self, asks: bool) -> None:
            super().__init__(asks)
            seen.append("home" in transports)

    assert own_tools(Derived(asks=False)) == ["mcp_home_read_file", "mcp_home_write-file"]
    assert (seen, transports.pop("home").asked("initialize")) == ([False, False], 1)
    seen.clear()
    assert own_tools(Derived(asks=True)) == ["mcp_home_read_file", "mcp_home_write-file"]
    assert (seen, transports["home"].asked("initialize")) == ([False, "home", True], 1)


def test_an_agent_of_gaia_brings_its_own_manager_or_says_that_it_has_none(
    tmp_path: Path, transports: dict[str, FakeTransport]
) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", home="home")
    named = write_config(tmp_path / "servers.json", named="named")

    class WithItsOwn(Agent, MCPClientMixin):
        def __init__(self, manager: MCPClientManager | None) -> None:
            self._mcp_manager: Any = manager
            super().__init__(silent_mode=True)

        def _register_tools(self) -> None:
            if self._mcp_manager is not None:
                self.load_mcp_servers_from_config()

    without = WithItsOwn(None)
    assert (own_tools(without), without.get_mcp_status_report(), transports) == ([], [], {})
    assert WithItsOwn(MCPClientManager(config=MCPConfig(named))).list_mcp_servers() == ["named"]
    assert "home" not in transports


@pytest.mark.requirement("S3-15")
def test_a_constructor_that_fails_starts_no_server(transports: dict[str, FakeTransport]) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", home="home")

    class Failing(Agent, MCPClientMixin):
        def __init__(self) -> None:
            super().__init__(silent_mode=True)
            raise LookupError("no data")

    with pytest.raises(LookupError):
        Failing()
    assert transports == {}


def test_a_server_that_was_loaded_already_is_what_was_asked_for(transports: dict[str, FakeTransport]) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", fs="fs")
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "fs"})
    assert transports["fs"].asked("initialize") == 1
    assert not agent.connect_mcp_server("fs", {"command": "fs"})


def test_a_server_that_was_loaded_with_another_description_is_replaced(
    transports: dict[str, FakeTransport],
) -> None:
    write_config(Path.home() / ".gaia" / "mcp_servers.json", fs="old")
    agent = CountingAgent()
    assert agent.connect_mcp_server("fs", {"command": "new"})
    assert (transports["old"].connected, transports["new"].connected) == (False, True)
    assert manager_of(agent).config.get_server("fs") == {"command": "new"}
    assert len(own_tools(agent)) == 2


@pytest.mark.requirement("S3-19")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mcp_fs_read_file", "mcp_fs_read_file"),
        ("fs_read_file", "mcp_fs_read_file"),
        ("read_file", "mcp_fs_read_file"),
        ("mcp_read_file", "mcp_fs_read_file"),
        ("MCP-FS-Read-File", "mcp_fs_read_file"),
        ("write_file", "mcp_fs_write-file"),
        ("Own-Tool", "own_tool"),
        ("file", None),
        ("fs", None),
        ("mcp_", None),
        ("", None),
        ("mcp_other_read_file", None),
    ],
)
def test_a_tool_is_found_by_what_a_model_may_write(written: str, meant: str | None) -> None:
    class OwnAgent(CountingAgent):
        def _register_tools(self) -> None:
            @native
            def own_tool() -> None: ...

    agent = OwnAgent()
    agent.connect_mcp_server("fs", {"command": "fs"})
    assert agent._resolve_tool_name(written) == meant  # pyright: ignore[reportPrivateUsage]  # specified


@pytest.mark.requirement("S3-19")
def test_a_name_that_could_be_several_tools_is_none_and_an_error_names_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = CountingAgent()
    for name in ("one", "two"):
        agent.connect_mcp_server(name, {"command": name})
    resolve = agent._resolve_tool_name  # pyright: ignore[reportPrivateUsage]  # specified
    assert resolve("read_file") is None
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "tool name 'read_file' is ambiguous; it could be mcp_one_read_file, mcp_two_read_file"
    ]
    assert resolve("two_read_file") == "mcp_two_read_file"


def test_an_agent_in_this_process_is_a_server_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    agent = CountingAgent(auto_load_config=False)
    assert agent.connect_mcp_server("echo", {"agent": EchoAgent()})
    data = agent.tool_registry["mcp_echo_echo"]["function"](text="hi")["data"]
    assert data["structuredContent"] == {"said": "hi"}
    assert not manager_of(agent).config.server_exists("echo")
    agent.disconnect_mcp_server("echo")


def test_the_registry_of_an_agent_without_one_is_made_for_it() -> None:
    class Bare(MCPClientMixin):
        pass

    bare = Bare()
    bare.connect_mcp_server("fs", {"command": "fs"})
    assert isinstance(bare.tool_registry, ToolRegistry)
    assert bare.tool_registry.owner.startswith("Bare-")
