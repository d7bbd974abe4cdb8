from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge.server.http.token import load_or_create_token

GOOD = "vZ0q4Yt2cMZ1m3uXQ7aB9sLk5nWd8eRf"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "token"


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write(path: Path, content: str, permissions: int = 0o600) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(permissions)


def test_the_first_call_makes_a_token_and_the_next_returns_it(file: Path) -> None:
    token, place = load_or_create_token(file)
    assert place == file
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token), "32 bytes in the URL-safe alphabet"
    assert load_or_create_token(file) == (token, file)


def test_the_default_is_a_file_in_the_home_of_the_moment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token, place = load_or_create_token()
    assert place == tmp_path / ".gaia" / "bridge-token"
    assert place.read_text(encoding="ascii") == token + "\n"


def test_without_a_home_it_is_said_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(no_home))
    with pytest.raises(ConfigError, match="set HOME"):
        load_or_create_token()


def test_two_files_hold_two_tokens(tmp_path: Path) -> None:
    assert load_or_create_token(tmp_path / "a")[0] != load_or_create_token(tmp_path / "b")[0]


@pytest.mark.usefixtures("no_umask")
def test_the_file_and_its_new_folders_are_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "token"
    load_or_create_token(file)
    assert (mode(file), mode(file.parent), mode(file.parent.parent)) == (0o600, 0o700, 0o700)


def test_nothing_else_is_left_in_the_folder(file: Path) -> None:
    load_or_create_token(file)
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_that_was_there_keeps_its_mode(file: Path) -> None:
    file.parent.mkdir(mode=0o755)
    file.parent.chmod(0o755)
    load_or_create_token(file)
    assert mode(file.parent) == 0o755


@pytest.mark.parametrize("attempt", range(10))
def test_bridges_that_start_together_end_with_the_same_token(file: Path, attempt: int) -> None:
    count = 8
    barrier = threading.Barrier(count)

    def start() -> str:
        barrier.wait(timeout=5)
        return load_or_create_token(file)[0]

    with ThreadPoolExecutor(count) as pool:
        tokens = {future.result(timeout=5) for future in [pool.submit(start) for _ in range(count)]}
    assert tokens == {load_or_create_token(file)[0]}
    assert list(file.parent.iterdir()) == [file]


def test_a_process_that_loses_the_race_takes_the_winners_token(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one moment that matters, forced: the other process is done between our look and our write."""
    link = os.link

    def be_late(source: str, target: Path) -> None:
        write(file, GOOD)
        link(source, target)

    monkeypatch.setattr(os, "link", be_late)
    assert load_or_create_token(file) == (GOOD, file)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("content", [GOOD, f"{GOOD}\n", f"  {GOOD}\r\n", GOOD + "-._~+/=="])
def test_a_token_that_somebody_wrote_is_used(file: Path, content: str) -> None:
    write(file, content)
    assert load_or_create_token(file)[0] == content.strip()


@pytest.mark.parametrize("permissions", [0o644, 0o640, 0o620, 0o604, 0o602, 0o601, 0o666])
def test_a_file_that_is_open_to_others_is_refused(file: Path, permissions: int) -> None:
    write(file, GOOD, permissions)
    with pytest.raises(ConfigError, match=f"mode {permissions:04o}, expected 0600.*remove the file") as refused:
        load_or_create_token(file)
    assert GOOD not in str(refused.value)


@pytest.mark.parametrize(
    "content", ["", "\n", "short", GOOD[:31], f"{GOOD} {GOOD}", f"{GOOD}\n{GOOD}", "ü" * 40, "\x00" * 40]
)
def test_a_file_without_a_usable_token_is_refused_and_kept(file: Path, content: str) -> None:
    write(file, content)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="holds no token.*remove it"):
        load_or_create_token(file)
    assert file.read_bytes() == before


def test_a_file_that_is_not_text_is_refused(file: Path) -> None:
    write(file, "")
    file.write_bytes(b"\xff\xfe" * 40)
    with pytest.raises(ConfigError, match="holds no token"):
        load_or_create_token(file)


@pytest.mark.parametrize("target_exists", [True, False])
def test_a_symbolic_link_is_refused_and_not_followed(file: Path, tmp_path: Path, target_exists: bool) -> None:
    target = tmp_path / "target"
    if target_exists:
        write(target, GOOD)
    file.parent.mkdir(mode=0o700)
    file.symlink_to(target)
    with pytest.raises(ConfigError, match="symbolic link"):
        load_or_create_token(file)
    assert target.exists() == target_exists


def test_a_file_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, GOOD)
    somebody_else = file.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody_else)
    with pytest.raises(ConfigError, match="belongs to user"):
        load_or_create_token(file)


def test_a_folder_in_its_place_is_refused(file: Path) -> None:
    file.mkdir(parents=True, mode=0o700)
    with pytest.raises(ConfigError, match="not a regular file"):
        load_or_create_token(file)


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(file: Path) -> None:
    file.parent.mkdir(mode=0o700)
    os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        load_or_create_token(file)


@pytest.mark.parametrize("permissions", [0o770, 0o777, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(file: Path, permissions: int) -> None:
    file.parent.mkdir()
    file.parent.chmod(permissions)
    with pytest.raises(ConfigError, match=f"mode {permissions:04o}.*chmod 700"):
        load_or_create_token(file)
    assert list(file.parent.iterdir()) == []


def test_a_path_below_a_file_is_refused_with_one_line(tmp_path: Path) -> None:
    blocker = tmp_path / "blocker"
    blocker.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be used as the token file: Not a directory"):
        load_or_create_token(blocker / "token")


def test_a_disk_that_fails_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="No space left"):
        load_or_create_token(file)
    assert list(file.parent.iterdir()) == []
