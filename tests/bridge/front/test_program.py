"""The command line of a front: what editors write is read here, and all else by the whole program."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from gaia_bridge.front import launching
from gaia_bridge.front.launching import BridgeDownError
from gaia_bridge.front.program import FrontOptions, Reaching, options_of


def read(text: str) -> tuple[str, str | None, tuple[str, ...], float | None] | None:
    found = options_of(text.split())
    return None if found is None else (found.source, found.config, found.agents, found.keep)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("", None, (), None)),
        ("time", ("time", None, (), None)),
        ("--all", ("", None, (), None)),
        ("--config a.json time", ("time", "a.json", (), None)),
        ("--agent a.py --agent b:B", ("", None, ("a.py", "b:B"), None)),
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


def test_a_python_that_is_gone_meanwhile_is_told_to_the_client(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "command", no_such_program)
    with pytest.raises(BridgeDownError, match="cannot be started: /no/such/python: No such file or directory"):
        Reaching(FrontOptions()).reach(0)


def test_a_folder_that_is_nobodys_own_is_told_to_the_client(runtime: Path) -> None:
    reach = Reaching(FrontOptions()).reach
    (runtime / "gaia-bridge").write_text("in the way", encoding="utf-8")
    with pytest.raises(BridgeDownError, match="cannot be made"):
        reach(0)
    (runtime / "gaia-bridge").unlink()
    (runtime / "gaia-bridge").mkdir(mode=0o777)
    (runtime / "gaia-bridge").chmod(0o777)
    with pytest.raises(BridgeDownError, match="others may write to it"):
        reach(0)


def test_a_folder_that_was_removed_meanwhile_is_made_again(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "command", no_such_program)
    reach = Reaching(FrontOptions()).reach
    for _ in range(2):
        with pytest.raises(BridgeDownError, match="/no/such/python"):
            reach(0)
        log = runtime / "gaia-bridge" / "default.log"
        assert log.exists()
        for path in log.parent.iterdir():
            path.unlink()
        log.parent.rmdir()
