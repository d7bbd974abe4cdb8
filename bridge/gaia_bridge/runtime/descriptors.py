"""Keeps descriptors 0 to 2, of the standard streams, from being used for anything else. Imports nearly nothing."""

from __future__ import annotations

import os


def reserve_descriptors() -> None:
    """Open those of descriptors 0 to 2 that the parent process left closed on `os.devnull`, before any other file.

    Otherwise a socket, or an event loop's wakeup pipe, could get such a number, and be written to as standard error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one: those below are open
