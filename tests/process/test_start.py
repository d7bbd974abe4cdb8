"""What a start imports, and what waits until somebody needs it: each of these takes time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import running
from tests.process.driving import OpenRequest, url_of
from tests.support.waiting import PATIENCE

SLOW = {
    "cryptography",
    "difflib",
    "dotenv",
    "email.message",
    "filelock",
    "h11",
    "http.client",
    "httpcore2",
    "httptools",
    "httpx2",
    "importlib.metadata",
    "jsonschema_rs",
    "keyring",
    "logging.handlers",
    "mcp",
    "mcp_types",
    "multiprocessing",
    "openai",
    "opentelemetry",
    "pydantic",
    "pydantic_core",
    "rich",
    "sqlite3",
    "sse_starlette",
    "shutil",
    "starlette",
    "uvicorn",
    "watchfiles",
    "yaml",
    "gaia.agents.chat.engine",
    "gaia.llm.openai_model",
    "gaia_bridge_cli.serving.banner",
    "gaia_bridge_doors.openapi",
    "gaia_bridge.server.http.guard",
    "gaia_bridge.server.http.listener",
    "gaia_bridge_doors.openai_api.app",
    "gaia_bridge.server.http.app",
}
"""What an agent on stdio has no use for, until it is asked for more than a tool."""

SLOW_WITH_A_SERVER = SLOW - {"shutil"}
"""What a bridge on stdio has no use for whose servers are programs."""

SLOW_OVER_HTTP = SLOW - {
    "gaia_bridge_cli.serving.banner",
    "gaia_bridge.server.http.app",
    "gaia_bridge.server.http.guard",
    "gaia_bridge.server.http.listener",
    "httptools",
    "logging.handlers",
    "multiprocessing",
    "shutil",
    "starlette",
    "uvicorn",
    "watchfiles",  # by uvicorn
} | {
    "gaia_bridge.server.http.cross_origin",
    "gaia_bridge.server.http.routes",
    "starlette.responses",
    "starlette.routing",
}
"""What an agent over HTTP has no use for, until somebody asks for a path that is none of MCP."""

SLOW_FOR_EDITS = SLOW - {"filelock", "shutil"} | {
    "anyio",
    "asyncio",
    "gaia_bridge.bridge",
    "gaia_bridge.settings",
    "jiter",
    "ssl",
    "uvloop",
}
"""What a command has no use for that reads or edits a file."""

SLOW_FOR_COMMANDS = SLOW_FOR_EDITS - {"email.message", "http.client", "ssl"} | {
    "dataclasses",
    "filelock",
    "gaia_bridge.config.entries",
    "gaia_bridge.model",
    "msgspec",
    "shutil",
}
"""What a command has no use for that only talks to a running bridge."""

SLOW_FOR_HELP = SLOW_FOR_COMMANDS - {"shutil"} | {
    "gaia_bridge_cli.serving.serve",
    "gaia_bridge_cli.servers",
    "http.client",
}
"""What the help has no use for: the commands that it names are among it."""

AGENT = """\
import sys

from gaia.agents.base import MCPAgent


SCHEMA = {"type": "object", "properties": {"deep": {"type": "boolean", "default": False}}}


class ModulesAgent(MCPAgent):
    def get_mcp_tool_definitions(self):
        return [{"name": "modules", "description": "Tells them.", "inputSchema": SCHEMA}]

    def execute_mcp_tool(self, tool_name, arguments):
        return {"modules": list(sys.modules)}
"""


DECORATED = """\
import sys

from gaia_bridge import tool


@tool
def modules(deep: bool = False, names: list[str] | None = None) -> list[str]:
    '''Tells them.'''
    return list(sys.modules)
"""

SERVER = """\
import json, sys

RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
    "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
}
RESULTS["initialize"]["capabilities"]["tools"] = {}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        error = {"error": {"code": -32601, "message": "Method not found"}}
        answer = {"result": RESULTS[request["method"]]} if request["method"] in RESULTS else error
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def conversation(tool: str) -> str:
    """What a client says that lists the tools, and calls one."""
    version = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    said = [request(1, "initialize", **version), request(2, "tools/list"), request(3, "tools/call", name=tool)]
    return "\n".join(said) + "\n"


def servers_file(folder: Path) -> Path:
    """A configuration with one server."""
    (folder / "server.py").write_text(SERVER, "utf-8")
    entry = {"command": sys.executable, "args": [str(folder / "server.py")]}
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry}}), "utf-8")
    return file


def imported_by(*arguments: str, said: str = "") -> tuple[str, set[str]]:
    """What the program prints, and what it imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gaia_bridge", *arguments]
    result = subprocess.run(command, input=said, capture_output=True, text=True, timeout=PATIENCE)
    lines = [line.rpartition("|")[2] for line in result.stderr.splitlines() if line.startswith("import time:")]
    return result.stdout, set(map(str.strip, lines))


@pytest.mark.parametrize(("agent", "field"), [(AGENT, "modules"), (DECORATED, "result")], ids=["class", "decorated"])
def test_an_agent_on_stdio_has_imported_nothing_slow_when_it_has_answered_a_call(
    agent: str, field: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(agent, "utf-8")
    command = [sys.executable, "-m", "gaia_bridge", "serve", "agent.py", "--stdio"]
    result = subprocess.run(
        command, input=conversation("modules"), capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE
    )
    answers = {answer["id"]: answer for answer in map(json.loads, result.stdout.splitlines()) if "id" in answer}
    imported = set(answers[3]["result"]["structuredContent"][field])
    assert "gaia_bridge.server.dispatcher" in imported
    assert imported & SLOW == set()


def test_an_agent_over_http_has_no_use_for_a_router_until_somebody_asks_for_another_path(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    with running("serve", "--port", "0", "agent.py", cwd=tmp_path) as bridge:
        url = url_of(bridge)

        def imported() -> set[str]:
            with closing(OpenRequest.modern(f"{url}/mcp", "tools/call", name="modules", arguments={})) as call:
                return set(json.loads(call.rest())["result"]["structuredContent"]["modules"])

        assert imported() & SLOW_OVER_HTTP == set()
        with closing(OpenRequest(f"{url}/health")) as health:
            assert json.loads(health.rest())["status"] == "healthy"
        assert "starlette.routing" in imported()


def test_a_command_that_asks_a_running_bridge_imports_nothing_slow() -> None:
    code = "import sys; from gaia_bridge_cli import main; main(['status', '--port', '1']); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    imported = set(result.stdout.split())
    assert "gaia_bridge_cli.running_bridge" in imported
    assert imported & SLOW_FOR_COMMANDS == set()


def test_a_server_on_stdio_is_called_through_the_bridge_without_anything_slow(tmp_path: Path) -> None:
    options = ["--stdio", "--no-agents", "--config", str(servers_file(tmp_path))]
    printed, imported = imported_by("serve", *options, said=conversation("one__greet"))
    assert json.loads(printed.splitlines()[-1])["result"]["content"][0]["text"] == "hello"
    assert "gaia_bridge.client.transports.children.stdio" in imported
    assert imported & SLOW_WITH_A_SERVER == set()


@pytest.mark.parametrize("command", ["list", "disable one", "logs one", "remove one"])
def test_a_command_that_reads_or_edits_a_file_imports_nothing_slow(command: str, tmp_path: Path) -> None:
    _, imported = imported_by(*command.split(), "--config", str(servers_file(tmp_path)))
    assert "gaia_bridge.model" in imported
    assert imported & SLOW_FOR_EDITS == set()


@pytest.mark.parametrize("command", ["init weather", "new agent weather"])
def test_a_command_that_writes_what_people_begin_with_imports_nothing_slow(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, imported = imported_by(*command.split())
    assert list(tmp_path.rglob("weather_agent.py"))
    assert "gaia_bridge_desk.projects" in imported
    assert imported & SLOW_FOR_EDITS == set()


@pytest.mark.core
def test_the_help_imports_none_of_the_commands_that_it_names() -> None:
    printed, imported = imported_by("--help")
    assert "  serve " in printed
    assert imported & SLOW_FOR_HELP == set()
