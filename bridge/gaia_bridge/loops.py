"""Which event loop a thread runs, for those libraries that have to guess it."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["say_asyncio"]


class _Said(threading.local):
    """What this thread was said to run."""

    times = 0
    """How many have said it and did not take it back."""
    before: str | None = None
    """What `sniffio` had before the first of them."""


_SAID = _Said()


def say_asyncio() -> Callable[[], None]:
    """Say that this thread runs asyncio; to be called on the running loop.

    anyio asks `sniffio`, where that is installed, as it is with httpx and openai. It looks for the current task, and so
    finds no event loop at all in the callbacks of a transport, where there is none; without `sniffio`, anyio does.

    Returns:
        Takes it back, on the same thread; the last of several that said it restores what was there before, in
        whatever order they end. Not needed where the thread ends with its loop.
    """
    if importlib.util.find_spec("sniffio") is None:
        return lambda: None
    thread: Any = importlib.import_module("sniffio").thread_local
    if not _SAID.times:
        _SAID.before = thread.name
    _SAID.times += 1
    thread.name = "asyncio"

    def take_back() -> None:
        _SAID.times -= 1
        if not _SAID.times:
            thread.name = _SAID.before

    return take_back
