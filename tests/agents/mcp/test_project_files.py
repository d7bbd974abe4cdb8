"""The `mcp_servers.json` of a project: beside an agent's file, and approved where `gaia-bridge` runs the agent."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaia.mcp import MCPClientManager, MCPClientMixin
from gaia.mcp.client import MCPConfig
from gaia_bridge.config import TrustStore
from gaia_bridge.config.process_rules import APPROVALS_NEEDED
from tests.cli.running import run
from tests.support.processes import background_threads

RAW_SERVER = Path(__file__).parents[2] / "servers" / "raw_server.py"
ENTRY: dict[str, Any] = {"command": sys.executable, "args": ["-S", "server.py"]}
AGENT = """\
from gaia.agents.base import Agent
from gaia.mcp import MCPClientMixin


class BesideAgent(Agent, MCPClientMixin):
    '''Has what its project lists.'''

    def __init__(self, **options):
        Agent.__init__(self, **{"silent_mode": True, **options})
        MCPClientMixin.__init__(self)
"""


def write(file: Path, **servers: Any) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return file


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with nothing in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, here: Path) -> Path:
    """The folder of an agent, elsewhere; its file names a program of that folder relatively."""
    folder = tmp_path / "my project"
    write(folder / "mcp_servers.json", up=ENTRY)
    shutil.copy(RAW_SERVER, folder / "server.py")
    (folder / "agent.py").write_text(AGENT, "utf-8")
    return folder


@pytest.fixture
def agents(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class in the agent's file; what agents have started is ended."""
    spec = importlib.util.spec_from_file_location("beside_agent", project / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "beside_agent", module)
    spec.loader.exec_module(module)
    made: list[Any] = []

    def make() -> Any:
        made.append(module.BesideAgent())
        return made[-1]

    yield make
    for agent in made:
        manager_of(agent).disconnect_all()
    assert background_threads() == []


def manager_of(agent: MCPClientMixin) -> MCPClientManager:
    return agent._mcp_manager  # pyright: ignore[reportPrivateUsage]  # the specification's name for it


def test_the_file_beside_the_agents_own_is_found_from_any_folder_and_so_are_its_programs(
    agents: Any, project: Path
) -> None:
    agent = agents()
    assert agent.list_mcp_servers() == ["up"]
    assert manager_of(agent).config.config_file == project / "mcp_servers.json"
    assert manager_of(agent).config.get_servers() == {"up": ENTRY}


def test_a_folder_of_an_entrys_own_begins_there_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = {"deeper": str(project / "deeper"), "/else": "/else", "~/x": "~/x", "${env:X}": "${env:X}"}
    write(project / "mcp_servers.json", **{cwd: {**ENTRY, "cwd": cwd} for cwd in homes}, web={"url": "http://x"})
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(project / "program.py"), raising=False)
    servers, _ = MCPConfig().to_start()
    assert servers.pop("web").entry == {"url": "http://x"}
    assert {name: server.entry["cwd"] for name, server in servers.items()} == homes
    monkeypatch.chdir(project)
    assert MCPConfig().to_start()[0]["deeper"].entry["cwd"] == "deeper"


def test_a_file_of_the_current_folder_goes_before_that_of_the_agent_and_that_before_the_programs(
    agents: Any, project: Path, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    write(program / "mcp_servers.json", of_program={"command": "x"})
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(program / "main.py"), raising=False)
    assert MCPConfig(agent=agents()).config_file == project / "mcp_servers.json"
    assert list(MCPConfig().get_servers()) == ["of_program"]
    write(here / "mcp_servers.json", of_here={"command": "x"})
    assert list(MCPConfig(agent=agents()).get_servers()) == ["of_here"]


def test_where_the_bridge_runs_the_agent_a_projects_server_is_started_once_it_is_approved(
    agents: Any, project: Path, here: Path
) -> None:
    file = project / "mcp_servers.json"
    with APPROVALS_NEEDED.kept():
        agent = agents()
        [status] = agent.get_mcp_status_report()
        assert agent.list_mcp_servers() == []
        assert f"was not approved; run: gaia-bridge trust --config '{file}' up" in status["error"]
        TrustStore().approve(file, "up", ENTRY)
        assert agent.load_mcp_servers_from_config() == 1
        shutil.copy(file, here)  # the same lines in another project are others
        assert agents().list_mcp_servers() == []
    assert not APPROVALS_NEEDED.holds


def test_a_program_that_was_changed_since_it_was_approved_is_not_started_again(agents: Any, project: Path) -> None:
    TrustStore().approve(project / "mcp_servers.json", "up", ENTRY)
    with APPROVALS_NEEDED.kept():
        client = agents().get_mcp_client("up")
        client.disconnect()
        with (project / "server.py").open("a", encoding="utf-8") as program:
            program.write("# and more\n")
        assert not client.connect()
        assert "it was changed since it was approved" in client.last_error
        TrustStore().path.write_text("{", "utf-8")
        assert not client.connect()
        assert "whether it was approved cannot be told" in client.last_error


def test_until_a_projects_server_is_approved_the_users_own_of_that_name_counts(here: Path) -> None:
    mine = write(Path.home() / ".gaia" / "mcp_servers.json", up={"command": "mine"}, own={"command": "own"})
    write(here / "mcp_servers.json", up={"command": "theirs"}, new={"command": "new"})
    config = MCPConfig()
    assert {name: server.entry["command"] for name, server in config.to_start()[0].items()} == {
        "up": "theirs",
        "own": "own",
        "new": "new",
    }
    with APPROVALS_NEEDED.kept():
        servers, held_back = config.to_start()
    assert {name: server.entry["command"] for name, server in servers.items()} == {"up": "mine", "own": "own"}
    assert list(held_back) == ["up", "new"]
    assert f"until then, that of {mine} counts" in held_back["up"]


def test_a_file_that_an_agent_names_needs_no_approval(project: Path) -> None:
    with APPROVALS_NEEDED.kept():
        servers, held_back = MCPConfig(project / "mcp_servers.json").to_start()
    assert (list(servers), held_back) == (["up"], {})


def test_a_command_of_the_bridge_asks_for_the_approval(project: Path) -> None:
    republishing = AGENT.replace("__init__(self)\n", "__init__(self, republish_tools=True)\n")
    (project / "agent.py").write_text(republishing, "utf-8")

    def tools() -> list[str]:
        [agent] = json.loads(run("agents", str(project / "agent.py"), "--json", cwd=project.parent).stdout)["agents"]
        return [tool["name"] for tool in agent["tools"] if tool["name"].startswith("mcp_up_")]

    assert tools() == []
    TrustStore().approve(project / "mcp_servers.json", "up", ENTRY)
    assert "mcp_up_pid" in tools()
