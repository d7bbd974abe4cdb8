"""The files of a new project, made of the templates."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gaia_bridge_desk.projects
from gaia_bridge import __version__
from gaia_bridge.bridge.discovery import ENTRY_POINT_GROUP
from gaia_bridge_desk.projects import agent_files, names_of, project_files

TEMPLATES = Path(gaia_bridge_desk.projects.__file__).parent / "templates"
NAMES = names_of("my-weather")


def test_every_template_is_used_and_all_its_names_are_filled_in() -> None:
    files = project_files(NAMES)
    made = [name for name in files if name != ".vscode/mcp.json"]
    assert len(made) == len(list(TEMPLATES.iterdir()))
    assert {path.suffix for path in TEMPLATES.iterdir()} == {".template"}  # no checker takes them for code
    vscode = files.pop(".vscode/mcp.json")  # whose own variables have a dollar, too
    assert "$" not in "".join(files.values())
    assert all(text.endswith("\n") and not text.endswith("\n\n") for text in [*files.values(), vscode])


@pytest.mark.parametrize("typed", ["my-weather", '"""', "天気", "3d-print"])
def test_whatever_the_name_is_the_files_can_be_read(typed: str) -> None:
    files = project_files(names_of(typed))
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
    tomllib.loads(files["pyproject.toml"])
    json.loads(files[".vscode/mcp.json"])


def test_no_line_of_code_is_longer_than_the_project_says_with_the_longest_name() -> None:
    files = project_files(names_of("customer-relationship-management-systems"))
    limit: int = tomllib.loads(files["pyproject.toml"])["tool"]["ruff"]["line-length"]
    code = "".join(text for name, text in files.items() if name.endswith(".py"))
    assert max(map(len, code.splitlines())) <= limit


def test_the_project_needs_the_bridge_and_announces_its_agent() -> None:
    about: dict[str, Any] = tomllib.loads(project_files(NAMES)["pyproject.toml"])
    assert about["project"]["name"] == "my-weather-agent"
    assert about["project"]["dependencies"] == [f"gaia-mcp-bridge>={__version__}"]
    assert about["project"]["entry-points"] == {ENTRY_POINT_GROUP: {"my-weather": "my_weather_agent:MyWeatherAgent"}}
    assert [line.partition(">")[0] for line in about["dependency-groups"]["test"]] == ["pytest"]


def test_vs_code_starts_the_bridge_that_the_project_has_installed() -> None:
    servers = json.loads(project_files(NAMES)[".vscode/mcp.json"])["servers"]
    assert servers == {
        "my-weather": {
            "type": "stdio",
            "command": "${workspaceFolder}/.venv/bin/gaia-bridge",
            "args": ["serve", "--stdio", "."],
            "cwd": "${workspaceFolder}",
        }
    }


def test_an_agent_alone_is_its_file_and_a_test_beside_it() -> None:
    assert list(agent_files(NAMES)) == ["my_weather_agent.py", "test_my_weather_agent.py"]
