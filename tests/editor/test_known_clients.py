"""Editors of the terminal take of a server what the table of clients says: `pytest -m editor`.

Each converses once with a model of ours, which keeps what it was given; the server says by which name it was called.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from gaia_bridge.server.known_clients import known_client
from tests.editor.measuring_model import MeasuringModel, measuring_model
from tests.editor.terminal_editors import home_of, installed
from tests.support.installed_programs import required

pytestmark = [pytest.mark.editor, pytest.mark.timeout(900)]

SERVER: Final = Path(__file__).parents[1] / "servers" / "measured_server.py"
UNITS: Final = 12_000
"""Characters of the server's instructions, and of its first description."""

MANY: Final = 300
LISTED_WITHIN: Final = 10
"""Seconds that the model waits for its client to list again, before it says anything."""

_SECONDS: Final = 120


class Client(NamedTuple):
    """One editor, and what the table and its page say of it."""

    command: tuple[str, ...]
    name: str
    """As it introduces itself."""
    description: int = UNITS
    """Characters of the description of a tool that reach its model."""
    instructions: int = UNITS
    """The same of instructions, where it shows none or fewer for another reason than a limit."""


CLIENTS: Final = {
    "claude-code": Client(("claude", "-p", "go", "--model", "claude-sonnet-4-5"), "claude-code", description=4_096),
    "codex": Client(("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"),
                    "codex-mcp-client"),
    "gemini-cli": Client(("gemini", "-m", "gemini-2.5-flash", "--yolo", "-p", "go"), "gemini-cli-mcp-client"),
    "opencode": Client(("opencode", "run", "-m", "measuring/measuring", "go"), "opencode"),
    "copilot-cli": Client(("copilot", "-p", "go", "--allow-all-tools"), "copilot-cli", instructions=0),
}  # fmt: skip


class Measured(NamedTuple):
    """What one conversation showed."""

    name: str
    lists: int
    instructions: int
    description: int
    tools: int


@pytest.fixture(scope="module")
def programs() -> Path:
    with required("editors of the terminal"):
        return installed()


@pytest.fixture
def home() -> Generator[Path]:
    home = home_of("measured")
    yield home
    shutil.rmtree(home)


def configure(editor: str, home: Path, command: list[str], url: str) -> dict[str, str]:
    """Write what an editor needs to have the server and the model; returns its variables."""

    def write(file: str, content: object) -> None:
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    program = {"command": command[0], "args": command[1:]}
    match editor:
        case "claude-code":
            write("servers.json", {"mcpServers": {"gaia": program}})
            return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false"}
        case "codex":
            provider = f'name = "m"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "HOME"\n'
            server = f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
            head = 'model_provider = "m"\nmodel = "measuring"\n'
            write(".codex/config.toml", f"{head}[model_providers.m]\n{provider}[mcp_servers.gaia]\n{server}")
            return {}
        case "gemini-cli":
            auth = {"auth": {"selectedType": "gemini-api-key"}}
            servers = {"gaia": {**program, "trust": True}}
            write(".gemini/settings.json", {"mcpServers": servers, "security": auth, "telemetry": {"enabled": False}})
            return {
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_API_KEY": "none",
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            }
        case "opencode":
            model = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "none"}}
            providers = {"measuring": {**model, "models": {"measuring": {"name": "measuring"}}}}
            local = {"gaia": {"type": "local", "command": command}}
            small = {"small_model": "measuring/measuring", "autoupdate": False}
            write("opencode.json", {"provider": providers, "mcp": local, **small})
            return {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
        case _:
            servers = {"gaia": {"type": "local", **program, "tools": ["*"]}}
            write(".copilot/mcp-config.json", {"mcpServers": servers})
            return {
                "COPILOT_HOME": str(home / ".copilot"),
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_API_KEY": "none",
                "COPILOT_MODEL": "measuring",
                "COPILOT_OFFLINE": "true",
                "COPILOT_AUTO_UPDATE": "false",
            }


def requests_in(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


def lists_in(log: Path) -> int:
    return sum(request["method"] == "tools/list" for request in requests_in(log))


def shown_tools(model: MeasuringModel) -> int:
    """How many of the tools `more_...` came, whatever a client makes of their names."""
    return sum(f'more_{number}"' in model.text for number in range(MANY))


def measured(editor: str, programs: Path, home: Path) -> Measured:
    """One conversation with an editor."""
    log = home / "server.jsonl"
    pause = threading.Event()

    def wait() -> bool:
        for _ in range(LISTED_WITHIN * 10):
            if lists_in(log) > 1:
                return True
            pause.wait(0.1)
        return False

    with measuring_model(wait) as model:
        command = [sys.executable, "-S", str(SERVER), str(log), str(MANY)]
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        environ = {"HOME": str(home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8", **quiet}
        environ |= configure(editor, home, command, model.url)
        words = CLIENTS[editor].command
        if editor == "claude-code":
            words += ("--strict-mcp-config", "--mcp-config", str(home / "servers.json"))
        done = subprocess.run(
            words, cwd=home, env=environ, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
        assert model.requests, done.stdout + done.stderr
        names = [request["client"]["name"] for request in requests_in(log) if request["client"]]
        return Measured(names[0], lists_in(log), model.words("i"), model.words("d"), shown_tools(model))


@pytest.mark.parametrize("editor", CLIENTS)
def test_an_editor_takes_what_the_table_says(editor: str, programs: Path, home: Path) -> None:
    client = CLIENTS[editor]
    found = measured(editor, programs, home)
    known = known_client(found.name)
    assert found.name == client.name
    assert found.tools == MANY, "none of them refuses three hundred tools"
    assert client.description - 8 <= found.description <= client.description
    most = min(client.instructions, known.instructions or UNITS)
    assert most - 8 <= found.instructions <= most
    assert (found.lists > 1) is known.lists_again
