"""Each editor's file, with other servers and comments in it: what becomes of it, and that all of it can be undone."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_cli import main
from gaia_bridge_desk.editors.finding import file_of, usual_place
from gaia_bridge_desk.editors.jsonc import strict
from gaia_bridge_desk.editors.table import EDITORS, Editor, FileKind, FilePlace, FileScope

GOLDEN = Path(__file__).parent / "golden"
LIKE = {"vscode-insiders": "vscode", "code-server": "vscode", "cline-cli": "cline"}
"""Editors whose files are written as those of another."""

WITH_FILES = [editor for editor in EDITORS if editor.places]
PROGRAM = "/opt/gaia/bin/gaia-bridge"


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bridge is installed at a place that golden files can name."""
    monkeypatch.setattr("gaia_bridge_cli.install.own_program", lambda: [PROGRAM])


def golden(editor: Editor, when: str) -> bytes:
    ending = "toml" if editor.kind is FileKind.TOML else "json"
    file = GOLDEN / f"{LIKE.get(editor.name, editor.name)}.{when}.{ending}"
    assert file.exists(), f"{file} is missing: its file with other servers and comments, {when} `gaia-bridge install`"
    return file.read_bytes()


def place_of(editor: Editor, scope: FileScope | None = None) -> FilePlace:
    place = usual_place(editor, scope)
    assert place is not None
    return place


def written(editor: Editor, content: bytes, scope: FileScope | None = None) -> Path:
    path = file_of(place_of(editor, scope))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def servers_of(editor: Editor, path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    document = tomllib.loads(text) if editor.kind is FileKind.TOML else json.loads(strict(text))
    return document[editor.root]


@pytest.mark.parametrize("editor", WITH_FILES, ids=lambda editor: editor.name)
def test_the_bridge_is_put_beside_the_others_once_and_taken_out_without_a_trace(editor: Editor) -> None:
    before = golden(editor, "before")
    path = written(editor, before)
    assert main(["install", editor.name, "--yes"]) == 0
    assert path.read_bytes() == golden(editor, "after")
    status = path.stat()
    assert main(["install", editor.name, "--yes"]) == 0
    assert (path.stat().st_ino, path.read_bytes()) == (status.st_ino, golden(editor, "after"))
    assert main(["install", editor.name, "--remove", "--yes"]) == 0
    assert path.read_bytes() == before
    assert main(["install", editor.name, "--remove", "--yes"]) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("editor", WITH_FILES, ids=lambda editor: editor.name)
def test_what_somebody_has_changed_meanwhile_stays(editor: Editor) -> None:
    path = written(editor, golden(editor, "before"))
    main(["install", editor.name, "--yes"])
    comment = b"# mine\n" if editor.kind is FileKind.TOML else b"// mine\n"
    path.write_bytes(comment + path.read_bytes())
    assert main(["install", editor.name, "--remove", "--yes"]) == 0
    assert path.read_bytes() == comment + golden(editor, "before")


@pytest.mark.parametrize("editor", WITH_FILES, ids=lambda editor: editor.name)
def test_a_file_that_is_made_is_gone_again_with_its_folders(editor: Editor) -> None:
    for place in editor.places:
        path = file_of(place)
        above = next(folder for folder in path.parents if folder.exists())
        already = sorted(os.listdir(above))
        option = f"--{place.scope.value}"
        assert main(["install", editor.name, option, "--yes"]) == 0
        entry = servers_of(editor, path)["gaia-bridge"]
        assert entry["command"] in (PROGRAM, [PROGRAM, "connect"])
        assert main(["install", editor.name, option, "--remove", "--yes"]) == 0
        assert [name for name in sorted(os.listdir(above)) if name != ".gaia"] == [
            name for name in already if name != ".gaia"
        ]


@pytest.mark.parametrize("editor", WITH_FILES, ids=lambda editor: editor.name)
def test_each_way_to_the_bridge_is_another_entry_in_the_same_place(
    editor: Editor, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(editor, golden(editor, "before"))
    others = servers_of(editor, path)
    for options in (["--stdio"], ["--http"], ["--http", "--auth"], ["--unix"], []):
        code = main(["install", editor.name, *options, "--yes"])
        servers = servers_of(editor, path)
        entry = servers.pop("gaia-bridge", None)
        assert servers == others
        if code:
            assert code == 78
            assert "leave out --" in capsys.readouterr().err or editor.name == "claude-desktop"
        elif options:
            assert ("'serve'" in str(entry), ("http" in str(entry) or "unix" in str(entry))) == (
                options == ["--stdio"],
                options != ["--stdio"],
            )
    assert path.read_bytes() == golden(editor, "after")
    assert main(["install", editor.name, "--remove", "--yes"]) == 0
    assert path.read_bytes() == golden(editor, "before")
