"""Leases of event loops that run in other threads, and the loop of a bridge, lent to the agents of its process."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from gaia_bridge.constants import SIGNAL_INTERVAL
from gaia_bridge.errors import LoopEndedError
from gaia_bridge.runtime.event_loops import wait_across

T = TypeVar("T")


class RunsTasks(Protocol):
    """The interface of a thread with an event loop."""

    gone: str
    """The message of errors after the loop has ended."""

    def is_alive(self) -> bool:
        """Whether the loop runs, in this process."""
        ...

    def is_current(self) -> bool:
        """Whether the calling thread is the one of the loop."""
        ...

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop; the future is always resolved. Raises `LoopEndedError` if the loop has ended."""
        ...


R = TypeVar("R", bound=RunsTasks)


class Lease:
    """The right to run coroutines on an event loop of another thread. Used in any thread."""

    def __init__(self, thread: R, release: Callable[[R], None]) -> None:
        self._thread: RunsTasks = thread
        self._give_back: Callable[[], None] | None = partial(release, thread)

    @property
    def is_alive(self) -> bool:
        """Whether the loop exists: it does not after a fork, nor at the very end of the process."""
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the calling code runs on the loop's own thread, which must not wait for itself."""
        return self._thread.is_current()

    def run(
        self,
        function: Callable[[], Coroutine[Any, Any, T]],
        timeout: float | None = None,
        check: Callable[[], object] | None = None,
    ) -> T:
        """Run a coroutine on the loop and wait for it.

        Whatever ends the waiting early, such as Ctrl-C, cancels the coroutine.

        Args:
            function: Returns the coroutine.
            timeout: Seconds to wait; without a limit if `None`.
            check: Called every now and then during the wait; an exception that it raises ends the wait.

        Returns:
            The result of the coroutine.

        Raises:
            TimeoutError: It did not end in time.
            RuntimeError: This is the loop's own thread, which would wait for itself.
            LoopEndedError: The loop has ended.
        """
        if self.is_current:
            raise RuntimeError("this blocks, and was called on the event loop that it would wait for")
        future = self.start(function)
        try:
            return _result(future, timeout, check)
        except CancelledError:
            raise LoopEndedError(self._thread.gone) from None
        finally:
            future.cancel()  # does nothing to one that is done

    def start(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop without waiting; cancelling the future cancels it.

        Raises:
            LoopEndedError: The loop has ended.
        """
        return self._thread.start_task(function)

    async def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop, and wait for it on another; cancelling the waiting cancels it.

        Raises:
            LoopEndedError: The loop has ended.
        """
        return await wait_across(self.start(function), self._thread.gone)

    def finish(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T] | None:
        """Run a last coroutine on the loop without waiting, then release the lease; `None` if the loop has ended."""
        try:
            future = self.start(function)
        except RuntimeError:
            self.release()
            return None
        future.add_done_callback(lambda _: self.release())
        return future

    def release(self) -> None:
        """Release the lease; the last one ends the thread and waits for its end. A second call does nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _result(future: Future[T], timeout: float | None, check: Callable[[], object] | None) -> T:
    remaining = math.inf if timeout is None else timeout
    deadline = time.monotonic() + remaining
    while True:
        try:
            return future.result(max(0.0, min(remaining, SIGNAL_INTERVAL)))
        except TimeoutError:
            if future.done():  # just now, or the error is the coroutine's own
                return future.result()
        if check is not None:
            check()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(f"there was no result within {timeout:g} s") from None


class LentLoop:
    """The running event loop, for code in other threads. Implements `RunsTasks`.

    It does not live as long as its leases: its owner calls `close`, which cancels all futures, so that no thread waits
    for a loop that has ended. Created and closed on the loop.
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
        """Return the right to run coroutines on the loop."""
        return Lease(self, lambda loop: None)

    def is_alive(self) -> bool:
        """Whether the loop is still lent, in this process: a fork has no such loop."""
        return self._is_open and self._process == os.getpid()

    def is_current(self) -> bool:
        """Whether the calling thread is the one that runs the loop."""
        return threading.get_ident() == self._thread

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop, without waiting.

        Raises:
            LoopEndedError: The loop is not lent any more.
        """
        if not self.is_alive():  # in a fork, nobody gives the lock back
            raise LoopEndedError(self.gone)
        with self._lock:
            if not self._is_open:
                raise LoopEndedError(self.gone)
            future = asyncio.run_coroutine_threadsafe(function(), self._loop)
            self._waited_for.add(future)
        future.add_done_callback(self._waited_for.discard)
        return future

    def close(self) -> None:
        """Stop lending the loop, and cancel all futures."""
        with self._lock:
            self._is_open = False
        for future in tuple(self._waited_for):
            future.cancel()
