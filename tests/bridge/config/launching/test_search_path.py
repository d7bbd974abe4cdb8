"""What a terminal finds is found by a bridge that the desktop starts, and what it finds itself comes first."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gaia_bridge.config.launching import search_path as module
from gaia_bridge.config.launching.search_path import REMEMBERED, search_path, usual_folders
from gaia_bridge_cli.remembered_path import remember_search_path


@pytest.fixture(autouse=True)
def no_usual_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine are none."""
    monkeypatch.setattr(module, "_USUAL", ("~/.local/bin", "~/.cargo/bin"))


def path(*folders: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(folders)}


def test_a_short_path_is_as_it_was_in_the_terminal_that_had_all_of_it() -> None:
    remember_search_path(path("/home/me/node/bin", "/usr/bin", "/bin"))
    assert search_path(path("/usr/bin", "/bin")) == "/home/me/node/bin:/usr/bin:/bin"
    assert search_path({}) == "/home/me/node/bin:/usr/bin:/bin"


def test_a_path_with_folders_of_its_own_comes_first() -> None:
    remember_search_path(path("/home/me/node/bin", "/usr/bin"))
    assert search_path(path("/opt/new/bin", "/usr/bin")) == "/opt/new/bin:/usr/bin:/home/me/node/bin"


def test_what_depends_on_the_folder_or_is_active_for_now_is_not_remembered() -> None:
    environ = path("/home/me/project/.venv/bin", ".", "", "bin", "/usr/bin") | {"VIRTUAL_ENV": "/home/me/project/.venv"}
    remember_search_path(environ)
    assert search_path({}) == "/usr/bin"
    assert search_path(path("own", "/usr/bin")) == "own:/usr/bin"


def test_a_shorter_path_does_not_replace_what_is_remembered() -> None:
    assert remember_search_path(path("/a", "/b"))
    assert not remember_search_path(path("/a"))
    assert not remember_search_path(path("/a", "/b"))
    assert search_path({}) == "/a:/b"
    assert remember_search_path(path("/c", "/a"))
    assert search_path({}) == "/c:/a"


def test_what_is_remembered_is_its_owners_alone_and_what_cannot_be_read_is_nothing() -> None:
    remember_search_path(path("/a"))
    file = Path(REMEMBERED).expanduser()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    assert search_path(path("/usr/bin")) == "/usr/bin"


def test_where_installers_put_programs_comes_last_if_it_is_there() -> None:
    home = Path.home()
    for folder in (".local/bin", *(f".nvm/versions/node/v{version}/bin" for version in ("9.0.0", "22.1.0", "22.10.0"))):
        (home / folder).mkdir(parents=True)
    found = [os.path.relpath(folder, home) for folder in usual_folders()]
    versions = [f".nvm/versions/node/v{version}/bin" for version in ("22.10.0", "22.1.0", "9.0.0")]
    assert found == [".local/bin", *versions]
    assert search_path(path("/usr/bin")) == os.pathsep.join(["/usr/bin", *usual_folders()])
