"""`StdioTransport` with real child processes: what it starts, what it says, and that nothing of it survives."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gaia.mcp.client import MCPClient, MCPConfig, StdioTransport
from gaia.mcp.client.mcp_client_manager import MCPClientManager
from gaia.mcp.client.transports import connection
from gaia.mcp.client.transports.stdio import ChildProcess
from gaia_bridge.settings import UpstreamLimits
from tests.support.gaia_clients import CountingAgent, raw_server, sdk_server
from tests.support.processes import background_threads, command_of
from tests.support.waiting import PATIENCE, eventually

RECORDER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"line": line}}), flush=True)
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No child and no thread of a test is there afterwards."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    eventually(lambda: not background_threads())
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    commands = [command for child in left if (command := command_of(child))]
    assert [command for command in commands if "guardian" not in command] == []


@pytest.fixture
def client() -> Iterator[MCPClient]:
    with MCPClient.from_config("raw", raw_server()) as connected:
        yield connected


def process_of(client: MCPClient) -> ChildProcess:
    """The specification's `_process`."""
    assert isinstance(client.transport, StdioTransport)
    process = client.transport._process  # pyright: ignore[reportPrivateUsage]  # specified
    assert process is not None
    return process


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    text: str = block["text"]
    return text


def python(source: str, timeout: float = 30) -> StdioTransport:
    """A child that runs a Python program."""
    return StdioTransport(shlex.join([sys.executable, "-S", "-c", source]), timeout)


@pytest.mark.requirement("S0-51")
def test_a_new_transport_has_its_arguments_and_no_process() -> None:
    transport = StdioTransport("npx some-server /tmp")
    assert (transport.command, transport.timeout, transport.debug) == ("npx some-server /tmp", 30, False)
    assert (transport.args, transport.env) == (None, None)
    assert transport._process is None  # pyright: ignore[reportPrivateUsage]  # specified
    assert transport._request_id == 0  # pyright: ignore[reportPrivateUsage]  # specified
    other = StdioTransport("npx", 5, True, ["a b"], {"X": "1"})
    assert (other.timeout, other.debug, other.args, other.env) == (5, True, ["a b"], {"X": "1"})
    empty = StdioTransport("server", args=[], env={})
    assert (empty.args, empty.env) == ([], {})


@pytest.mark.requirement("S0-3", "S0-6")
def test_a_server_written_with_the_sdk_is_used() -> None:
    with MCPClient.from_config("sdk", sdk_server()) as client:
        assert client.server_info["name"] == "sdk-upstream"
        assert [tool.name for tool in client.list_tools()][:2] == ["add", "echo"]
        assert client.call_tool("add", {"a": 1, "b": 2})["structuredContent"] == {"sum": 3}
        assert client.call_tool("fail", {})["isError"] is True


@pytest.mark.requirement("S0-52", "S0-56")
def test_a_second_connect_starts_no_second_process(client: MCPClient) -> None:
    pid = process_of(client).pid
    assert psutil.pid_exists(pid)
    assert process_of(client).poll() is None
    assert client.transport.connect()
    assert process_of(client).pid == pid
    assert text_of(client.call_tool("pid", {})) == str(pid)


@pytest.mark.requirement("S0-54")
def test_a_request_is_one_line_of_json_with_increasing_ids() -> None:
    transport = python(RECORDER)
    assert transport.connect()
    lines = [transport.send_request(method, params)["result"]["line"] for method, params in
             (("tools/list", None), ("tools/call", {"name": "ü", "arguments": {"a": "b\nc"}}))]  # fmt: skip
    assert [json.loads(line) for line in lines] == [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ü", "arguments": {"a": "b\nc"}}},
    ]
    assert transport._request_id == 2  # pyright: ignore[reportPrivateUsage]  # specified
    transport.disconnect()


@pytest.mark.requirement("S0-54")
def test_no_two_threads_use_one_id(caplog: pytest.LogCaptureFixture) -> None:
    together = threading.Barrier(2)
    caplog.set_level(logging.DEBUG, logger="gaia.mcp")
    transport = python(RECORDER)
    transport.debug = True
    assert transport.connect()

    def both_have_their_number(record: logging.LogRecord) -> bool:
        return together.wait(PATIENCE) >= 0

    caplog.handler.addFilter(both_have_their_number)
    try:
        with ThreadPoolExecutor(2) as threads:
            lines = [answer["result"]["line"] for answer in threads.map(transport.send_request, ["ping", "ping"])]
    finally:
        caplog.handler.removeFilter(both_have_their_number)
    assert sorted(json.loads(line)["id"] for line in lines) == [1, 2]
    transport.disconnect()


@pytest.mark.requirement("S0-55")
def test_a_server_that_answers_with_no_json_is_a_value_error() -> None:
    for source in ("input(); print('junk')", "import sys; print('junk', flush=True); sys.stdin.read()"):
        transport = python(source, timeout=1 if "read" in source else 30)
        assert transport.connect()
        with pytest.raises(ValueError, match="answered initialize with what is no JSON: junk"):
            transport.send_request("initialize", {})
        transport.disconnect()


@pytest.mark.requirement("S0-55")
def test_a_banner_before_the_answer_is_skipped() -> None:
    transport = python("print('Listening on stdio...')\n" + RECORDER)
    assert transport.connect()
    assert "result" in transport.send_request("ping")
    transport.disconnect()


@pytest.mark.requirement("S0-11", "S0-42", "S0-56")
def test_a_process_that_was_killed_is_seen_at_once_and_the_next_call_is_an_error(tmp_path: Path) -> None:
    with MCPClientManager(MCPConfig(str(tmp_path / "servers.json"))) as manager:
        client = manager.add_server("raw", raw_server())
        pid = process_of(client).pid
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: process_of(client).poll() is not None)
        assert not client.is_connected()
        assert manager.list_servers() == []
        with pytest.raises(RuntimeError, match="Not connected to MCP server 'raw'"):
            client.call_tool("pid", {})
        assert client.connect()
        assert text_of(client.call_tool("pid", {})) != str(pid)


@pytest.mark.requirement("S0-56")
def test_a_system_that_cannot_look_at_a_child_without_reaping_it_is_good_enough(
    client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid")  # macOS before Python 3.13
    assert client.is_connected()
    assert text_of(client.call_tool("pid", {})) == str(process_of(client).pid)
    process = process_of(client)
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not client.is_connected())
    eventually(lambda: process.poll() == 0)


@pytest.mark.requirement("S0-11")
def test_a_process_that_ends_during_a_call_fails_the_call(client: MCPClient) -> None:
    with pytest.raises(RuntimeError, match="raw exited with code 5"):
        client.call_tool("crash", {})
    assert not client.is_connected()


def test_an_entry_of_one_line_is_started_with_its_arguments(tmp_path: Path) -> None:
    python = tmp_path / "my python"
    python.symlink_to(sys.executable)
    raw = raw_server()
    line = shlex.join([str(python), *raw["args"]])
    with MCPClient.from_config("line", {**raw, "command": line, "args": None}) as client:
        assert client.connect()
        assert client.list_tools()


@pytest.mark.requirement("S0-4")
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"command": "/no/such/program"}, "cannot be started: '/no/such/program': No such file or directory"),
        (
            {"command": "uvx 'a b'", "args": ["c"]},
            '; if that is a program and its arguments, write "command": "uvx", "args": ["a b", ...]',
        ),
        (
            {"command": "/no/such program"},
            '; if that is a program and its arguments, write "command": "/no/such", "args": ["program"]',
        ),
        (raw_server("exit"), "exited with code 3"),
        (raw_server("refuse"), "refused the handshake"),
        (raw_server("future"), "9999-01-01"),
        (raw_server("malformed"), "answered the handshake"),
        (raw_server("silent"), "did not answer initialize within 0.5 s"),
    ],
    ids=["no program", "line with args", "no path", "exits", "refuses", "is too new", "answers nonsense", "is silent"],
)
def test_a_server_that_cannot_be_used_is_false_and_leaves_no_process(config: dict[str, Any], reason: str) -> None:
    client = MCPClient.from_config("bad", config, timeout=0.5 if "silent" in config.get("args", ()) else 30)
    assert client.connect() is False
    assert reason in client.last_error
    assert background_threads() == []


@pytest.mark.requirement("F-002", "S-36")
def test_what_a_server_says_before_it_ends_is_logged_and_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    words = "for number in range(12): print('word', number, os.environ['KEY'], file=sys.stderr)"
    program = f"import os, sys; sys.stdin.readline()\n{words}\nsys.exit(3)"
    config = {"command": sys.executable, "args": ["-S", "-c", program], "env": {"KEY": "unspeakable"}}
    client = MCPClient.from_config("bad", config)
    assert client.connect() is False
    assert client.last_error == "bad exited with code 3 before it completed the handshake"
    last_words = "".join(f"\nword {number} ***" for number in range(2, 12))
    [said] = caplog.messages
    assert said == f"MCP server 'bad' is not connected: {client.last_error}; its error output ended with:{last_words}"


@pytest.mark.requirement("S0-5")
def test_a_call_that_is_not_answered_is_a_timeout_and_the_server_stays() -> None:
    with MCPClient.from_config("raw", raw_server(), timeout=0.3) as client:
        with pytest.raises(TimeoutError, match=r"raw did not answer tools/call within 0\.3 s"):
            client.call_tool("hang", {})
        assert client.call_tool("pid", {})["content"]


@pytest.mark.requirement("S0-10")
def test_a_stubborn_server_is_gone_after_a_disconnect_and_twice_is_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert UpstreamLimits().stop_grace + UpstreamLimits().terminate_grace <= 5
    monkeypatch.setattr(connection, "UpstreamLimits", partial(UpstreamLimits, stop_grace=0.1, terminate_grace=0.1))
    client = MCPClient.from_config("raw", raw_server("stubborn"))
    assert client.connect()
    pid = process_of(client).pid
    client.disconnect()
    client.disconnect()
    assert not psutil.pid_exists(pid)
    assert not client.is_connected()


@pytest.mark.requirement("S0-61")
def test_environment_values_arrive_literally_and_the_rest_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED_BY_ALL", "yes")
    with MCPClient.from_config("raw", raw_server(LITERAL="$HOME `x` $(y)")) as client:
        seen = json.loads(text_of(client.call_tool("env", {})))
    assert (seen["LITERAL"], seen["INHERITED_BY_ALL"]) == ("$HOME `x` $(y)", "yes")
    assert seen["PATH"].startswith(os.environ["PATH"])


@pytest.mark.requirement("S0-53", "S0-61")
def test_nothing_is_ever_given_to_a_shell(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    transport = python(f"import sys; open(sys.argv[1], 'w').write(sys.argv[2])\n{RECORDER}")
    transport = StdioTransport(f"{transport.command} {shlex.quote(str(tmp_path / 'a b' / 'out'))} '$HOME;*'")
    assert transport.connect()
    transport.send_request("ping")
    transport.disconnect()
    assert (tmp_path / "a b" / "out").read_text() == "$HOME;*"


def test_many_threads_use_one_process(client: MCPClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(client.call_tool, "meta", {}) for _ in range(100)]
        assert all("content" in answer.result(PATIENCE) for answer in answers)


def test_answers_in_another_order_reach_their_callers(client: MCPClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(client.call_tool, "reverse", {"calls": 8, "mine": number}) for number in range(8)]
        for number, answer in enumerate(answers):
            assert json.loads(text_of(answer.result(PATIENCE)))["mine"] == number


def test_of_many_threads_that_find_the_process_gone_one_starts_it_again() -> None:
    agent = CountingAgent(auto_load_config=False)
    assert agent.connect_mcp_server("raw", raw_server())
    client = agent.get_mcp_client("raw")
    assert client is not None
    function = agent.tool_registry["mcp_raw_pid"]["function"]
    gone = process_of(client)
    os.kill(gone.pid, signal.SIGKILL)
    eventually(lambda: not client.is_connected())
    try:
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(function) for _ in range(8)]
            pids = {text_of(answer.result(PATIENCE)["data"]) for answer in answers}
        assert pids == {str(process_of(client).pid)}
        assert str(gone.pid) not in pids
    finally:
        agent.disconnect_mcp_server("raw")


def test_a_thread_that_comes_before_the_greeting_of_the_next_process_does_not_talk_to_a_stranger() -> None:
    entry = sdk_server()  # refuses what is asked for before it was greeted
    transport = StdioTransport(entry["command"], args=entry["args"])
    client = MCPClient("sdk", transport)
    assert client.connect()
    os.kill(process_of(client).pid, signal.SIGKILL)
    eventually(lambda: not transport.is_connected())
    assert transport.connect()
    try:
        response = transport.send_request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert response["result"]["structuredContent"] == {"sum": 3}
        assert client.connect()
    finally:
        client.disconnect()


@pytest.mark.anyio
async def test_it_works_inside_a_running_loop() -> None:
    with MCPClient.from_config("raw", raw_server()) as client:
        assert client.call_tool("pid", {})["content"]


@pytest.mark.requirement("P-5")
def test_a_list_that_changes_is_announced(client: MCPClient) -> None:
    before = len(client.list_tools())
    heard = threading.Event()
    client.on_tools_changed(heard.set)
    client.call_tool("grow", {"by": 1})
    assert heard.wait(PATIENCE)
    assert len(client.list_tools()) == before + 1


EXIT = """
import json, sys
from functools import partial
from gaia.mcp import MCPClient
from gaia.mcp.client.transports import connection
from gaia.mcp.client.transports.stdio import ChildProcess
connection.UpstreamLimits = partial(connection.UpstreamLimits, stop_grace=0.1, terminate_grace=0.1)
client = MCPClient.from_config("raw", json.loads(sys.argv[1]))
assert client.connect()
print(client.transport._process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("mode", "end"),
    [("", ""), ("", "raise SystemExit(0)"), ("stubborn", ""), ("stubborn", "import os; os.kill(os.getpid(), 9)")],
)
def test_a_program_that_ends_without_disconnecting_leaves_no_child_and_ends(mode: str, end: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EXIT.replace("{end}", end), json.dumps(raw_server(mode))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.stderr == ""
    pid = int(ended.stdout)
    eventually(lambda: not psutil.pid_exists(pid))
