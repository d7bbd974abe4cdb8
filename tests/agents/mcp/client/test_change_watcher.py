"""`ChangeWatcher`: news reach code that may block, seldom enough, and never after it was stopped."""

from __future__ import annotations

import threading

import pytest

from gaia.mcp.client.change_watcher import ChangeWatcher
from tests.support.waiting import PATIENCE, eventually

NAME = "tools of test"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def test_many_changes_at_once_are_told_once_more_and_the_last_is_never_lost() -> None:
    watcher = ChangeWatcher(NAME, 0)
    calls = 0
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def listen() -> None:
        nonlocal calls
        calls += 1
        begun.release()
        assert go_on.acquire(timeout=PATIENCE)

    watcher.watch(listen)
    watcher.changed()
    assert begun.acquire(timeout=PATIENCE)
    for _ in range(1000):
        watcher.changed()
    go_on.release()
    assert begun.acquire(timeout=PATIENCE)
    go_on.release()
    eventually(lambda: not threads())
    assert calls == 2
    watcher.changed()
    assert begun.acquire(timeout=PATIENCE)
    go_on.release()


def test_nothing_is_told_after_a_stop_and_the_thread_ends() -> None:
    watcher = ChangeWatcher(NAME, 60)
    heard = threading.Event()
    watcher.watch(heard.set)
    watcher.changed()
    assert heard.wait(PATIENCE)
    heard.clear()
    watcher.changed()
    watcher.stop()
    eventually(lambda: not threads())
    assert not heard.is_set()


def test_after_a_stop_it_can_begin_again() -> None:
    watcher = ChangeWatcher(NAME, 60)
    heard = threading.Event()
    watcher.watch(heard.set)
    for _ in range(2):
        watcher.changed()
        assert heard.wait(PATIENCE)
        heard.clear()
        watcher.stop()
    eventually(lambda: not threads())


def test_a_listener_that_fails_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    watcher = ChangeWatcher(NAME, 0)
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise LookupError("not there")

    watcher.watch(fail)
    for _ in range(2):
        watcher.changed()
        assert calls.acquire(timeout=PATIENCE)
        eventually(lambda: not threads())
    assert "tools of test: a listener failed" in caplog.text


def test_without_a_listener_there_is_no_thread() -> None:
    ChangeWatcher(NAME, 0).changed()
    assert not threads()
