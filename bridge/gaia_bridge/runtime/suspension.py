"""Notices that this process, or the whole machine, stood still for a while and goes on."""

from __future__ import annotations

import time

import anyio


def clock() -> float:
    """Seconds on a clock that also goes on while the machine sleeps; that of the event loop does not everywhere."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # Linux, and systems where this one goes on
        if (number := getattr(time, name, None)) is not None:
            return time.clock_gettime(number)
    return time.monotonic()


async def resumed(interval: float) -> None:
    """Return once this process has stood still for some time, and goes on.

    Args:
        interval: Seconds between two looks; standing still for as long again is what counts.
    """
    while True:
        due = clock() + interval
        await anyio.sleep(interval)
        if clock() >= due + interval:
            return
