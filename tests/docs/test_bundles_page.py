"""`docs/bundles.md`: its commands are ours, and what the repository says of itself is what they make of it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from gaia_bridge_cli import main
from gaia_bridge_cli.program import program
from gaia_bridge_desk.bundles import read_project, readme_claims
from tests.support.bundled import ENTRIES, write_project
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


def test_the_commands_of_the_page_make_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("init", "my-weather")) == 0
    monkeypatch.chdir(tmp_path / "my-weather")
    agent = write_project(tmp_path)
    for path in (agent, tmp_path / "greetings.py", tmp_path / "skills"):
        path.rename(Path(path.name))
    Path("servers.json").write_text(json.dumps({"mcpServers": ENTRIES}), "utf-8")
    Path("pyproject.toml").rename(tmp_path / "pyproject.toml")
    for line in re.findall(r"^gaia-bridge (bundle (?:plugin|mcpb) .*)$", PAGE, re.MULTILINE):
        assert main(tuple(shlex.split(line))) == 0
    [listed] = re.findall(r"```\n(hello/.*?)```", PAGE, re.DOTALL)
    for row in listed.replace("NAME", "greet").splitlines():
        assert Path(row.split()[0]).is_file(), row
    assert Path("hello.mcpb").is_file()
    (tmp_path / "pyproject.toml").rename("pyproject.toml")
    for line in re.findall(r"^gaia-bridge (bundle (?:server-json|link) .*)$", PAGE, re.MULTILINE):
        assert main(tuple(shlex.split(line))) == 0
    assert Path("server.json").is_file()
    captured = capsys.readouterr()
    [claim] = re.findall(r"^<!-- mcp-name.*$", PAGE, re.MULTILINE)
    assert claim in captured.err and captured.out.startswith("[Install in VS Code](https://vscode.dev/redirect?url=")


def test_the_options_that_are_told_are_those_that_there_are() -> None:
    group = program.get_command(click.Context(program), "bundle")
    assert isinstance(group, click.Group)
    parameters = [each for each in group.commands["mcpb"].params if isinstance(each, click.Option)]
    options = {option for parameter in parameters for option in parameter.opts}
    rows = re.findall(r"^\| (`--.*?) \|", PAGE, re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"--[a-z]+", row)} == options - {"--help", "--agent"}


def test_the_bridge_is_listed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    kept = (ROOT / "docs" / "server.json").read_text("utf-8")
    told = json.loads(kept)
    words = ("--project", str(ROOT), "--name", told["name"], "--description", told["description"])
    assert main(("bundle", "server-json", *words, "--print")) == 0
    assert capsys.readouterr().out == kept
    assert problems("registry-server-2025-12-11", told) == []
    project = read_project(ROOT)
    assert project is not None and readme_claims(project, told["name"])
