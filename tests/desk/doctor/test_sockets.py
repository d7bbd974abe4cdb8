"""The folder of the sockets, and what lies in it: real sockets that nobody listens at, of others, open to others."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from gaia_bridge_desk.doctor import sockets
from gaia_bridge_desk.doctor.checks import NothingDoneError
from gaia_bridge_desk.doctor.sockets import SOCKETS
from tests.desk.doctor.looking import bad, by_id, foreign, look, repaired, swapped


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Where the sockets are; its path is short, as they need it."""
    with tempfile.TemporaryDirectory(prefix="gb") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        made = Path(place, "gaia-bridge")
        made.mkdir(mode=0o700)
        yield made


def listener(path: Path, mode: int = 0o600) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    path.chmod(mode)
    return made


def test_a_folder_that_is_not_there_is_fine_and_not_made(folder: Path) -> None:
    folder.rmdir()
    assert set(by_id(look(SOCKETS))) == {"socket.fine"}
    assert not folder.exists()


def test_a_socket_with_its_bridge_is_fine(folder: Path) -> None:
    with listener(folder / "default.front.sock"):
        assert set(by_id(look(SOCKETS))) == {"socket.fine"}


@pytest.mark.parametrize("name", ["default.front.sock", "default.sock"])
def test_a_socket_that_nobody_listens_at_is_found_and_removed(folder: Path, name: str) -> None:
    listener(folder / name).close()
    finding = by_id(look(SOCKETS))["socket.stale"]
    assert finding.about == str(folder / name)
    repaired(finding)
    assert not (folder / name).exists()
    assert bad(look(SOCKETS)) == set()


def test_a_socket_that_somebody_listens_at_by_now_is_left(folder: Path) -> None:
    path = folder / "default.sock"
    listener(path).close()
    finding = by_id(look(SOCKETS))["socket.stale"]
    path.unlink()
    with listener(path), pytest.raises(NothingDoneError, match="somebody listens"):
        repaired(finding)
    assert path.exists()


def test_nothing_is_removed_while_a_bridge_is_being_started_there(folder: Path) -> None:
    path = folder / "default.sock"
    listener(path).close()
    finding = by_id(look(SOCKETS))["socket.stale"]
    with (folder / "default.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NothingDoneError, match="being started"):
            repaired(finding)
    assert path.exists()


def test_a_socket_that_is_open_to_others_is_found_and_closed_to_them(folder: Path) -> None:
    path = folder / "default.sock"
    with listener(path, 0o666):
        repaired(by_id(look(SOCKETS))["socket.mode"])
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_that_takes_the_place_of_a_socket_while_it_is_closed_to_others_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = folder / "default.sock", folder / "other"
    other.touch(0o644)
    with listener(path, 0o666):
        finding = by_id(look(SOCKETS))["socket.mode"]
        with swapped(path, other, monkeypatch), pytest.raises(NothingDoneError, match="without following links"):
            repaired(finding)
    assert path.is_symlink() and other.stat().st_mode & 0o777 == 0o644


def test_a_socket_of_another_user_and_what_is_no_socket_are_left_to_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "other.sock").write_text("", encoding="utf-8")
    finding = by_id(look(SOCKETS))["socket.no-socket"]
    assert finding.repair is None
    with listener(folder / "default.sock"):
        foreign(folder / "default.sock", monkeypatch)
        monkeypatch.setattr(sockets, "is_private", os.path.isdir)
        assert by_id(look(SOCKETS))["socket.owner"].repair is None


def test_a_folder_that_others_can_open_is_found_and_closed_to_them(folder: Path) -> None:
    folder.chmod(0o2755)
    repaired(by_id(look(SOCKETS))["socket.folder-open"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2700, "the other bits are none of ours"
    assert bad(look(SOCKETS)) == set()


def test_a_folder_that_is_none_or_of_another_user_is_left_to_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.rmdir()
    folder.write_text("", encoding="utf-8")
    assert by_id(look(SOCKETS))["socket.folder-odd"].repair is None


def test_a_folder_that_cannot_be_made_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="gb") as home:
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
        Path(home, ".gaia").write_text("", encoding="utf-8")
        assert bad(look(SOCKETS)) == {"socket.unwritable"}


def test_a_home_whose_path_is_too_long_for_sockets_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / ("x" * 90)))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    found = by_id(look(SOCKETS))
    assert "socket.path-long" in found and bad(list(found.values())) == set()


def test_an_old_log_of_a_bridge_that_is_gone_is_removed_and_a_new_one_is_kept(folder: Path) -> None:
    for name in ("old-1.log", "old-1.log.1", "old-1.lock", "new-2.log", "alive.log"):
        (folder / name).write_text("", encoding="utf-8")
        if name.startswith(("old", "alive")):
            os.utime(folder / name, (0, 0))
    with listener(folder / "alive.front.sock"):
        found = [finding for finding in look(SOCKETS) if finding.kind.id == "socket.leftover"]
        [finding] = found
        assert finding.remedy == f"rm {folder}/old-1.log {folder}/old-1.log.1 {folder}/old-1.lock"
        repaired(finding)
        assert sorted(path.name for path in folder.iterdir()) == ["alive.front.sock", "alive.log", "new-2.log"]


@pytest.mark.parametrize(("mode", "remedy"), [(0o500, "chmod u+rwx "), (0o700, "make it writable, or have XDG_RUN")])
def test_a_folder_that_cannot_be_written_has_a_remedy_that_helps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: int, remedy: str
) -> None:
    def access(path: str, mode: int) -> bool:
        return False

    folder.chmod(mode)
    monkeypatch.setattr(os, "access", access)
    assert by_id(look(SOCKETS))["socket.unwritable"].remedy.startswith(remedy)


def test_what_a_bridge_has_left_anew_meanwhile_is_kept(folder: Path) -> None:
    log = folder / "old-1.log"
    log.touch()
    os.utime(log, (0, 0))
    finding = by_id(look(SOCKETS))["socket.leftover"]
    log.write_text("it failed again", encoding="utf-8")
    with pytest.raises(NothingDoneError, match="in use again"):
        repaired(finding)
    assert log.exists()


def test_a_log_that_goes_while_it_is_looked_at_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(_: str) -> list[str]:
        return ["gone-1.log"]

    monkeypatch.setattr(os, "listdir", listed)
    assert set(by_id(look(SOCKETS))) == {"socket.fine"}


def test_what_was_locked_for_a_repair_leaves_no_lock(folder: Path) -> None:
    listener(folder / "default.sock").close()
    repaired(by_id(look(SOCKETS))["socket.stale"])
    assert list(folder.iterdir()) == []


def test_nothing_is_removed_where_another_lock_took_the_place_of_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, real = folder / "default.sock", folder / "default.lock", fcntl.flock
    listener(path).close()
    lock.touch()
    finding = by_id(look(SOCKETS))["socket.stale"]

    def meanwhile(descriptor: int, how: int) -> None:
        lock.rename(folder / "old.lock")  # its bridge has ended, and the next one is being started
        lock.touch()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    with pytest.raises(NothingDoneError, match="being started"):
        repaired(finding)
    assert path.exists()
