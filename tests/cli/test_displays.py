"""What shows something changes nothing: no configuration, no file of an editor, no approval."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gaia_bridge_cli.program import program
from tests.cli.running import GLOBAL, Run

SERVER = Path(__file__).parents[1] / "servers" / "raw_server.py"

FACTORY = """
from gaia.agents.base import MCPAgent
from gaia.mcp import MCPClientMixin


class Office(MCPAgent, MCPClientMixin):
    def __init__(self):
        super().__init__(silent_mode=True)
        self.connect_mcp_server("raw", {COMMAND})

    def get_mcp_tool_definitions(self):
        return [{"name": "greet", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name, arguments):
        return {}


def make():
    return Office()
"""

SHOWING = [
    "agents",
    "agents office.py:make",
    "agents office.py:make --json",
    "call raw pid",
    "bundle link",
    "completion bash",
    "doctor --offline",
    "doctor --json",
    "generate raw",
    "import",
    "import cursor --dry-run",
    "install",
    "install cursor --print",
    "install --all --print",
    "list",
    "list --json",
    "logs raw",
    "prompt raw none",
    "ps",
    "ps --json",
    "read raw raw://nothing",
    "skills raw",
    "search nothing --registry http://127.0.0.1:9",
    "status",
    "test-client raw",
    "tools office.py:make",
    "tools raw --json",
    "trust --list",
]
CHANGING = {"add", "disable", "down", "enable", "import", "init", "install", "login", "new", "remove", "trust", "up"}
SERVING = {"acp", "background", "connect", "dev", "restart", "serve"}
"""They run until somebody ends them; what they publish may change whatever it likes."""

OWN_NOTES = {"logs", "cache"}
"""Folders of `~/.gaia` that are no configuration."""


def files() -> dict[str, tuple[int, bytes]]:
    """All files that are there, with what is in them and when they were written."""
    found = (Path(folder, name) for folder, _, names in os.walk(Path.home()) for name in names)
    kept = (path for path in found if not OWN_NOTES.intersection(path.parts) and path.suffix != ".pyc")
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in kept}


def test_each_command_shows_changes_or_serves() -> None:
    assert {line.split()[0] for line in SHOWING} | CHANGING | SERVING == set(program.commands)


@pytest.mark.parametrize("line", SHOWING)
def test_a_command_that_shows_something_leaves_every_file_as_it_is(
    run: Run, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = {"command": sys.executable, "args": ["-S", str(SERVER)]}
    entry = {**raw, "env": {"KEY": "${env:HOME}"}, "mine": 1}
    Path("work").mkdir()
    for file in (GLOBAL, ".cursor/mcp.json", "work/.vscode/mcp.json"):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(json.dumps({"mcpServers": {"raw": entry}}), encoding="utf-8")
    monkeypatch.chdir("work")
    Path("mcp_servers.json").write_text(json.dumps({"mcpServers": {"strange": {"command": "no"}}}), encoding="utf-8")
    Path("office.py").write_text(FACTORY.replace("{COMMAND}", repr(raw)), encoding="utf-8")
    before = files()
    code, out, err = run(*line.split())
    assert code in (0, 1, 64, 69, 78), (code, out, err)
    assert files() == before
