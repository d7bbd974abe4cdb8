"""Event loops and threads: marking a thread that runs a loop, and waiting on one loop for a coroutine of another."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from gaia_bridge.errors import LoopEndedError

T = TypeVar("T")


class _Marks(threading.local):
    """The marks of this thread, and the state of `sniffio` before them."""

    count = 0
    """Those that were not taken back."""
    before: str | None = None
    """The value that `sniffio` had before the first mark."""


_MARKS = _Marks()


def mark_thread_as_asyncio() -> Callable[[], None]:
    """Mark this thread as one that runs asyncio; to be called on the running loop.

    anyio asks `sniffio` for the event loop, where that is installed, as it is with httpx and openai. `sniffio` looks
    for the current task, and so finds no loop in callbacks of transports, which have none; anyio alone finds it.

    Returns:
        A function that takes the mark back, on the same thread; the last of several restores the value before, in
        whatever order they end. Not needed where the thread ends with its loop.
    """
    if importlib.util.find_spec("sniffio") is None:
        return lambda: None
    thread: Any = importlib.import_module("sniffio").thread_local
    if not _MARKS.count:
        _MARKS.before = thread.name
    _MARKS.count += 1
    thread.name = "asyncio"

    def take_back() -> None:
        _MARKS.count -= 1
        if not _MARKS.count:
            thread.name = _MARKS.before

    return take_back


async def wait_across(future: Future[T], gone: str) -> T:
    """Wait for a coroutine that another event loop runs; cancelling the waiting cancels it.

    Args:
        future: The result of `asyncio.run_coroutine_threadsafe`.
        gone: The message of the error if the other loop ends first.

    Raises:
        LoopEndedError: The other loop ended.
    """
    waited = asyncio.wrap_future(future)
    try:
        await asyncio.wait([waited])  # to distinguish the end of that loop from a cancellation of this task
    except asyncio.CancelledError:
        if not waited.cancel() and not waited.cancelled():
            waited.exception()  # retrieved, or asyncio would log that nobody did
        raise
    if waited.cancelled():
        raise LoopEndedError(gone)
    return waited.result()
