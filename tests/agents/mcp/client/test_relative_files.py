"""A relative `${file:...}` begins where the configuration file is, not where the program was started."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaia.mcp import MCPClientManager
from gaia.mcp.client import MCPClient, MCPConfig
from tests.support.processes import background_threads

SERVER = Path(__file__).parents[3] / "servers" / "raw_server.py"
ENTRY = {"command": "${file:secrets/program}", "args": ["-S", str(SERVER)]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file, with what its entries refer to beside it; the current folder is another one."""
    folder = tmp_path / "project"
    (folder / "secrets").mkdir(parents=True)
    (folder / "secrets" / "program").write_text(f"{sys.executable}\n", "utf-8")
    return folder / "servers.json"


@pytest.fixture
def manager(file: Path) -> Iterator[MCPClientManager]:
    with MCPClientManager(MCPConfig(file)) as manager:
        yield manager
    assert background_threads() == []


def written(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")


@pytest.mark.requirement("S0-61")
def test_in_a_file_that_is_loaded(file: Path) -> None:
    written(file, up=ENTRY)
    with MCPClientManager(MCPConfig(file)) as manager:
        manager.load_from_config()
        assert manager.list_servers() == ["up"]


@pytest.mark.requirement("S0-61")
def test_in_an_entry_that_is_added_and_loaded_again(file: Path, manager: MCPClientManager) -> None:
    assert manager.add_server("up", ENTRY).is_connected()
    manager.disconnect_all()
    with MCPClientManager(MCPConfig(file)) as again:
        again.load_from_config()
        assert again.list_servers() == ["up"]


def test_in_each_of_two_files_by_itself(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / ".gaia").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    written(home / ".gaia" / "mcp_servers.json", first={**ENTRY, "command": "${file:program}"})
    (home / ".gaia" / "program").write_text(sys.executable, "utf-8")
    written(file.with_name("mcp_servers.json"), second=ENTRY)
    monkeypatch.chdir(file.parent)
    config = MCPConfig()
    monkeypatch.chdir(tmp_path)
    with MCPClientManager(config) as manager:
        manager.load_from_config()
        assert sorted(manager.list_servers()) == ["first", "second"]


def test_of_a_client_by_itself_in_the_current_folder_or_one_that_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="secrets/program: cannot be read"):
        MCPClient.from_config("up", ENTRY)
    with MCPClient.from_config("up", ENTRY, folder=file.parent) as client:
        assert client.is_connected()
    monkeypatch.chdir(file.parent)
    assert MCPClient.from_config("up", ENTRY)
