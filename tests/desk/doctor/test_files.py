"""Files of the user's own that others can read, change, or have made."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_desk.doctor.checks import NothingDoneError
from gaia_bridge_desk.doctor.files import FILES
from tests.desk.doctor.looking import bad, by_id, foreign, has_servers, look, repaired, swapped


def secret(name: str, mode: int) -> Path:
    file = Path(".gaia", name).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("secret", encoding="utf-8")
    file.chmod(mode)
    return file


def test_a_home_without_a_folder_of_ours_is_fine_and_none_is_made() -> None:
    assert set(by_id(look(FILES))) == {"file.fine"}
    assert not Path(".gaia").exists()


@pytest.mark.parametrize("name", ["bridge-token", "secrets/token", "oauth/login.json", "backups/x.bak-1"])
def test_a_secret_that_others_can_read_is_found_and_mended(name: str) -> None:
    file = secret(name, 0o644)
    found = look(FILES)
    assert bad(found) == {"file.secret-open"}
    assert str(file) in found[0].message and "secret\n" not in found[0].message
    repaired(found[0])
    assert file.stat().st_mode & 0o777 == 0o600
    assert bad(look(FILES)) == set()


def test_what_became_a_link_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file, other = secret("bridge-token", 0o644), tmp_path / "other"
    other.write_text("x", encoding="utf-8")
    other.chmod(0o644)
    [finding] = look(FILES)
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(NothingDoneError, match="link"):
        repaired(finding)
    assert other.stat().st_mode & 0o777 == 0o644


def test_a_link_that_takes_its_place_while_it_is_mended_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = secret("bridge-token", 0o644), tmp_path / "other"
    other.write_text("x", encoding="utf-8")
    other.chmod(0o644)
    [finding] = look(FILES)
    with swapped(file, other, monkeypatch):
        repaired(finding)
    assert file.is_symlink() and other.stat().st_mode & 0o777 == 0o644


def test_only_the_rights_of_others_are_taken_and_no_right_is_given() -> None:
    file = secret("bridge-token", 0o4404)
    repaired(look(FILES)[0])
    assert stat.S_IMODE(file.stat().st_mode) == 0o4400


def test_a_file_that_we_may_not_read_is_mended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    file, real = secret("bridge-token", 0o244), os.open

    def refused(path: Any, flags: int, *more: Any) -> int:
        if os.fspath(path) == str(file):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, flags, *more)

    [finding] = look(FILES)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        repaired(finding)
    assert stat.S_IMODE(file.stat().st_mode) == 0o200


@pytest.mark.parametrize("name", ["trust.json", "mcp_servers.json"])
def test_what_others_can_change_is_found_and_mended(name: str) -> None:
    file = secret(name, 0o666)
    file.write_text("{}", encoding="utf-8")
    found = by_id(look(FILES))
    assert bad(list(found.values())) == {"file.changeable"}
    repaired(found["file.changeable"])
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_file_of_another_user_is_found_and_left_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(has_servers({}), monkeypatch)
    finding = by_id(look(FILES))["file.not-yours"]
    assert finding.repair is None and finding.remedy.startswith("sudo chown $USER ")


def test_a_folder_that_is_none_is_found() -> None:
    Path(".gaia").write_text("", encoding="utf-8")
    assert bad(look(FILES)) == {"file.unwritable"}


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere/at/all")
    assert "/nowhere/at/all" in by_id(look(FILES))["file.no-home"].message

    def nowhere() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr("gaia_bridge.config.paths.home_folder", nowhere)
    assert bad(look(FILES)) == {"file.no-home"}


@pytest.mark.parametrize(("name", "mode"), [("secrets/token", 0o644), ("mcp_servers.json", 0o666)])
def test_what_a_link_leads_to_is_told_of_and_left_to_the_user(tmp_path: Path, name: str, mode: int) -> None:
    file, other = secret(name, mode), tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)
    other.write_text("{}", encoding="utf-8")
    [finding] = (each for each in look(FILES) if each.kind.is_repairable)
    assert finding.repair is None
