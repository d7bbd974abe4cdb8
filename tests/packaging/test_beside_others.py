"""Two foreign distributions own names that look like ours; they win, and neither side loses a file.

openai-agents owns a top-level package `agents`, amd-gaia a regular package `gaia` with a command of the same name.
Both stand here as stubs, shaped like the real ones where it matters.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import DISTRIBUTION, ROOT, Environment, create_environment, write_wheel

FOREIGN_AGENT = """
from abc import ABC, abstractmethod

class Agent(ABC):
    def __init__(self, silent_mode=False, debug=False, **options):
        self.silent_mode = silent_mode
        self._register_tools()

    @abstractmethod
    def _register_tools(self): ...

class MCPAgent(Agent):
    @abstractmethod
    def get_mcp_tool_definitions(self): ...

    @abstractmethod
    def execute_mcp_tool(self, tool_name, arguments): ...

    def get_mcp_prompts(self):
        return []

    def get_mcp_resources(self):
        return []

    def get_mcp_server_info(self):
        return {"name": f"GAIA {type(self).__name__}", "version": "2.0.0"}
"""

AMD_GAIA = {
    "gaia/__init__.py": "OWNER = 'amd-gaia'\n",
    "gaia/cli.py": "def main():\n    print('amd-gaia')\n",
    "gaia/agents/__init__.py": "",
    "gaia/agents/base/__init__.py": "from gaia.agents.base.agent import Agent, MCPAgent\n",
    "gaia/agents/base/agent.py": FOREIGN_AGENT,
    "gaia/agents/base/mcp_agent.py": "from gaia.agents.base.agent import MCPAgent\n",
}

OPENAI_AGENTS = {"agents/__init__.py": "OWNER = 'openai-agents'\n", "agents/tool.py": ""}

GAIA_COMMAND = "[console_scripts]\ngaia = gaia.cli:main\n"

OWNERS = "import agents, gaia; print(agents.OWNER, gaia.OWNER)"

OURS_WORK = """
import gaia_agents, gaia_bridge
from gaia.agents.base import MCPAgent
for agent in gaia_agents.CodeAgent("."), gaia_agents.ProjectAgent("."):
    assert isinstance(agent, MCPAgent), type(agent).__mro__
    assert agent.get_mcp_tool_definitions()
print('work')
"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("foreign")
    return [
        write_wheel(folder, "amd-gaia", AMD_GAIA, GAIA_COMMAND),
        write_wheel(folder, "openai-agents", OPENAI_AGENTS),
    ]


@pytest.fixture(scope="module", params=["ours first", pytest.param("theirs first", marks=pytest.mark.thorough)])
def together(
    request: pytest.FixtureRequest, wheel: Path, foreign: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    environment = create_environment(tmp_path_factory.mktemp("together"))
    for targets in [[wheel], foreign] if request.param == "ours first" else [foreign, [wheel]]:
        environment.install(*targets)
    return environment


def theirs(environment: Environment) -> set[Path]:
    return environment.files("amd-gaia") | environment.files("openai-agents")


def damaged(environment: Environment) -> set[Path]:
    return environment.damaged("amd-gaia") | environment.damaged("openai-agents")


def test_no_file_is_shared_but_the_gaia_command(together: Environment) -> None:
    """Both install the same two lines there, so that either order leaves the same command."""
    assert together.files(DISTRIBUTION) & theirs(together) == {together.scripts / "gaia"}


def test_every_file_of_every_distribution_is_intact(together: Environment) -> None:
    assert damaged(together) | together.damaged(DISTRIBUTION) == set()


def test_the_foreign_packages_win_the_import(together: Environment) -> None:
    assert together.run(OWNERS) == "openai-agents amd-gaia"


def test_the_core_and_the_shipped_agents_work_on_the_foreign_base_classes(together: Environment) -> None:
    assert together.run(OURS_WORK) == "work"


def test_our_command_works_and_the_gaia_command_is_theirs(together: Environment) -> None:
    assert "Usage" in together.command("gaia-bridge", "--help")
    assert together.command("gaia").strip() == "amd-gaia"


@pytest.mark.thorough
def test_the_foreign_packages_win_beside_an_editable_install_too(
    foreign: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = create_environment(tmp_path_factory.mktemp("editable"))
    environment.install("--editable", ROOT, *foreign)
    assert environment.run(OWNERS) == "openai-agents amd-gaia"
    assert environment.run(OURS_WORK) == "work"


@pytest.mark.thorough
@pytest.mark.parametrize("ours_first", [True, False])
def test_uninstalling_ours_leaves_theirs(ours_first: bool, wheel: Path, foreign: list[Path], tmp_path: Path) -> None:
    environment = create_environment(tmp_path)
    for targets in [[wheel], foreign] if ours_first else [foreign, [wheel]]:
        environment.install(*targets)
    environment.pip("uninstall", "--yes", DISTRIBUTION)
    assert damaged(environment) == {environment.scripts / "gaia"}
    assert environment.run(OWNERS) == "openai-agents amd-gaia"
    left = [path for path in environment.site_packages.rglob("*") if path.is_file() and "gaia_bridge" in str(path)]
    assert left == []
