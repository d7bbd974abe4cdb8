"""The values of a manager's documented attributes: a task and an event that may be used on any event loop.

The servers live on the background loop. Who uses a manager has a loop of its own, or several, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any

__all__ = ["ServerTask", "StopEvent"]


class ServerTask(asyncio.Task[None]):
    """A task that may be awaited, cancelled and watched on another event loop than its own."""

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for it. Who waits on another loop and is cancelled leaves it alone."""
        if _running_loop() is self.get_loop():
            return super().__await__()
        return self._from_elsewhere().__await__()

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask it to end."""
        if _running_loop() is self.get_loop():
            return super().cancel(msg)
        if self.done():
            return False
        with suppress(RuntimeError):  # its loop has ended, and it too
            self.get_loop().call_soon_threadsafe(super().cancel, msg)
        return True

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """Have `fn` called when the task is done, on the calling loop; on the task's own if there is none."""
        here = _running_loop()
        if here is self.get_loop() or (here is None and self.done()):
            super().add_done_callback(fn, context=context)
        elif here is None:
            self.get_loop().call_soon_threadsafe(super().add_done_callback, fn)
        else:
            self._tell(here, fn, context)

    def _tell(self, here: asyncio.AbstractEventLoop, fn: Callable[[Any], object], context: Context | None) -> None:
        def tell(task: Any = self) -> None:
            with suppress(RuntimeError):  # nobody is there any more
                here.call_soon_threadsafe(fn, task, context=context)

        try:
            self.get_loop().call_soon_threadsafe(super().add_done_callback, tell)
        except RuntimeError:  # its loop has ended, and it too
            tell()

    async def _from_elsewhere(self) -> None:
        over = asyncio.Event()
        self.add_done_callback(lambda _: over.set())
        await over.wait()
        self.result()


class StopEvent(asyncio.Event):
    """The signal for one server to stop, which may be given anywhere.

    Args:
        on_set: Told of it, where it is given.
    """

    def __init__(self, on_set: Callable[[], object]) -> None:
        super().__init__()
        self._on_set = on_set

    def set(self) -> None:
        """Ask the server to stop."""
        super().set()
        self._on_set()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
