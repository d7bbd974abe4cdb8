"""`MCPClient` over transports that exist only here: what it asks, what it makes of the answers, what it raises."""

from __future__ import annotations

import json
import logging
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from gaia.background_loop import BACKGROUND
from gaia.mcp.client import MCPClient, MCPTool, MCPTransport, StdioTransport
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS
from tests.support.gaia_clients import FakeTransport, GreetedInSteps, fake_client
from tests.support.on_demand import mcp_versions
from tests.support.waiting import PATIENCE

READ_FILE: dict[str, Any] = {
    "name": "read_file",
    "description": "Read file contents",
    "inputSchema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File path"},
            "encoding": {"type": "string", "description": "Encoding"},
        },
        "required": ["path"],
    },
}
REFUSAL = {"error": {"code": -32602, "message": "Invalid params: missing required parameter 'path'"}}


@pytest.fixture
def mocker() -> types.ModuleType:
    """As much of pytest-mock as the specification's tests need."""
    return mock


@pytest.fixture
def mock_transport(mocker: Any) -> Any:
    """The specification's own fixture ("Test Patterns")."""
    transport = mocker.Mock(spec=MCPTransport)
    transport.connect.return_value = True
    transport.is_connected.return_value = True
    transport.send_request.return_value = {
        "result": {"tools": [{"name": "test_tool", "description": "Test", "inputSchema": {}}]}
    }
    return transport


@pytest.mark.requirement("S0-30")
def test_client_list_tools(mock_transport: Any) -> None:
    client = MCPClient("test", mock_transport)
    client.connect()
    tools = client.list_tools()
    assert len(tools) == 1
    assert tools[0].name == "test_tool"


@pytest.mark.requirement("S0-25")
def test_a_new_client_has_its_arguments_and_knows_nothing_yet() -> None:
    transport = FakeTransport()
    client = MCPClient("test", transport)
    assert (client.name, client.transport, client.debug) == ("test", transport, False)
    assert (client.server_info, client._tools) == ({}, None)  # pyright: ignore[reportPrivateUsage]  # specified
    assert MCPClient("test", transport, debug=True).debug
    assert transport.requests == []


def test_a_client_is_connected_once_the_server_was_greeted() -> None:
    transport = GreetedInSteps()
    client = MCPClient("test", transport)
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(client.connect)
        assert transport.opened.wait(PATIENCE)
        assert transport.is_connected()
        assert not client.is_connected()
        assert client.is_connecting()
        with pytest.raises(RuntimeError, match="Not connected"):
            client.call_tool("early", {})
        transport.goes_on.set()
        assert connecting.result(PATIENCE)
    assert client.is_connected()
    assert not client.is_connecting()
    assert [method for method, _ in transport.requests] == ["initialize"]


def test_a_connected_client_stays_connected_while_it_is_connected_once_more() -> None:
    transport = GreetedInSteps()
    client = MCPClient("test", transport)
    transport.goes_on.set()
    assert client.connect()
    transport.opened.clear()
    transport.goes_on.clear()
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(client.connect)
        assert transport.opened.wait(PATIENCE)
        assert client.is_connected()
        transport.goes_on.set()
        assert connecting.result(PATIENCE)


@pytest.mark.requirement("S0-28")
def test_connecting_performs_the_handshake_and_keeps_the_servers_info() -> None:
    client, transport = fake_client()
    assert transport.requests == [
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "clientInfo": dict(MCPClient.CLIENT_INFO), "capabilities": {}},
        )
    ]
    assert transport.notifications == ["notifications/initialized"]
    assert client.server_info == {"name": "fake"}
    assert MCPClient.CLIENT_INFO["name"] == "GAIA MCP Client"


def test_the_revision_asked_for_is_the_latest_with_a_handshake() -> None:
    assert MCPClient.PROTOCOL_VERSION == mcp_versions.LATEST_HANDSHAKE_VERSION


@pytest.mark.requirement("S0-28")
def test_a_subclass_can_say_what_the_specification_says_literally() -> None:
    class LiteralClient(MCPClient):
        PROTOCOL_VERSION = "1.0.0"
        CLIENT_INFO = {"name": "GAIA MCP Client", "version": "0.15.2"}

    transport = FakeTransport(initialize={"result": {"protocolVersion": "1.0.0"}})
    assert LiteralClient("test", transport).connect()
    assert transport.requests[0][1] == {
        "protocolVersion": "1.0.0",
        "clientInfo": {"name": "GAIA MCP Client", "version": "0.15.2"},
        "capabilities": {},
    }


@pytest.mark.requirement("F-370")
@pytest.mark.parametrize("revision", ["1.0.0", *HANDSHAKE_REVISIONS, "2026-07-28"])
def test_a_server_may_answer_with_every_revision_that_there_is(revision: str) -> None:
    assert MCPClient("test", FakeTransport(initialize={"result": {"protocolVersion": revision}})).connect()


@pytest.mark.requirement("F-370")
def test_an_answer_that_is_no_date_is_taken_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    client = MCPClient("test", FakeTransport(initialize={"result": {"protocolVersion": "1.0"}}))
    assert client.connect()
    client.disconnect()
    assert client.connect()
    assert caplog.messages == [
        "MCP server 'test' answered the handshake with the protocol version '1.0', which is no revision of MCP; "
        "it is spoken to as 2024-11-05"
    ]


@pytest.mark.requirement("S0-29")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": {"code": -32600, "message": "not today"}}, "not today"),
        ({"error": "odd"}, "odd"),
        ({}, "neither a result nor an error"),
        ({"result": {"protocolVersion": "9999-01-01"}}, "it speaks the protocol revision '9999-01-01'; expected one"),
        (RuntimeError("it broke"), "it broke"),
        (OSError(), "OSError"),
    ],
)
def test_a_failed_handshake_disconnects_and_says_why(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = FakeTransport(initialize=answer)
    client = MCPClient("test", transport)
    assert not client.connect()
    assert not transport.connected
    assert reason in client.last_error
    assert f"MCP server 'test' is not connected: {client.last_error}" in caplog.text


def test_a_connection_that_the_end_of_the_process_cuts_short_is_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = {"error": {"code": -1, "message": "over"}}
    for is_over, level in ((True, logging.DEBUG), (False, logging.WARNING)):
        monkeypatch.setattr(BACKGROUND, "is_over", is_over)
        with caplog.at_level(logging.DEBUG):
            assert not MCPClient("test", FakeTransport(initialize=over)).connect()
            assert MCPClient("test", FakeTransport(**{"tools/list": over})).list_tools() == []
        assert [record.levelno for record in caplog.records if "over" in record.getMessage()] == [level] * 2
        caplog.clear()


@pytest.mark.requirement("S0-4")
def test_a_transport_that_cannot_connect_is_asked_nothing() -> None:
    transport = FakeTransport()
    transport.connects = False
    client = MCPClient("test", transport)
    assert not client.connect()
    assert transport.requests == []
    assert client.last_error == "the transport could not connect"


@pytest.mark.requirement("S0-29")
def test_a_transport_that_fails_to_disconnect_too_changes_nothing() -> None:
    class Broken(FakeTransport):
        def disconnect(self) -> None:
            raise OSError("and this too")

    client = MCPClient("test", Broken(initialize=RuntimeError("the first reason")))
    assert not client.connect()
    assert client.last_error == "the first reason"


def test_ctrl_c_during_the_handshake_disconnects() -> None:
    class Interrupted(FakeTransport):
        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            raise KeyboardInterrupt

    transport = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        MCPClient("test", transport).connect()
    assert not transport.connected


@pytest.mark.requirement("S0-37")
def test_disconnecting_and_being_connected_are_the_transports_business(mock_transport: Any) -> None:
    client = MCPClient("test", mock_transport)
    assert client.is_connected() is mock_transport.is_connected.return_value
    client.disconnect()
    mock_transport.disconnect.assert_called_once_with()


@pytest.mark.requirement("S0-8")
def test_connecting_lists_no_tools() -> None:
    assert fake_client(READ_FILE)[1].asked("tools/list") == 0


@pytest.mark.requirement("S0-6")
def test_tools_are_listed_with_their_schemas() -> None:
    client, _ = fake_client(READ_FILE, {"name": "bare"})
    assert client.list_tools() == [
        MCPTool("read_file", "Read file contents", READ_FILE["inputSchema"]),
        MCPTool("bare", "", {}),
    ]


@pytest.mark.requirement("S0-7")
def test_the_list_is_kept_until_a_refresh_or_a_disconnect() -> None:
    client, transport = fake_client(READ_FILE)
    assert client.list_tools() == client.list_tools()
    assert transport.asked("tools/list") == 1
    client.list_tools(refresh=True)
    assert transport.asked("tools/list") == 2
    client.disconnect()
    assert client.connect()
    client.list_tools()
    assert transport.asked("tools/list") == 3


def test_a_list_that_was_handed_out_can_be_changed_without_harm() -> None:
    client, _ = fake_client(READ_FILE)
    client.list_tools().clear()
    assert len(client.list_tools()) == 1


def test_a_list_is_read_to_its_last_page() -> None:
    class Paged(FakeTransport):
        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            if method != "tools/list":
                return super().send_request(method, params)
            at = int((params or {}).get("cursor", 0))
            more = {"nextCursor": str(at + 1)} if at < 2 else {}
            return {"result": {"tools": [{"name": f"t{at}"}], **more}}

    client = MCPClient("test", Paged())
    assert client.connect()
    assert [tool.name for tool in client.list_tools()] == ["t0", "t1", "t2"]


@pytest.mark.parametrize("cursor", ["again", "1"])
def test_a_list_without_an_end_is_cut(cursor: str) -> None:
    class Endless(FakeTransport):
        pages = 0

        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            if method != "tools/list":
                return super().send_request(method, params)
            self.pages += 1
            following = cursor if cursor == "again" else str(self.pages)
            return {"result": {"tools": [{"name": f"t{self.pages}"}], "nextCursor": following}}

    transport = Endless()
    client = MCPClient("test", transport)
    assert client.connect()
    assert len(client.list_tools()) == transport.pages <= 100


def test_what_is_no_tool_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    client, _ = fake_client(
        "text",
        {"description": "nameless"},
        {"name": ""},
        {"name": "list", "inputSchema": []},
        {"name": "hostile", "inputSchema": {"$ref": "http://example.com/schema"}},
        READ_FILE,
    )
    assert [tool.name for tool in client.list_tools()] == ["read_file"]
    for problem in (
        "a tool is a str; expected an object",
        "a tool has no name",
        "tool 'list': its inputSchema is a list; expected an object",
        "tool 'hostile': its inputSchema is no JSON Schema",
    ):
        assert problem in caplog.text


def test_of_two_tools_with_one_name_there_is_one() -> None:
    client, _ = fake_client(READ_FILE, READ_FILE)
    assert len(client.list_tools()) == 1


@pytest.mark.requirement("S0-31")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "no tools here"}},
        {"result": {"tools": 5}},
        {"result": None},
        TimeoutError("too slow"),
    ],
)
def test_a_list_that_does_not_come_is_empty_and_asked_for_again(answer: Any) -> None:
    client, transport = fake_client(READ_FILE, **{"tools/list": answer})
    assert client.list_tools() == []
    transport.answers.clear()
    assert len(client.list_tools()) == 1


@pytest.mark.requirement("S0-32")
def test_a_call_sends_name_and_arguments_and_returns_the_result_as_it_came() -> None:
    result = {"content": [{"type": "text", "text": "ü"}], "isError": True, "x-extra": [None]}
    client, transport = fake_client(READ_FILE, read_file={"result": result})
    assert client.call_tool("read_file", {"path": "/x"}) == result
    assert transport.requests[-1] == ("tools/call", {"name": "read_file", "arguments": {"path": "/x"}})


@pytest.mark.requirement("S0-33")
@pytest.mark.parametrize("error", [{"code": -32603, "message": "no such file"}, "no such file"])
def test_an_error_response_becomes_its_message(error: Any) -> None:
    client, _ = fake_client(READ_FILE, read_file={"error": error})
    assert client.call_tool("read_file", {}) == {"error": "no such file"}


SUM = {"name": "add", "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}}}


@pytest.mark.requirement("F-063")
def test_a_result_that_breaks_what_the_tool_promises_is_an_error_once_the_tool_is_listed() -> None:
    wrong: dict[str, Any] = {"content": [], "structuredContent": {"sum": "three"}}
    client, _ = fake_client(SUM, add={"result": wrong})
    assert client.call_tool("add", {}) == wrong
    client.list_tools()
    assert client.call_tool("add", {}) == {
        "error": "MCP tool 'add' answered with structured content against its output schema:\n"
        "- at /sum: got 'three'; the value is not of type \"integer\""
    }


@pytest.mark.requirement("S0-7", "F-063")
@pytest.mark.parametrize("in_good_order", [True, False])
def test_what_an_earlier_connection_listed_and_promised_is_forgotten(in_good_order: bool) -> None:
    other: dict[str, Any] = {"content": [], "structuredContent": {"sum": "three"}}
    client, transport = fake_client(SUM, add={"result": other})
    client.list_tools()
    (client if in_good_order else transport).disconnect()
    assert client.connect()
    assert client.call_tool("add", {}) == other
    transport.tools = [READ_FILE]
    assert [tool.name for tool in client.list_tools()] == ["read_file"]
    assert client.connect()  # it is connected
    client.list_tools()
    assert transport.asked("tools/list") == 2


@pytest.mark.requirement("F-063")
@pytest.mark.parametrize("result", [{"structuredContent": {"sum": 3}}, {"structuredContent": 3, "isError": True}, {}])
def test_a_result_that_breaks_nothing_comes_back_as_it_is(result: Any) -> None:
    client, _ = fake_client(SUM, add={"result": result})
    client.list_tools()
    assert client.call_tool("add", {}) == result


@pytest.mark.requirement("S0-34")
def test_a_call_without_a_connection_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="Not connected to MCP server 'test'"):
        MCPClient("test", FakeTransport(READ_FILE)).call_tool("read_file", {})


@pytest.mark.requirement("S0-35")
def test_refused_arguments_come_back_with_the_schema_word_for_word() -> None:
    client, _ = fake_client(READ_FILE, read_file=REFUSAL)
    assert client.call_tool("read_file", {"encoding": "utf-8"}) == {
        "error": f"""MCP tool 'read_file' input validation failed.

Error details:
Invalid params: missing required parameter 'path'

Expected tool schema:
{json.dumps(READ_FILE["inputSchema"], indent=2)}

Your arguments:
{{
  "encoding": "utf-8"
}}"""
    }


@pytest.mark.requirement("S0-35")
def test_a_tool_that_is_not_listed_and_other_codes_have_the_plain_message() -> None:
    client, _ = fake_client(READ_FILE, nothing=REFUSAL, read_file={"error": {"code": -32601, "message": "plain"}})
    assert client.call_tool("nothing", {}) == {"error": REFUSAL["error"]["message"]}
    assert client.call_tool("read_file", {}) == {"error": "plain"}


def test_arguments_that_are_no_json_can_be_shown() -> None:
    client, _ = fake_client(READ_FILE, read_file=REFUSAL)
    assert "{1}" in client.call_tool("read_file", {"path": {1}})["error"]


@pytest.mark.requirement("S0-36")
def test_a_wrapper_called_by_name_is_a_call() -> None:
    client, transport = fake_client(READ_FILE)
    wrapper = client.create_tool_wrapper(client.list_tools()[0])
    assert wrapper(path="/x", self="me", tool="t") == client.call_tool(
        "read_file", {"path": "/x", "self": "me", "tool": "t"}
    )
    assert transport.requests[-1] == transport.requests[-2]
    assert (wrapper.__name__, wrapper.__doc__) == ("read_file", "Read file contents")


def test_a_client_is_a_context_manager() -> None:
    transport = FakeTransport()
    with MCPClient("test", transport) as client:
        assert client.is_connected()
    assert not client.is_connected()
    transport.connects = False
    with pytest.raises(RuntimeError, match="Failed to connect to MCP server 'test': the transport could not"), client:
        pass


@pytest.mark.requirement("P-5")
def test_a_changed_list_is_read_again_and_a_listener_told_in_a_thread_where_it_may_use_the_client() -> None:
    client, transport = fake_client(READ_FILE)
    assert len(client.list_tools()) == 1
    heard: list[list[str]] = []
    done = threading.Event()

    def listen() -> None:
        heard.append([tool.name for tool in client.list_tools()])
        done.set()

    client.on_tools_changed(listen)
    transport.change_tools({"name": "new"})
    assert done.wait(PATIENCE)
    assert heard == [["new"]]
    client.disconnect()


def test_a_list_that_changes_while_it_is_read_is_not_kept() -> None:
    class Changing(FakeTransport):
        def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
            answer = super().send_request(method, params)
            if method == "tools/list" and self.asked(method) == 1:
                self.change_tools({"name": "new"})
            return answer

    client = MCPClient("test", Changing({"name": "old"}))
    assert client.connect()
    assert [tool.name for tool in client.list_tools()] == ["old"]
    assert [tool.name for tool in client.list_tools()] == ["new"]


@pytest.mark.requirement("S0-12")
def test_debug_logs_what_happens_and_no_arguments(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for debug in (False, True):
        client = MCPClient("test", FakeTransport(READ_FILE), debug=debug)
        client.connect()
        client.list_tools()
        client.call_tool("read_file", {"path": "/secret"})
        assert ("calling read_file" in caplog.text) is debug
    assert "secret" not in caplog.text


@pytest.mark.requirement("S0-26")
def test_from_config_makes_an_unconnected_client_of_a_program() -> None:
    config = {"command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "x"}}
    client = MCPClient.from_config("fs", config)
    assert isinstance(client.transport, StdioTransport)
    assert (client.transport.command, client.transport.args) == ("npx", ["-y", "some-server"])
    assert (client.transport.env, client.transport.timeout) == ({"TOKEN": "x"}, 30)
    bare = MCPClient.from_config("bare", {"command": "npx"})
    assert isinstance(bare.transport, StdioTransport)
    assert (bare.transport.args, bare.transport.env) == (None, None)
    assert not client.is_connected()
    other = MCPClient.from_config("fs", {**config, "timeout": 5}, timeout=60, debug=True)
    assert (other.debug, getattr(other.transport, "debug", None), getattr(other.transport, "timeout", None)) == (
        True,
        True,
        5,
    )


@pytest.mark.requirement("S0-26")
@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "must include 'command' field"),
        ({"args": ["x"]}, "must include 'command' field"),
        ([], "expected a config dict with a 'command' field, got list"),
        ({"command": "x", "url": "http://localhost"}, "has 'command' and 'url'; keep one of them"),
        ({"command": 5}, "'command' is a number; expected a text"),
        ({"command": " "}, "'command' is empty"),
        ({"command": "x", "args": "-y"}, "'args' is a text; expected a list of texts"),
        ({"command": "x", "env": ["A=1"]}, "'env' is a list; expected an object"),
        ({"command": "x", "env": {"A": "${env:NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL"),
        ({"command": "x", "timeout": 0}, "'timeout' is not above 0"),
        ({"url": "ftp://localhost"}, "'url' is no address of a server"),
        ({"agent": object()}, "'agent' is a object; expected the methods of an MCP agent"),
    ],
)
def test_a_configuration_that_names_no_server_is_refused(config: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        MCPClient.from_config("fs", config)


@pytest.mark.requirement("S0-27")
def test_from_command_takes_one_string_and_never_a_shell() -> None:
    client = MCPClient.from_command("time", "uvx mcp-server-time", timeout=5, debug=True)
    assert isinstance(client.transport, StdioTransport)
    assert (client.transport.command, client.transport.timeout) == ("uvx mcp-server-time", 5)
    with pytest.raises(ValueError, match="needs a shell because of its ';'"):
        MCPClient.from_command("time", "true; touch pwned")


def test_allowed_and_disabled_tools_decide_what_is_listed() -> None:
    transport = FakeTransport(*({"name": name} for name in "abc"))
    for options, names in (
        ({"allowed_tools": ["a", "b"]}, ["a", "b"]),
        ({"disabled_tools": ["a"]}, ["b", "c"]),
        ({"allowed_tools": ["a", "b"], "disabled_tools": ["a"]}, ["b"]),
    ):
        client = MCPClient.from_config("fake", {"command": "x", **options})
        client.transport = transport
        assert [tool.name for tool in client.list_tools()] == names
