"""Where the programs of a configuration are started: the user's own in folders of their own."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.config import LayerKind, ServersConfig
from gaia_bridge.config.launching.workplaces import (
    in_own_folder,
    made_folder,
    needs_current_folder,
    own_folder,
    relative_words,
)


def configured(file: Path, entry: dict[str, Any], *, explicit: bool) -> str | None:
    """The folder that the server of a file is started in."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"a": entry}}), encoding="utf-8")
    [spec] = ServersConfig(file if explicit else None).resolve().servers
    folder: str | None = getattr(spec, "cwd", None)
    return folder


def test_a_server_of_the_users_own_file_has_a_folder_of_its_own() -> None:
    assert configured(Path("~/.gaia/mcp_servers.json").expanduser(), {"command": "x"}, explicit=False) == own_folder(
        "a"
    )
    assert own_folder("a") == os.path.expanduser("~/.gaia/servers/a") != own_folder("b")


@pytest.mark.parametrize("cwd", ["", None])
def test_an_empty_folder_is_none(cwd: str | None, tmp_path: Path) -> None:
    assert configured(tmp_path / "f.json", {"command": "x", "cwd": cwd}, explicit=True) == own_folder("a")


def test_a_folder_that_an_entry_names_is_taken(tmp_path: Path) -> None:
    assert configured(tmp_path / "f.json", {"command": "x", "cwd": "~/x"}, explicit=True) == os.path.expanduser("~/x")


def test_a_file_that_was_named_speaks_of_the_folder_that_it_lies_in(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert configured(tmp_path / "work" / "f.json", {"command": "x"}, explicit=True) is None
    assert configured(tmp_path / "f.json", {"command": "x"}, explicit=True) == own_folder("a")
    assert configured(tmp_path / "work" / "mcp_servers.json", {"command": "x"}, explicit=False) is None
    assert ServersConfig().layers[-1].kind is LayerKind.LOCAL


@pytest.mark.parametrize("name", ["../../x", "a/b", "日本", "a b", "."])
def test_no_name_of_a_server_leads_elsewhere(name: str) -> None:
    assert Path(own_folder(name)).parent == Path("~/.gaia/servers").expanduser()


def test_a_folder_of_its_own_is_private_and_keeps_what_is_in_it() -> None:
    folder = Path(own_folder("a"))
    for _ in range(2):
        assert made_folder(str(folder)) == str(folder)
        (folder / "kept").touch()
    for each in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert (folder / "kept").exists()


def test_no_other_folder_is_made(tmp_path: Path) -> None:
    assert made_folder(str(tmp_path / "typo")) == str(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


def test_who_can_make_no_folder_has_servers_started_where_nobody_writes(caplog: pytest.LogCaptureFixture) -> None:
    Path("~/.gaia").expanduser().write_text("", encoding="utf-8")
    assert made_folder(own_folder("a")) == "/"
    assert "cannot be made" in caplog.text


def test_who_has_no_home_has_servers_started_where_nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_bridge.config.paths.home_folder", nobody)
    assert in_own_folder("a", {"command": "x"}) == {"command": "x", "cwd": "/"}


def nobody() -> Path:
    raise RuntimeError


@pytest.mark.parametrize(
    ("cwd", "needs"),
    [(".", True), ("sub", True), ("${PWD}", True), ("${env:PWD}/x", True), ("~/x", False), ("/x", False)],
)
def test_a_relative_folder_asks_for_the_current_one(cwd: str, needs: bool) -> None:
    assert needs_current_folder({"command": "x", "cwd": cwd}) == needs


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["npx", "-y", "@scope/server", "."], ["."]),
        (["python", "server.py"], ["server.py"]),
        (["node", "dist/index.js", "--root=../x"], ["dist/index.js", "../x"]),
        (["bin/server"], ["bin/server"]),
        (["uvx", "mcp-server-time", "--local-timezone", "Europe/Berlin"], []),
        (["npx", "-y", "mcp-remote", "https://example.com/a.js"], []),
        (["python", "-m", "pkg.server", "/srv/x.py", "~/y.py", "${HOME}/z.py"], []),
    ],
)
def test_words_that_begin_in_the_folder_of_the_start_are_told_from_others(words: list[str], found: list[str]) -> None:
    assert list(relative_words({"command": words[0], "args": words[1:]})) == found
