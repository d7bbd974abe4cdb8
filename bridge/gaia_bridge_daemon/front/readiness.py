"""Waits until one of a few descriptors can be read or written."""

from __future__ import annotations

import os
import select
import stat
import sys

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Ready = Callable[[Mapping[int, int], float | None], dict[int, int]]
    """Given masks of `poll` by descriptors, and seconds, tells what there is."""


def way_for(*descriptors: int) -> Ready:
    """How to wait for these descriptors, and for sockets: on macOS, `poll` knows no terminals and other devices."""
    if sys.platform == "darwin" and any(stat.S_ISCHR(os.fstat(descriptor).st_mode) for descriptor in descriptors):
        return by_select
    return by_poll


def by_poll(wanted: Mapping[int, int], seconds: float | None) -> dict[int, int]:
    """An error is told of each descriptor, also where nothing is wanted."""
    poll = select.poll()
    for descriptor, mask in wanted.items():
        poll.register(descriptor, mask)
    return dict(poll.poll(None if seconds is None else seconds * 1000))


def by_select(wanted: Mapping[int, int], seconds: float | None) -> dict[int, int]:
    """The end of what can be read is something to be read, and errors are found by who reads or writes."""
    reads = [descriptor for descriptor, mask in wanted.items() if mask & select.POLLIN]
    writes = [descriptor for descriptor, mask in wanted.items() if mask & select.POLLOUT]
    readable, writable, _ = select.select(reads, writes, (), seconds)
    found = dict.fromkeys(readable, select.POLLIN)
    for descriptor in writable:
        found[descriptor] = found.get(descriptor, 0) | select.POLLOUT
    return found
