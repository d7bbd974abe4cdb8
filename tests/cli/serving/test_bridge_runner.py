"""`gaia-bridge serve` as a process: what it says, what it answers, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import INITIALIZE, request, running, write_agent
from tests.process.driving import url_of

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
SERVERS = Path(__file__).parents[2] / "servers"


def post(url: str, message: dict[str, Any], **headers: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Send one message over Streamable HTTP; returns the answer and the response's headers."""
    sent = JSON_HEADERS | headers
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(message).encode(), sent), timeout=20
    ) as response:
        body: str = response.read().decode()
        data = re.findall(r"^data: (\{.*)$", body, re.MULTILINE) or [body or "{}"]
        answer: dict[str, Any] = json.loads(data[-1])
        return answer, dict(response.headers.items())


def start_hanging_call(url: str) -> http.client.HTTPConnection:
    """Call the tool that never returns; the answer would come on the connection that is returned."""
    _, headers = post(url, INITIALIZE)
    session = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    post(url, INITIALIZED, **session)
    target = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(target.netloc)
    message = json.dumps(request(2, "tools/call", name="hang", arguments={}))
    connection.request("POST", target.path, message, JSON_HEADERS | session)
    return connection


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.requirement("F-115", "F-116")
def test_over_http_it_answers_until_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    write_agent(tmp_path)
    with running("serve", "demo.py", "--port", "0", cwd=tmp_path) as bridge:
        url = f"{url_of(bridge)}/mcp"
        answer, _ = post(url.replace("/mcp", "/agents/demo/mcp"), INITIALIZE)
        assert answer["result"]["serverInfo"]["name"] == "GAIA DemoAgent"
        bridge.process.send_signal(number)
        assert bridge.ended() == 0
        assert "/agents/demo/mcp  agent demo" in bridge.all_errors()
        assert bridge.rest_of_output() == ""


@pytest.mark.requirement("F-116")
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    write_agent(tmp_path)
    with running("serve", "demo.py", "--port", "0", cwd=tmp_path) as bridge:
        with closing(start_hanging_call(f"{url_of(bridge)}/mcp")):
            bridge.until_error("hanging")
            bridge.process.send_signal(signal.SIGTERM)
            bridge.until_error("SIGTERM: ending")
            bridge.process.send_signal(signal.SIGTERM)
            assert bridge.ended() == 143


def test_in_the_home_folder_the_agents_that_need_a_project_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with running("serve", "--port", "0", cwd=tmp_path) as bridge:
        assert "agent 'code'" in bridge.until_error("is your home folder")
        assert "serves nothing yet at http" in bridge.until_error("gaia-bridge 0")
        assert "gaia-bridge add NAME COMMAND" in bridge.until_error("Add something:")
        bridge.process.send_signal(signal.SIGINT)
        assert bridge.ended() == 0


def test_a_signal_while_agents_load_ends_it(tmp_path: Path) -> None:
    write_agent(
        tmp_path,
        before="import sys, threading\nprint('loading', file=sys.stderr, flush=True)\nthreading.Event().wait()\n",
    )
    with running("serve", "demo.py", "--port", "0", cwd=tmp_path) as bridge:
        bridge.until_error("loading")
        bridge.process.send_signal(signal.SIGINT)
        assert bridge.ended() == -signal.SIGINT
        assert "Traceback" not in bridge.all_errors()


@pytest.mark.requirement("S-3", "S-36")
def test_with_auth_the_token_is_needed_and_only_its_file_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_agent(tmp_path)
    with running("serve", "demo.py", "--port", "0", "--auth", "--verbose", cwd=tmp_path) as bridge:
        url = f"{url_of(bridge)}/mcp"
        token_file = tmp_path / ".gaia" / "bridge-token"
        token = token_file.read_text(encoding="ascii").strip()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(url, INITIALIZE)
        answer, _ = post(url, INITIALIZE, Authorization=f"Bearer {token}")
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        bridge.process.send_signal(signal.SIGTERM)
        assert bridge.ended() == 0
        errors = bridge.all_errors()
        assert str(token_file) in errors
        assert "${env:GAIA_BRIDGE_TOKEN}" in errors
        assert token not in errors


@pytest.mark.requirement("F-108", "P-7", "F-118")
def test_on_stdio_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    write_agent(tmp_path, before="import os\nprint('printed')\nos.write(1, b'written')\nos.system('echo by a child')\n")
    with running("serve", "--stdio", "demo.py", cwd=tmp_path) as bridge:
        bridge.send(INITIALIZE)
        assert bridge.receive()["result"]["serverInfo"]["name"] == "GAIA DemoAgent"
        bridge.send(INITIALIZED, request(2, "tools/call", name="hello", arguments={}))
        assert bridge.receive()["result"]["structuredContent"] == {"text": "hello"}
        bridge.close_input()
        assert bridge.ended() == 0
        assert bridge.rest_of_output() == ""
        errors = bridge.all_errors()
        assert all(text in errors for text in ("printed", "written", "by a child"))
        assert "VS Code" not in errors


@pytest.mark.requirement("F-108")
def test_on_stdio_an_agent_that_fails_to_load_is_one_line_on_standard_error(tmp_path: Path) -> None:
    with running("serve", "--stdio", "missing.py", cwd=tmp_path) as bridge:
        assert bridge.ended() == 66
        assert bridge.all_errors().splitlines() == [
            "python -m gaia_bridge: error: agent 'missing.py': there is no file missing.py"
        ]
        assert bridge.rest_of_output() == ""


@pytest.mark.requirement("F-115", "F-116", "F-118")
@pytest.mark.parametrize("end", ["close_input", "SIGINT", "SIGTERM"])
def test_on_stdio_it_ends_with_a_call_and_a_thread_that_never_do(tmp_path: Path, end: str) -> None:
    """The thread is no daemon: without a deadline, the interpreter would wait for it for ever."""
    write_agent(tmp_path, before="import threading\nthreading.Thread(target=threading.Event().wait).start()\n")
    with running("serve", "--stdio", "demo.py", cwd=tmp_path) as bridge:
        bridge.send(INITIALIZE)
        bridge.receive()
        bridge.send(INITIALIZED, request(2, "tools/call", name="hang", arguments={}))
        bridge.until_error("hanging")
        if end == "close_input":
            bridge.close_input()
        else:
            bridge.process.send_signal(signal.Signals[end])
        assert bridge.ended() == 0
        assert "Traceback" not in bridge.all_errors()


def test_a_server_of_the_configuration_is_published_beside_the_agents(tmp_path: Path) -> None:
    write_agent(tmp_path)
    server = {"command": sys.executable, "args": [str(SERVERS / "stdio_upstream.py")]}
    content = {"mcpServers": {"up": server, "demo": server, "..": server}}
    (tmp_path / "servers.json").write_text(json.dumps(content), encoding="utf-8")
    with running("serve", "--stdio", "demo.py", "--config", "servers.json", cwd=tmp_path) as bridge:
        bridge.send(INITIALIZE)
        bridge.receive()
        bridge.send(INITIALIZED)
        names: set[str] = set()
        number = 1
        while not any(name.startswith("up__") for name in names):
            number += 1
            bridge.send(request(number, "tools/list"))
            while (message := bridge.receive()).get("id") != number:
                pass
            names = {tool["name"] for tool in message["result"]["tools"]}
        assert "hello" in names
        bridge.close_input()
        assert bridge.ended() == 0
        errors = bridge.all_errors()
        assert "server demo is left out: cannot publish 'demo': the agent 'GAIA DemoAgent' has that name" in errors
        assert "server .. is left out" in errors
