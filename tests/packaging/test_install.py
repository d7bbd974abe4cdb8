"""An installation works as a wheel and as an editable one, from any folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment, create_environment

IMPORTS = {
    "gaia": ["AgentConsole", "SilentConsole"],
    "gaia.agents.base": ["Agent", "ApiAgent", "MCPAgent", "tool"],
    "gaia.agents.base.agent": ["Agent"],
    "gaia.agents.base.api_agent": ["ApiAgent"],
    "gaia.agents.base.console": ["AgentConsole", "SilentConsole"],
    "gaia.agents.base.mcp_agent": ["MCPAgent"],
    "gaia.agents.base.tools": ["_TOOL_REGISTRY", "get_tool_display_name", "tool"],
    "gaia_agents": ["CodeAgent", "ProjectAgent"],
    "gaia_bridge": ["__version__"],
    "gaia_bridge.cli": ["main"],
    "gaia_bridge_cli": ["main"],
}
"""Every import that documents 001 and 003 make, and the packages of our own."""

ORIGINS = """
import gaia, gaia_agents, gaia_bridge
for package in gaia, gaia_agents, gaia_bridge:
    print(package.__file__)
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = create_environment(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    return environment


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = create_environment(tmp_path_factory.mktemp("editable"))
    environment.install("--editable", ROOT)
    return environment


def import_everything() -> str:
    return "\n".join(f"from {module} import {', '.join(names)}" for module, names in IMPORTS.items())


def test_a_new_environment_does_not_see_this_project(tmp_path: Path) -> None:
    """Otherwise the other tests of this folder would prove nothing."""
    environment = create_environment(tmp_path)
    find = "import importlib.util as u; print([n for n in ('gaia', 'gaia_agents', 'gaia_bridge') if u.find_spec(n)])"
    assert environment.run(find) == "[]"
    assert environment.run("import mcp, anyio; print('there')") == "there"


@pytest.mark.requirement("S1-1")
def test_every_documented_import_works_from_the_wheel(installed: Environment) -> None:
    assert installed.run(import_everything() + "\nprint('imported')") == "imported"


@pytest.mark.thorough
def test_every_documented_import_works_from_an_editable_install(editable: Environment) -> None:
    assert editable.run(import_everything() + "\nprint('imported')") == "imported"


def test_the_wheel_is_imported_from_where_it_was_installed(installed: Environment) -> None:
    site_packages = installed.site_packages
    assert installed.run(ORIGINS).splitlines() == [
        str(site_packages / "_gaia_bridge_compat" / "gaia" / "__init__.py"),
        str(site_packages / "gaia_agents" / "__init__.py"),
        str(site_packages / "gaia_bridge" / "__init__.py"),
    ]


def test_an_editable_install_is_imported_from_the_repository(editable: Environment) -> None:
    assert editable.run(ORIGINS).splitlines() == [
        str(ROOT / "agents" / "gaia" / "__init__.py"),
        str(ROOT / "agents" / "gaia_agents" / "__init__.py"),
        str(ROOT / "bridge" / "gaia_bridge" / "__init__.py"),
    ]


@pytest.mark.parametrize("name", ["gaia-bridge", "gaia"])
def test_both_commands_are_installed_and_answer(installed: Environment, name: str) -> None:
    assert "Usage" in installed.command(name, "--help")


def test_the_installed_version_is_the_one_the_package_names(installed: Environment) -> None:
    code = "import gaia_bridge, importlib.metadata as m; print(gaia_bridge.__version__ == m.version('gaia-mcp-bridge'))"
    assert installed.run(code) == "True"


@pytest.mark.thorough
def test_the_agent_of_a_new_project_is_found_by_its_name_once_that_is_installed(
    installed: Environment, tmp_path: Path
) -> None:
    project = tmp_path / "my-weather"
    installed.command("gaia-bridge", "init", str(project))
    installed.install(project)
    assert installed.files("my-weather-agent") & {installed.site_packages / "my_weather_agent.py"}
    called = installed.command("gaia-bridge", "agents", "my-weather")
    assert called.startswith("my-weather  GAIA MyWeatherAgent")
    assert not [file for file in installed.files("my-weather-agent") if file.name.startswith("test_")]
