"""Waiting for what will happen: by an event where there is one."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import anyio
import anyio.to_thread

__all__ = ["PATIENCE", "Changing", "after_collection", "comes_true", "eventually", "until", "wait_in_thread"]

PATIENCE = 20.0
"""Seconds after which a test gives up waiting. Nothing waits that long unless it is broken, on a busy machine too."""


class Changing:
    """Base of what changes while a test waits for it. What changes it calls `_changed` afterwards."""

    def __init__(self) -> None:
        self._change = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; asks after every change."""
        with anyio.fail_after(PATIENCE):
            while not holds():
                await self._change.wait()

    def _changed(self) -> None:
        self._change.set()
        self._change = anyio.Event()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that has no event; asks on the event loop, again and again."""
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.002)


def comes_true(holds: Callable[[], bool]) -> Callable[[float], bool]:
    """For `wait_in_thread`: something that agent threads bring about and that has no event."""

    def wait(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not holds():
            if time.monotonic() > deadline:
                return False
            pause.wait(0.001)
        return True

    return wait


async def wait_in_thread(wait: Callable[[float], bool]) -> None:
    """Wait for something that happens in agent threads, such as `threading.Event.wait`, without stopping the loop."""
    assert await anyio.to_thread.run_sync(wait, PATIENCE, abandon_on_cancel=True), "it did not happen in time"


def after_collection(holds: Callable[[], bool]) -> Callable[[], bool]:
    """For `eventually`: what holds once garbage was collected. A thread may hold a last reference a moment longer."""

    def collected() -> bool:
        gc.collect()
        return holds()

    return collected


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about and that has no event."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.001)
