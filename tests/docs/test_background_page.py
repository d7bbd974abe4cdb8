"""The entry of `docs/background.md` is the one that `gaia-bridge install` writes, and its commands are ours."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from gaia_bridge_cli import main
from gaia_bridge_cli.program import program
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "background.md"


def test_the_entry_of_the_page_is_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_bridge_cli.install.own_program", lambda: ["/home/me/.local/bin/gaia-bridge"])
    assert main(["install", "vscode", "--yes"]) == 0
    written = json.loads(Path("~/.config/Code/User/mcp.json").expanduser().read_text("utf-8"))
    [shown] = [block.text for block in blocks(PAGE)]
    assert json.loads(shown) == written


def test_every_command_of_the_page_is_one_of_ours() -> None:
    shown = re.findall(r"`gaia-bridge ([a-z][^`]*)`", PAGE.read_text("utf-8"))
    assert len(shown) > 9
    for line in shown:
        name, *words = shlex.split(line)
        command = program.get_command(click.Context(program), name)
        assert command is not None
        command.make_context(name, [] if "EDITOR" in words else words, parent=click.Context(program))
