"""Editors of the terminal list the bridge that `gaia-bridge install` gave them: `pytest -m editor`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.editor.terminal_editors import EDITORS, TerminalEditor, home_of, installed, shown, words_of
from tests.support.installed_programs import required

pytestmark = [pytest.mark.editor, pytest.mark.timeout(900)]

PROGRAM = str(Path(sys.executable).with_name("gaia-bridge"))


@pytest.fixture(scope="module")
def programs() -> Path:
    with required("editors of the terminal"):
        return installed()


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    home = home_of("tests")
    yield home
    run("down", "--all", home=home)
    shutil.rmtree(home)


def run(*words: str, home: Path) -> None:
    environ = {**os.environ, "HOME": str(home)}
    subprocess.run([PROGRAM, *words], cwd=home, env=environ, check=True, capture_output=True)


@pytest.mark.parametrize("editor", EDITORS, ids=lambda editor: editor.name)
def test_it_lists_the_bridge_that_was_installed_and_not_the_one_that_was_removed(
    editor: TerminalEditor, programs: Path, home: Path
) -> None:
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(home), "PATH": path, "TERM": "xterm-256color", **editor.variables}
    agent = str(shutil.copy(Path(__file__).with_name("growing_agent.py"), home))
    run("install", editor.name, "--yes", "--agent", agent, home=home)
    told = words_of(shown(editor.command, home, environ))
    assert "gaia-bridge" in told and editor.says in told
    run("install", editor.name, "--remove", "--yes", home=home)
    assert editor.says not in words_of(shown(editor.command, home, environ))
