"""What a start imports, and what waits until somebody needs it: each of these takes time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    "gaia.agents.chat.engine",
    "gaia.llm.openai_model",
    "gaia_bridge.cli.banner",
    "gaia_bridge.server.http.guard",
    "gaia_bridge.server.http.listener",
    "gaia_bridge.openai_api.app",
    "gaia_bridge.server.http.app",
}
"""What an agent on stdio has no use for, until it is asked for more than a tool."""

SLOW_FOR_COMMANDS = SLOW - {"email.message", "http.client"} | {
    "anyio",
    "asyncio",
    "gaia_bridge.bridge",
    "gaia_bridge.config.entries",
    "gaia_bridge.model",
    "gaia_bridge.settings",
    "jiter",
    "jsonschema_rs",
    "msgspec",
    "uvloop",
}
"""What a command has no use for that only talks to a running bridge."""

AGENT = """\
import sys

from gaia.agents.base import MCPAgent


class ModulesAgent(MCPAgent):
    def get_mcp_tool_definitions(self):
        return [{"name": "modules", "description": "Tells them.", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name, arguments):
        return {"modules": list(sys.modules)}
"""


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def test_an_agent_on_stdio_has_imported_nothing_slow_when_it_has_answered_a_call(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    version = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    said = [request(1, "initialize", **version), request(2, "tools/list"), request(3, "tools/call", name="modules")]
    command = [sys.executable, "-m", "gaia_bridge", "serve", "agent.py", "--stdio"]
    result = subprocess.run(
        command, input="\n".join(said) + "\n", capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE
    )
    answers = {answer["id"]: answer for answer in map(json.loads, result.stdout.splitlines()) if "id" in answer}
    imported = set(answers[3]["result"]["structuredContent"]["modules"])
    assert "gaia_bridge.server.dispatcher" in imported
    assert imported & SLOW == set()


def test_a_command_that_asks_a_running_bridge_imports_nothing_slow() -> None:
    code = "import sys; from gaia_bridge.cli import main; main(['status', '--port', '1']); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    imported = set(result.stdout.split())
    assert "gaia_bridge.cli.servers.running_bridge" in imported
    assert imported & SLOW_FOR_COMMANDS == set()
