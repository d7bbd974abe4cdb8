"""Event loops and threads: saying that a thread runs one, and waiting on one for what another does."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class _Said(threading.local):
    """What this thread was said to run."""

    times = 0
    """How many have said it and did not take it back."""
    before: str | None = None
    """What `sniffio` had before the first of them."""


_SAID = _Said()


def mark_thread_as_asyncio() -> Callable[[], None]:
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


async def wait_across(future: Future[T], gone: str) -> T:
    """Wait for a coroutine that another event loop runs; cancelling the waiting cancels it.

    Args:
        future: What `asyncio.run_coroutine_threadsafe` returned.
        gone: What to say if the other loop ends first.

    Raises:
        RuntimeError: The other loop ended.
    """
    waited = asyncio.wrap_future(future)
    try:
        await asyncio.wait([waited])  # which tells the end of that loop from a cancellation of this task
    except asyncio.CancelledError:
        if not waited.cancel() and not waited.cancelled():
            waited.exception()  # nobody will ask for it
        raise
    if waited.cancelled():
        raise RuntimeError(gone)
    return waited.result()
