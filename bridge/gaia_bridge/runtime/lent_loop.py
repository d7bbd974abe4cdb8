"""An event loop that is lent to other threads for as long as something lives on it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from gaia_bridge.runtime.background_loop import Lease

T = TypeVar("T")


class LentLoop:
    """The running event loop, for code in other threads. Implements `background_loop.RunsTasks`.

    Unlike the background loop, it does not live as long as its leases: whoever lends it closes this, and what was to be
    waited for is cancelled then. Nobody waits for a loop that has ended. Made and closed on the loop.
    """

    gone = "the bridge whose server this was has ended; connect again"

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._lock = threading.RLock()  # a connection may be forgotten while something is started
        self._waited_for: set[Future[Any]] = set()
        self._is_open = True

    def lease(self) -> Lease:
        """The right to run coroutines on it."""
        return Lease(self, lambda loop: None)

    def is_alive(self) -> bool:
        """Whether it is still lent, in this process: a fork has no such loop."""
        return self._is_open and self._process == os.getpid()

    def is_current(self) -> bool:
        """Whether the calling thread is the one that runs it."""
        return threading.get_ident() == self._thread

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on it, without waiting.

        Raises:
            RuntimeError: It is not lent any more.
        """
        if not self.is_alive():  # in a fork, nobody gives the lock back
            raise RuntimeError(self.gone)
        with self._lock:
            if not self._is_open:
                raise RuntimeError(self.gone)
            future = asyncio.run_coroutine_threadsafe(function(), self._loop)
            self._waited_for.add(future)
        future.add_done_callback(self._waited_for.discard)
        return future

    def close(self) -> None:
        """Lend it no more, and cancel what is waited for."""
        with self._lock:
            self._is_open = False
        for future in tuple(self._waited_for):
            future.cancel()
