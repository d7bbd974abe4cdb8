"""The commands and the change that `docs/editors.md` shows are those of the program; `reference` writes its tables."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from pathlib import Path

import click
import pytest

from gaia_bridge_cli import main
from gaia_bridge_cli.program import program
from gaia_bridge_desk.editors.table import EDITORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text("utf-8")
NAMED = [ROOT / "README.md", ROOT / "docs" / "editors.md", ROOT / "vscode-config" / "README.md"]


@pytest.mark.parametrize("page", NAMED, ids=lambda page: page.name)
def test_every_command_that_is_shown_is_one_of_ours(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = re.findall(r"(?:`|^)gaia-bridge ((?:install|import)\b[^`\n]*)", text, re.MULTILINE)
    assert shown
    for line in shown:
        if line.isupper() or "EDITOR" in line:
            continue
        name, *words = shlex.split(line)
        command = program.get_command(click.Context(program), name)
        assert command is not None
        found = command.make_context(name, list(words), parent=click.Context(program)).params
        if name == "install" and found["editor"] is not None:
            assert found["editor"] in {editor.name for editor in EDITORS}


def test_the_change_that_is_shown_is_the_one_that_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaia_bridge_cli.install.own_program", lambda: ["/home/me/.local/bin/gaia-bridge"])
    [block] = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = Path(".config/Code/User/mcp.json")
    file.parent.mkdir(parents=True)
    old = "".join(f"{line[1:]}\n" for line in block.splitlines() if not line.startswith("+"))
    file.write_text(old, "utf-8")
    assert main(["install", "vscode", "--yes"]) == 0
    new = file.read_text("utf-8")
    shown = [line for line in block.splitlines() if line.startswith("+")]
    assert list(json.loads(new)["servers"]) == ["gaia-bridge"]
    made = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line.startswith("+ ")]
    assert [line[2:] for line in made] == [line[1:] for line in shown]


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
