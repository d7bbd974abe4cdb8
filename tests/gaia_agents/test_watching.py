"""Changes are noticed while somebody wants to know, by one thread, and by none afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gaia_agents import watching
from gaia_agents.dashboard import fingerprint
from gaia_agents.watching import Watcher
from gaia_agents.workspace import open_workspace
from tests.support.processes import threads_named
from tests.support.workspaces import git, repository, write_files

SECONDS = 5.0
"""How long anything may take before the test fails."""


@pytest.fixture(autouse=True)
def looking_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this computer is, the watchers of these tests look again at once."""
    monkeypatch.setattr(watching, "SHARE", 1.0)


class Scene:
    """Something to look at, and how often it was looked at."""

    def __init__(self) -> None:
        self.value = 0
        self.looks = threading.Semaphore(0)
        self.changes = threading.Semaphore(0)

    def look(self) -> int:
        self.looks.release()
        return self.value


def test_a_change_is_told_once() -> None:
    scene = Scene()
    watcher = Watcher(scene.look, scene.changes.release, min_seconds=0.001)
    watcher.start()
    assert scene.looks.acquire(timeout=SECONDS)
    assert scene.looks.acquire(timeout=SECONDS)
    scene.value = 1
    assert scene.changes.acquire(timeout=SECONDS)
    for _ in range(3):
        assert scene.looks.acquire(timeout=SECONDS)
    assert not scene.changes.acquire(blocking=False)
    watcher.stop()


def test_the_thread_ends_when_it_is_stopped_and_starts_again() -> None:
    scene = Scene()
    watcher = Watcher(scene.look, scene.changes.release, min_seconds=0.001)
    for _ in range(2):
        before = threading.enumerate()
        watcher.start()
        watcher.start()
        (thread,) = threads_named("gaia-agents-watcher", before)
        assert scene.looks.acquire(timeout=SECONDS)
        watcher.stop()
        watcher.stop()
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_look_that_fails_does_not_end_the_looking_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    failures = threading.Semaphore(0)

    def look() -> int:
        if scene.value == 1:
            failures.release()
            raise OSError("unplugged")
        return scene.look()

    watcher = Watcher(look, scene.changes.release, min_seconds=0.001)
    watcher.start()
    assert scene.looks.acquire(timeout=SECONDS)
    scene.value = 1
    for _ in range(2):
        assert failures.acquire(timeout=SECONDS)
    scene.value = 2
    assert scene.changes.acquire(timeout=SECONDS)
    watcher.stop()
    assert caplog.text.count("cannot tell whether the project changed") == 1


def edit(folder: Path) -> None:
    write_files(folder, {"a.py": "changed, and longer\n"})


def create(folder: Path) -> None:
    write_files(folder, {"sub/new.py": ""})


def delete(folder: Path) -> None:
    (folder / "a.py").unlink()


def commit(folder: Path) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "again")


def stage(folder: Path) -> None:
    git(folder, "rm", "--quiet", "--cached", "a.py")


def switch(folder: Path) -> None:
    git(folder, "symbolic-ref", "HEAD", "refs/heads/another")


def ignore(folder: Path) -> None:
    write_files(folder, {".gitignore": "a.py\n"})


@pytest.mark.parametrize("change", [edit, create, delete, commit, stage, switch, ignore])
def test_what_the_dashboard_shows_changes_the_fingerprint(tmp_path: Path, change: Callable[[Path], None]) -> None:
    repository(tmp_path)
    write_files(tmp_path, {"a.py": "x = 1\n"})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    workspace = open_workspace(tmp_path)
    before = fingerprint(workspace)
    assert fingerprint(workspace) == before
    change(tmp_path)
    assert fingerprint(workspace) != before


def test_what_it_does_not_show_does_not(tmp_path: Path) -> None:
    repository(tmp_path)
    write_files(tmp_path, {".gitignore": "build/\n", "build/a": ""})
    workspace = open_workspace(tmp_path)
    before = fingerprint(workspace)
    write_files(tmp_path, {"build/b": "new", ".git/scratch": "new"})
    assert fingerprint(workspace) == before
