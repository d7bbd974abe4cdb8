"""The list of the configuration's servers, which an agent shows on its console when it has loaded them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Agent
from gaia.mcp import MCPClientMixin
from gaia.mcp.client import mcp_client
from gaia.mcp.client.server_config import ConfiguredServer, check_server_config
from tests.support.gaia_clients import CountingAgent, FakeTransport, all_tools

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("one", "two")]


@pytest.fixture(autouse=True)
def transports(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeTransport]:
    """Every command is a server that exists only here; by their commands, which say how many tools it has."""
    made: dict[str, FakeTransport] = {}

    def make(
        name: str, config: dict[str, Any], timeout: float, debug: bool, folder: Path | None = None
    ) -> ConfiguredServer:
        check_server_config(config)
        count = config["command"]
        if count not in made:
            made[count] = FakeTransport(*TOOLS[: int(count) if count.isdigit() else 0])
            made[count].connects = count.isdigit()
        return ConfiguredServer(made[count], all_tools)

    monkeypatch.setattr(mcp_client, "configured_server", make)
    return made


class Heard:
    """A console that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def print_info(self, message: str) -> None:
        self.said.append(message)


class Shown(Agent, MCPClientMixin):
    def __init__(self, **options: Any) -> None:
        self.heard = Heard()
        Agent.__init__(self, output_handler=self.heard, **options)
        MCPClientMixin.__init__(self)


def write(file: Path, **servers: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")


@pytest.fixture
def home() -> Path:
    return Path.home() / ".gaia" / "mcp_servers.json"


def test_the_servers_are_listed_with_marks_at_the_start(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(home, time={"command": "1"}, both={"command": "2"}, off={"command": "1", "disabled": True})
    write(tmp_path / "mcp_servers.json", both={"command": "2"}, bad={"command": "missing"}, **{"no entry": []})
    [listed] = Shown().heard.said
    assert listed.splitlines() == [
        f"Config: {tmp_path / 'mcp_servers.json'} (local) + ~/.gaia/mcp_servers.json (global)",
        "  Local overrides: both",
        "",
        "  ✓ time (1 tool)",
        "  ✓ both (2 tools)",
        "  – off (disabled)",
        "  ✗ bad (failed to connect: the transport could not connect)",
        "  ✗ no entry (failed to connect: Config: expected a config dict with a 'command' field, got list)",
    ]


def test_the_list_is_shown_again_when_it_is_news(home: Path, transports: dict[str, FakeTransport]) -> None:
    write(home, up={"command": "1"}, late={"command": "missing"})
    agent = Shown()
    agent.load_mcp_servers_from_config()
    assert len(agent.heard.said) == 1
    transports["missing"].connects = True
    agent.load_mcp_servers_from_config()
    assert len(agent.heard.said) == 2
    assert "  ✓ late (0 tools)" in agent.heard.said[1].splitlines()


def test_who_has_no_servers_is_shown_no_list(home: Path) -> None:
    write(home)
    assert Shown().heard.said == []


def test_a_file_that_was_named_is_said(tmp_path: Path) -> None:
    write(tmp_path / "named.json", up={"command": "1"})

    class Naming(Shown):
        def __init__(self) -> None:
            super().__init__()
            MCPClientMixin.__init__(self, config_file=str(tmp_path / "named.json"))

    [listed] = Naming().heard.said
    assert listed == f"Config file: {tmp_path / 'named.json'}\n\n  ✓ up (1 tool)"


def test_the_list_goes_to_standard_error_and_names_cannot_add_lines_to_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, **{"a\n  ✓ b": {"command": "1"}, "up": {"command": "2"}})

    class Talking(Agent, MCPClientMixin):
        """Has a console of its own."""

    Talking()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "  ✓ up (2 tools)" in shown.err.splitlines()
    assert "  ✓ b" not in [line[:5] for line in shown.err.splitlines()]


def test_an_agent_without_a_console_has_it_in_the_log(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write(home, up={"command": "1"})
    MCPClientMixin()
    assert "  ✓ up (1 tool)" in caplog.text


def test_a_silent_agent_shows_nothing(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(home, up={"command": "1"})
    assert CountingAgent().list_mcp_servers() == ["up"]
    assert capfd.readouterr() == ("", "")
