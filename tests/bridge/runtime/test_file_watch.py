"""Files are looked at by a thread: a disk that does not answer holds up nobody else."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gaia_bridge.runtime.file_watch import FileWatch
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Generator[threading.Event]:
    """A disk that answers only once this is set."""
    answers, stat = threading.Event(), os.stat

    def stat_when_it_answers(*arguments: Any, **options: Any) -> os.stat_result:
        assert threading.current_thread() is not threading.main_thread(), "the event loop waits for a disk"
        answers.wait(PATIENCE)
        return stat(*arguments, **options)

    monkeypatch.setattr("gaia_bridge.runtime.file_watch.os.stat", stat_when_it_answers)
    yield answers
    answers.set()


@pytest.mark.parametrize("live", [False, True])
async def test_a_disk_that_does_not_answer_holds_nobody_up(tmp_path: Path, disk: threading.Event, live: bool) -> None:
    file = tmp_path / "servers.json"
    disk.set()
    watch = await anyio.to_thread.run_sync(lambda: FileWatch(lambda: [file], 0.001, live=live))
    disk.clear()
    saved = anyio.Event()

    async def wait() -> None:
        await watch.until_saved()
        saved.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            file.write_text("{}", "utf-8")
            for _ in range(1_000):
                await anyio.lowlevel.checkpoint()
            assert not saved.is_set()
            disk.set()
            await saved.wait()


async def test_nobody_waits_for_a_disk_at_the_end(tmp_path: Path, disk: threading.Event) -> None:
    disk.set()
    watch = await anyio.to_thread.run_sync(lambda: FileWatch(lambda: [tmp_path / "a"], 0.001))
    disk.clear()
    with anyio.move_on_after(0.01) as scope:
        await watch.until_saved()
    assert scope.cancelled_caught


async def test_a_folder_that_cannot_be_read_for_a_moment_does_not_end_the_watch(tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    looks: list[bool] = []

    def name_files() -> list[Path]:
        looks.append(True)
        if len(looks) == 2:
            file.write_text("saved", "utf-8")
            raise PermissionError
        return [file]

    watch = await anyio.to_thread.run_sync(lambda: FileWatch(name_files, 0.001, live=True))
    with anyio.fail_after(PATIENCE):
        await watch.until_saved()
