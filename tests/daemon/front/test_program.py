"""The command line of a front: what editors write is read here, and all else by the whole program."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_daemon.front import launching
from gaia_bridge_daemon.front.launching import BridgeDownError
from gaia_bridge_daemon.front.place import runtime_folder
from gaia_bridge_daemon.front.program import BridgeConnector, FrontOptions, options_of


def read(text: str) -> tuple[str, str | None, tuple[str, ...], float | None] | None:
    found = options_of(text.split())
    return None if found is None else (found.source, found.config, found.agents, found.keep)


def test_the_servers_of_the_configuration_can_be_left_out() -> None:
    found = options_of(["--no-servers", "a.py"])
    assert found is not None
    assert (found.servers, found.agents) == (False, ("a.py",))
    assert options_of(["--no-servers", "--config", "a.json"]) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("", None, (), None)),
        ("time", ("time", None, (), None)),
        ("--all", ("", None, (), None)),
        ("--config a.json time", ("time", "a.json", (), None)),
        ("--agent a.py --agent b:B", ("", None, ("a.py", "b:B"), None)),
        ("a.py:A b:B ..", ("", None, ("a.py:A", "b:B", ".."), None)),
        ("a.py time", ("time", None, ("a.py",), None)),
        ("no/folder", ("no/folder", None, (), None)),
        ("--keep 5", ("", None, (), 5.0)),
        ("--keep 0.5 time --config c", ("time", "c", (), 0.5)),
    ],
)
def test_what_editors_write_is_understood(text: str, found: object) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "--help",
        "-h",
        "a b",
        "--config",
        "--config --all",
        "--config=a.json",
        "--keep",
        "--keep -1",
        "--keep nan",
        "--keep 1e3",
        "--keep 1.2.3",
        "--keep \N{SUPERSCRIPT TWO}",
        "--nonsense",
    ],
)
def test_whatever_else_is_written_is_left_to_the_whole_program(text: str) -> None:
    assert read(text) is None


def test_all_and_one_is_left_to_the_whole_program_which_refuses_it() -> None:
    assert read("--all time") is None
    assert read("time --all") is None


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A runtime folder of the user."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def no_such_program(*_: object) -> list[str]:
    return ["/no/such/python"]


def ends_at_once(*_: object) -> list[str]:
    return ["/bin/sh", "-c", "exit 1"]


def test_a_python_that_is_gone_meanwhile_is_told_to_the_client(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "command", no_such_program)
    with pytest.raises(BridgeDownError, match="cannot be started: /no/such/python: No such file or directory"):
        BridgeConnector(FrontOptions()).connect(0)


def test_a_folder_that_is_nobodys_own_is_told_to_the_client(runtime: Path) -> None:
    connect = BridgeConnector(FrontOptions()).connect
    (runtime / "gaia-bridge").write_text("in the way", encoding="utf-8")
    with pytest.raises(BridgeDownError, match="cannot be made"):
        connect(0)
    (runtime / "gaia-bridge").unlink()
    (runtime / "gaia-bridge").mkdir(mode=0o777)
    (runtime / "gaia-bridge").chmod(0o777)
    with pytest.raises(BridgeDownError, match="others may write to it"):
        connect(0)


def test_a_folder_that_was_removed_meanwhile_is_made_again(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "command", no_such_program)
    connect = BridgeConnector(FrontOptions()).connect
    for _ in range(2):
        with pytest.raises(BridgeDownError, match="/no/such/python"):
            connect(0)
        log = runtime / "gaia-bridge" / "default.log"
        assert log.exists()
        for path in log.parent.iterdir():
            path.unlink()
        log.parent.rmdir()


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EROFS, "can only be read"),
        (errno.ENOSPC, "make room"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EACCES, "the right to write"),
        (errno.ENOTDIR, "remove the file"),
    ],
)
def test_what_the_system_refuses_is_told_with_a_remedy(
    number: int, told: str, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), "/there/default.lock")

    monkeypatch.setattr("gaia_bridge_daemon.front.launching._open_lock", refused)
    with pytest.raises(BridgeDownError, match=f"/there/default.lock: {os.strerror(number)}; .*{told}"):
        BridgeConnector(FrontOptions()).connect(0)


def test_a_folder_of_another_user_is_not_to_be_changed(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(runtime_folder())
    folder.chmod(0o700)
    real = os.lstat

    def foreign(path: Any, **options: Any) -> os.stat_result:
        about = real(path, **options)
        return os.stat_result((*about[:4], 1234, *about[5:])) if os.fspath(path) == str(folder) else about

    monkeypatch.setattr(os, "lstat", foreign)
    with pytest.raises(BridgeDownError, match="belongs to user 1234; .*XDG_RUNTIME_DIR") as told:
        BridgeConnector(FrontOptions()).connect(0)
    assert "chmod 700 it" not in str(told.value)


def test_a_bridge_that_ends_as_too_few_files_may_be_open_is_told_with_a_remedy(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "command", ends_at_once)
    monkeypatch.setattr(os, "sysconf", {"SC_OPEN_MAX": 12}.__getitem__)
    with pytest.raises(BridgeDownError, match="only 12 open files are allowed, allow more: ulimit -n"):
        BridgeConnector(FrontOptions()).connect(0)
