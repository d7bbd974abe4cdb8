"""`docs/bundles.md`: its commands are ours, and what the repository says of itself is what they make of it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from gaia_bridge.bundles import read_project, readme_claims
from gaia_bridge.cli import main
from gaia_bridge.cli.program import program
from tests.support.published_schemas import problems

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bundles.md").read_text("utf-8")


def test_every_command_that_is_shown_is_one_of_ours() -> None:
    shown = re.findall(r"(?:`|^)gaia-bridge (bundle|install) ([^`\n]*)", PAGE, re.MULTILINE)
    assert len(shown) >= 8
    for name, line in shown:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        words = shlex.split(line)
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
            assert command is not None
        command.make_context(name, words, parent=click.Context(program))


def test_the_options_that_are_told_are_those_that_there_are() -> None:
    group = program.get_command(click.Context(program), "bundle")
    assert isinstance(group, click.Group)
    options = {option for parameter in group.commands["mcpb"].params for option in parameter.opts}
    rows = re.findall(r"^\| (`--.*?) \|", PAGE, re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"--[a-z]+", row)} == options - {"--help"}


def test_the_bridge_is_listed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    kept = (ROOT / "docs" / "server.json").read_text("utf-8")
    told = json.loads(kept)
    words = ("--project", str(ROOT), "--name", told["name"], "--description", told["description"])
    assert main(("bundle", "server-json", *words, "--print")) == 0
    assert capsys.readouterr().out == kept
    assert problems("registry-server-2025-12-11", told) == []
    project = read_project(ROOT)
    assert project is not None and readme_claims(project, told["name"])
