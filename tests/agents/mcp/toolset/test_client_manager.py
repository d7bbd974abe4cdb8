"""The one manager of the process, with real servers: it persists, comes back, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from gaia.mcp.client import MCPTransport
from gaia.mcp.toolset import MCPClientManager, MCPSchemaConverter
from tests.servers.http_upstream import served
from tests.support.gaia_clients import FakeTransport, raw_server, sdk_server
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[4]


def start(manager: MCPClientManager, name: str = "demo", entry: dict[str, Any] | None = None) -> None:
    entry = entry or sdk_server()
    manager.start_client(name, "stdio", entry["command"], entry["args"], entry.get("env"), None)


def call(manager: MCPClientManager, tool: str, server: str = "demo", **arguments: Any) -> str:
    return MCPSchemaConverter.convert_tool_result(manager.call_tool(server, tool, arguments))


def pid_of(manager: MCPClientManager) -> int:
    return int(call(manager, "pid", "raw"))


@pytest.mark.requirement("S4-5")
def test_there_is_one_manager_in_a_process() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(MCPClientManager) for _ in range(64)]
        assert all(one.result() is MCPClientManager() for one in found)


@pytest.mark.requirement("S4-5", "S4-6")
def test_a_server_that_is_started_has_its_tools_listed(manager: MCPClientManager) -> None:
    start(manager)
    assert manager._server_configs.keys() == manager._discovered_tools.keys() == {"demo"}  # pyright: ignore[reportPrivateUsage]  # specified
    tools = {tool["name"]: tool for tool in manager.get_discovered_tools("demo")}
    assert tools["echo"] == {
        "name": "echo",
        "description": "Return the arguments and the _meta of the request.",
        "inputSchema": {"type": "object"},
    }
    assert tools["add"]["annotations"]["readOnlyHint"] is True
    assert manager.get_discovered_tools("unknown") == []
    assert call(manager, "add", a=1, b=2) == "3"


@pytest.mark.requirement("S4-5")
def test_starting_twice_starts_once(manager: MCPClientManager, caplog: pytest.LogCaptureFixture) -> None:
    entry = raw_server()
    start(manager, "raw", entry)
    first = pid_of(manager)
    with ThreadPoolExecutor(4) as threads:
        for started in [threads.submit(start, manager, "raw", entry) for _ in range(8)]:
            started.result()
    assert pid_of(manager) == first
    assert caplog.records == []
    start(manager, "raw", raw_server(OTHER="1"))
    assert pid_of(manager) == first
    assert "'raw' is running already, in another configuration" in caplog.text


@pytest.mark.requirement("S4-5")
@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"command": "/no/such/program"}, "/no/such/program"),
        ({"command": sys.executable, "args": ["-c", "pass"]}, ""),
        ({"transport": "http"}, "requires 'url' parameter"),
        ({"transport": "pigeon", "command": "x"}, "expected one of stdio, http, sse"),
        ({"transport": "http", "url": "http://127.0.0.1:9/mcp"}, "cannot be reached at http://127.0.0.1:9/mcp"),
    ],
)
def test_a_start_that_fails_says_why_and_the_next_is_a_new_one(
    manager: MCPClientManager, facts: dict[str, Any], problem: str
) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Failed to initialize MCP server 'demo': ") as failure:
            manager.start_client("demo", **facts)
        assert problem in str(failure.value)
        assert manager.get_discovered_tools("demo") == []
    with pytest.raises(RuntimeError, match=r"MCP server 'demo' is not started; .* \(started: none\)"):
        manager.call_tool("demo", "add", {})
    start(manager)
    assert call(manager, "add", a=1) == "1"


@pytest.mark.requirement("S4-27")
def test_a_server_persists_from_call_to_call(manager: MCPClientManager) -> None:
    start(manager, "raw", raw_server())
    assert pid_of(manager) == pid_of(manager)


@pytest.mark.requirement("S4-24")
def test_variables_are_set_over_the_environment_of_the_process(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAIA_INHERITED", "here")
    monkeypatch.setenv("GAIA_CHANGED", "before")
    start(manager, "raw", raw_server(GAIA_CHANGED="after"))
    seen = json.loads(call(manager, "env", "raw"))
    assert (seen["GAIA_INHERITED"], seen["GAIA_CHANGED"]) == ("here", "after")


def test_a_server_does_not_see_the_env_file(
    manager: MCPClientManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-secret\n", "utf-8")
    start(manager, "raw", raw_server())
    assert "sk-secret" not in call(manager, "env", "raw")


def test_a_server_that_died_is_started_again_before_the_next_call(manager: MCPClientManager) -> None:
    start(manager, "raw", raw_server())
    before = pid_of(manager)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: not manager._clients["raw"].is_connected())  # pyright: ignore[reportPrivateUsage]
    with ThreadPoolExecutor(4) as threads:
        pids = {asked.result() for asked in [threads.submit(pid_of, manager) for _ in range(8)]}
    assert len(pids) == 1 and before not in pids


def test_a_call_during_which_its_server_dies_fails_and_is_not_made_again(manager: MCPClientManager) -> None:
    start(manager, "raw", raw_server())
    before = pid_of(manager)
    with pytest.raises((RuntimeError, ValueError)):
        manager.call_tool("raw", "crash", {})
    assert pid_of(manager) != before


@pytest.mark.requirement("S4-23")
@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp/"), ("sse", "/sse")])
def test_a_server_on_the_network_is_used(manager: MCPClientManager, transport: str, path: str) -> None:
    with served() as url:
        manager.start_client("web", transport, None, [], None, url + path)
        assert "add" in [tool["name"] for tool in manager.get_discovered_tools("web")]
        assert call(manager, "add", "web", a=1, b=2) == "3"
        manager.stop_client("web")


@pytest.mark.requirement("S4-23")
def test_headers_are_sent_to_a_server_on_the_network(manager: MCPClientManager) -> None:
    seen: list[str] = []
    with served(seen=seen) as url:
        manager.start_client("web", "http", url=f"{url}/mcp/", headers={"Authorization": "Bearer x"})
        manager.stop_client("web")
    assert set(seen) == {"Bearer x"}


@pytest.mark.requirement("S4-23")
def test_a_server_on_the_network_that_was_restarted_is_used_again(manager: MCPClientManager) -> None:
    with served() as url:
        port = int(url.rpartition(":")[2])
        manager.start_client("web", "http", url=f"{url}/mcp/")
        assert call(manager, "add", "web", a=1) == "1"
    with pytest.raises(RuntimeError):
        manager.call_tool("web", "add", {"a": 1})
    with served(port):
        assert call(manager, "add", "web", a=2) == "2"
        manager.stop_client("web")


@pytest.mark.requirement("S4-11", "S4-27")
def test_calls_work_inside_of_running_loops_one_after_the_other(manager: MCPClientManager) -> None:
    start(manager)

    async def calls() -> list[str]:
        inside = call(manager, "add", a=1, b=1)
        beside = await asyncio.gather(*(asyncio.to_thread(call, manager, "add", a=n) for n in range(4)))
        return [inside, *beside]

    for _ in range(3):
        assert asyncio.run(calls()) == ["2", "0", "1", "2", "3"]


@pytest.mark.requirement("S4-27")
def test_loops_in_several_threads_do_not_disturb_each_other(manager: MCPClientManager) -> None:
    start(manager)

    async def ask(number: int) -> str:
        return call(manager, "add", a=number)

    def ask_in_a_loop(number: int) -> str:
        return asyncio.run(ask(number))

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask_in_a_loop, range(24))) == [str(number) for number in range(24)]


def test_a_slow_server_does_not_delay_another(manager: MCPClientManager) -> None:
    start(manager)
    start(manager, "raw", raw_server())
    with ThreadPoolExecutor(1) as thread:
        hanging = thread.submit(manager.call_tool, "raw", "hang", {})
        assert call(manager, "add", a=1) == "1"
        manager.stop_client("raw")
        assert isinstance(hanging.exception(), RuntimeError | ValueError)


def test_a_failure_says_what_the_server_said(manager: MCPClientManager) -> None:
    start(manager)
    with pytest.raises(RuntimeError, match="^it did not work$"):
        manager.call_tool("demo", "fail", {})
    with pytest.raises(RuntimeError, match="Unknown tool: nothing"):
        manager.call_tool("demo", "nothing", {})
    assert call(manager, "echo", x=1) == json.dumps({"arguments": {"x": 1}}, indent=2)


def test_a_stopped_server_is_forgotten(manager: MCPClientManager) -> None:
    start(manager, "raw", raw_server())
    pid = pid_of(manager)
    manager.stop_client("raw")
    manager.stop_client("raw")
    assert manager.get_discovered_tools("raw") == []
    with pytest.raises(RuntimeError, match="'raw' is not started"):
        manager.call_tool("raw", "pid", {})
    eventually(lambda: not psutil.pid_exists(pid))


def test_tools_that_a_server_changed_are_listed_again(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = FakeTransport({"name": "one", "inputSchema": {}})

    def created(self: MCPClientManager, server_name: str) -> MCPTransport:
        return transport

    monkeypatch.setattr(MCPClientManager, "_create_transport", created)
    manager.start_client("fake", command="never started")
    assert [tool["name"] for tool in manager.get_discovered_tools("fake")] == ["one"]
    transport.change_tools({"name": "one", "inputSchema": {}}, {"name": "two", "inputSchema": {}})
    eventually(lambda: [tool["name"] for tool in manager.get_discovered_tools("fake")] == ["one", "two"])


def test_a_transport_that_does_not_disconnect_is_logged(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(FakeTransport):
        def disconnect(self) -> None:
            raise OSError("no")

    def created(self: MCPClientManager, server_name: str) -> MCPTransport:
        return Stubborn()

    monkeypatch.setattr(MCPClientManager, "_create_transport", created)
    manager.start_client("fake", command="never started")
    manager.stop_all()
    assert "'fake' did not disconnect in good order" in caplog.text


def program(tmp_path: Path, code: str) -> list[str]:
    """A process of its own that uses the toolset; what it prints, by lines."""
    file = tmp_path / "program.py"
    entry = raw_server()
    file.write_text(f"COMMAND, ARGS = {entry['command']!r}, {entry['args']!r}\n{code}", "utf-8")
    done = subprocess.run(
        [sys.executable, file], capture_output=True, encoding="utf-8", timeout=40, check=True, cwd=ROOT
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split()


def test_the_end_of_the_process_leaves_no_child_and_does_not_hang(tmp_path: Path) -> None:
    code = """
from gaia.mcp.toolset import MCPClientManager
manager = MCPClientManager()
manager.start_client("raw", "stdio", COMMAND, ARGS)
print(manager.call_tool("raw", "pid")[0]["text"])
"""
    [pid] = program(tmp_path, code)
    eventually(lambda: not psutil.pid_exists(int(pid)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_starts_servers_of_its_own(tmp_path: Path) -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from gaia.mcp.toolset import MCPClientManager
manager = MCPClientManager()
manager.start_client("raw", "stdio", COMMAND, ARGS)
pid = lambda: manager.call_tool("raw", "pid")[0]["text"]
print("parent", pid(), flush=True)
child = os.fork()
if child == 0:
    assert MCPClientManager() is manager
    print("child", pid(), flush=True)
    manager.stop_all()
    os._exit(0)
os.waitpid(child, 0)
print("parent", pid(), flush=True)
"""
    words = program(tmp_path, code)
    said = list(zip(words[::2], words[1::2], strict=True))
    assert [who for who, _ in said] == ["parent", "child", "parent"]
    assert said[0][1] == said[2][1] != said[1][1]
    pids = [int(pid) for _, pid in said]
    eventually(lambda: not any(map(psutil.pid_exists, pids)))


def test_nothing_secret_is_logged(manager: MCPClientManager, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    start(manager, "raw", raw_server(API_KEY="sk-secret"))
    manager.call_tool("raw", "pid", {"token": "t0ken"})
    assert "sk-secret" not in caplog.text and "t0ken" not in caplog.text
