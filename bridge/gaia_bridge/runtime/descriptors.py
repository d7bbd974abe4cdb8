"""The three descriptors that every process has: nothing else may come to lie on them. Imports nearly nothing."""

from __future__ import annotations

import os
import sys


def reserve_descriptors() -> None:
    """Open what whoever started us left closed of descriptors 0 to 2, on nothing, before anything else is opened.

    A socket, or what an event loop wakes itself with, would lie there otherwise, and be written to as standard error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one: those below are open


def reserve_streams() -> None:
    """Make standard streams where Python made none, because their descriptors were closed: everybody expects some."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))
