"""Which event loop a thread runs, for those libraries that have to guess it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

__all__ = ["say_asyncio"]


def say_asyncio() -> Callable[[], None]:
    """Say that this thread runs asyncio; to be called on the running loop.

    anyio asks `sniffio`, where that is installed, as it is with httpx and openai. It looks for the current task, and so
    finds no event loop at all in the callbacks of a transport, where there is none; without `sniffio`, anyio does.

    Returns:
        Takes it back. Not needed where the thread ends with its loop.
    """
    if importlib.util.find_spec("sniffio") is None:
        return lambda: None
    thread: Any = importlib.import_module("sniffio").thread_local
    before, thread.name = thread.name, "asyncio"

    def take_back() -> None:
        thread.name = before

    return take_back
