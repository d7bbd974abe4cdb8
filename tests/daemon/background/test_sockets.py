"""What a bridge leaves is removed when nobody needs it, and never what another one needs."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from gaia_bridge_daemon.background import sockets
from gaia_bridge_daemon.background.sockets import places_left, remove_left, remove_old
from gaia_bridge_daemon.front.launching import BridgeDownError, alone
from gaia_bridge_daemon.front.place import Place


@pytest.fixture
def place() -> Generator[Place]:
    """Where a bridge was killed."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        made = Place(folder, "default")
        for path in files(made):
            Path(path).touch()
        yield made


def files(place: Place) -> list[str]:
    return [place.front, place.http, place.lock, place.log, f"{place.log}.1"]


def folder_of(place: Place) -> str:
    return os.path.dirname(place.front)


def test_all_of_it_is_removed_once(place: Place) -> None:
    assert remove_left(place)
    assert os.listdir(folder_of(place)) == []
    assert not remove_left(place)
    assert os.listdir(folder_of(place)) == []


def test_of_a_bridge_that_runs_nothing_is_removed(place: Place) -> None:
    os.unlink(place.front)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.front)
        listener.listen()
        assert not remove_left(place)
        remove_old(folder_of(place), -1)
    assert all(map(os.path.exists, files(place)))


def test_of_a_bridge_that_is_being_started_nothing_is_removed(place: Place) -> None:
    with alone(place, time.monotonic()):
        assert not remove_left(place)
    assert all(map(os.path.exists, files(place)))


def test_who_waited_for_a_lock_that_was_removed_shares_the_new_one(place: Place) -> None:
    """Else two would start a bridge at once, each with a lock of its own."""
    with alone(place, time.monotonic()):
        os.unlink(place.lock)
        with alone(place, time.monotonic() + 1), pytest.raises(BridgeDownError), alone(place, time.monotonic()):
            pytest.fail("two have the lock")


def test_who_opened_a_lock_just_before_it_was_removed_takes_the_next_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def removed_at_once(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        monkeypatch.undo()
        os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", removed_at_once)
    with alone(place, time.monotonic() + 1) as lock:
        assert os.path.samestat(os.fstat(lock), os.stat(place.lock))


def test_what_was_left_long_ago_is_removed_by_the_next_one(place: Place) -> None:
    fresh = Place(folder_of(place), "other")
    Path(fresh.log).touch()
    (Path(folder_of(place)) / "notes.txt").touch()
    assert [each.name for each in places_left(folder_of(place))] == ["default", "other"]
    for path in files(place):
        os.utime(path, (1, 1))
    remove_old(folder_of(place), 3600)
    assert sorted(os.listdir(folder_of(place))) == ["notes.txt", "other.log"]


def test_what_another_bridge_removes_meanwhile_does_not_stop_a_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(folder: str) -> list[Place]:
        places = places_left(folder)
        assert remove_left(place)
        return places

    monkeypatch.setattr(sockets, "places_left", found)
    remove_old(folder_of(place), -1)
    assert os.listdir(folder_of(place)) == []
