"""`gaia-bridge skills`, and commands without the name that they need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gaia_bridge_cli import main
from gaia_bridge_cli.exit_codes import ExitCode

AGENT = '''
from gaia_bridge import tool

@tool
def stamp() -> str:
    """Stamp."""
    return "x"
'''


def write(folder: Path) -> None:
    """A skill of two files."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: How to stamp\n---\n", "utf-8")
    (folder / "ink.md").write_text("black", "utf-8")


def test_skills_are_shown_with_what_they_are_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "stamping_office.py"  # no other test has an agent of that name
    file.write_text(AGENT, "utf-8")
    assert main(("skills", str(file))) == 0
    assert "stamping_office has no skills" in capfd.readouterr().err
    write(tmp_path / "skills" / "stamping")
    assert main(("skills", str(file))) == 0
    assert capfd.readouterr().out == "stamping  skill://stamping/SKILL.md (2 files)\n  How to stamp\n"
    assert main(("skills", str(file), "--json")) == 0
    [skill] = json.loads(capfd.readouterr().out)["skills"]
    assert [item["size"] for item in skill["resources"]] == [49, 5]


DESK = """
from gaia_bridge import prompt, resource, tool

@tool
def greet() -> str:
    return "hello"

@tool
def add() -> str:
    return "3"

@prompt
def introduce() -> str:
    return "Introduce yourself."

@resource("desk://rules")
def rules() -> str:
    return "none"
"""


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("call", "which tool? there are: add, greet"),
        ("prompt", "which prompt? there are: introduce"),
        ("read", "which resource? there are: desk://rules"),
    ],
)
def test_a_command_without_the_name_that_it_needs_shows_the_names_that_exist(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, problem: str
) -> None:
    file = tmp_path / "open_desk.py"
    file.write_text(DESK, "utf-8")
    assert main((command, str(file))) == ExitCode.USAGE
    assert problem in capfd.readouterr().err
