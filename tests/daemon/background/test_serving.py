"""The log of a bridge that runs for long does not grow for ever."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from gaia_bridge.settings import BackgroundLimits
from gaia_bridge_daemon.background import serving as module
from gaia_bridge_daemon.background.serving import begin_anew, keep_bounded
from tests.support.waiting import PATIENCE


@pytest.fixture
def log(tmp_path: Path) -> Generator[tuple[Path, int]]:
    """A log, and the descriptor where a program writes it."""
    path = tmp_path / "a.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield path, descriptor
    os.close(descriptor)


def test_one_that_is_too_long_is_put_aside_and_the_program_goes_on_in_a_new_one(log: tuple[Path, int]) -> None:
    path, descriptor = log
    for text in (b"first", b"second"):
        os.write(descriptor, text)
        assert begin_anew(str(path), 4, descriptor)
        assert path.with_name("a.log.1").read_bytes() == text
        assert path.read_bytes() == b""
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.get_inheritable(descriptor)


def test_one_that_is_not_too_long_is_left(log: tuple[Path, int]) -> None:
    path, descriptor = log
    os.write(descriptor, b"1234")
    assert not begin_anew(str(path), 4, descriptor)
    assert path.read_bytes() == b"1234"


def test_a_file_that_somebody_else_has_there_is_left(log: tuple[Path, int], tmp_path: Path) -> None:
    path, descriptor = log
    os.write(descriptor, b"12345")
    path.rename(tmp_path / "elsewhere")
    assert not begin_anew(str(path), 4, descriptor)
    path.write_text("another's", encoding="utf-8")
    assert not begin_anew(str(path), 4, descriptor)
    assert path.read_text(encoding="utf-8") == "another's"


@pytest.mark.anyio
async def test_it_is_looked_at_again_and_again(log: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[str, int]] = []
    twice = anyio.Event()

    def look(path: str, longest: int) -> None:
        looks.append((path, longest))
        if len(looks) == 2:
            twice.set()

    monkeypatch.setattr(module, "begin_anew", look)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_bounded, "a.log", BackgroundLimits(log_bytes=7, log_look=0.001))
        with anyio.fail_after(PATIENCE):
            await twice.wait()
        tasks.cancel_scope.cancel()
    assert looks[0] == ("a.log", 7)
