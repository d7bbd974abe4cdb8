"""Gives memory that is free in this process back to the system."""

from __future__ import annotations


def return_free_memory() -> None:
    """Return what the allocator keeps for later. Takes milliseconds: call it in a thread, and seldom.

    After many large blocks, glibc keeps blocks of that size on its heap, where one that is in use keeps all below it
    (`mallopt(3)`, M_MMAP_THRESHOLD). Does nothing with other C libraries.
    """
    import ctypes  # takes long to load, and most processes never need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
