"""Where the home folder is, also for those whose environment does not say so."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaia_bridge.config.paths import default_servers_path, default_trust_path, home_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge.server.http.token import load_or_create_token
from gaia_bridge.sources.upstream.listing.feature_cache import default_cache_folder

_PLACES: list[Callable[[], Path | None]] = [home_folder, default_servers_path, default_trust_path, default_cache_folder]


def with_home(home: Path | str) -> Callable[[int], pwd.struct_passwd]:
    """A password database in which everybody has this home folder."""
    entry = pwd.struct_passwd(("somebody", "x", 1, 1, "", str(home), "/bin/sh"))

    def getpwuid(uid: int) -> pwd.struct_passwd:
        return entry

    return getpwuid


@pytest.mark.requirement("F-227")
@pytest.mark.parametrize("place", _PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("home", ["", None])
def test_without_a_word_in_the_environment_it_is_that_of_the_password_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Callable[[], Path | None], home: str | None
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", with_home(tmp_path))
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    found = place()
    assert found is not None
    assert found.is_relative_to(tmp_path)


@pytest.mark.requirement("F-227")
def test_where_there_is_none_at_all_it_is_said_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", with_home(""))
    monkeypatch.setenv("HOME", "")
    for place in (default_servers_path, load_or_create_token):
        with pytest.raises(ConfigError, match="set HOME"):
            place()
    assert default_cache_folder() is None


@pytest.mark.requirement("F-227")
def test_the_program_and_its_children_do_not_take_an_empty_home_for_the_root_folder() -> None:
    code = "import os, gaia_bridge_cli as cli; cli.main(['agents', '-h']); print(os.path.expanduser('~/.gaia'))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": ""},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == f"{pwd.getpwuid(os.getuid()).pw_dir}/.gaia"
