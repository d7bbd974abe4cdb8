"""The one background event loop behind every synchronous face of the bridge.

Synchronous code that needs the core takes a `Lease` on `BACKGROUND`. The first lease starts a thread with an event
loop; the last one that is released ends it. A lease runs coroutines on that loop from any thread and waits for them,
also from a thread where another event loop is running: that loop stands still meanwhile, as with any blocking call.

At the end of the process, whatever is still open is cancelled and given a few seconds to close, so that no child
process outlives it. The thread is a daemon: nothing that hangs on the loop can keep the process alive.

After `os.fork`, the child has no such thread: its leases raise `RuntimeError`, and new ones start a thread of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import anyio

from gaia_bridge.constants import BACKGROUND_FAREWELL, SIGNAL_INTERVAL
from gaia_bridge.runtime.event_loops import mark_thread_as_asyncio, wait_across
from gaia_bridge.runtime.watchdog import watching

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NAME = "gaia-bridge background loop"
_GONE = "the background loop of this connection has ended (after a fork or at exit); connect again"


class BackgroundLoop:
    """An event loop in a thread of its own, which is there as long as somebody has a lease on it."""

    _lock: threading.RLock
    _thread: _LoopThread | None
    _leases: int

    def __init__(self) -> None:
        self._forget()
        atexit.register(self._end_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def acquire(self) -> Lease:
        """Take a lease; the thread is running when this returns. Release it in the end, or use it as a context."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = None  # what is released meanwhile, as by garbage collection in the new thread, is old
                self._thread, self._leases = _LoopThread(), 0
            self._leases += 1
            return Lease(self._thread, self._release)

    def _release(self, thread: _LoopThread) -> None:
        if thread is not self._thread:
            return  # without the lock: whoever starts a thread holds it until that runs
        with self._lock:
            if thread is not self._thread:
                return
            self._leases -= 1
            if self._leases:
                return
            self._thread = None
        thread.end()  # outside of the lock: it takes as long as the last tasks need to close

    def _end_at_exit(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def _forget(self) -> None:
        """Begin without a thread. In a forked child, the lock may be held by a thread that is not there."""
        self._lock = threading.RLock()  # re-entrant: a release may come out of garbage collection
        self._thread = None
        self._leases = 0


class RunsTasks(Protocol):
    """A thread with an event loop, as others see it."""

    gone: str
    """What to say once it has ended."""

    def is_alive(self) -> bool:
        """Whether the loop runs, in this process."""
        ...

    def is_current(self) -> bool:
        """Whether the calling thread is the one of the loop."""
        ...

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop; the future is resolved in any case. Raises `RuntimeError` where it has ended."""
        ...


R = TypeVar("R", bound=RunsTasks)


class Lease:
    """The right to run coroutines on an event loop of another thread. Used in any thread.

    Args:
        thread: The thread with the loop.
        release: Told when the lease is given back.
    """

    def __init__(self, thread: R, release: Callable[[R], None]) -> None:
        self._thread: RunsTasks = thread
        self._give_back: Callable[[], None] | None = partial(release, thread)

    @property
    def is_alive(self) -> bool:
        """Whether the loop is there: it is not after a fork, nor at the very end of the process."""
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
            check: Called every now and then while it is waited for; what it raises ends the waiting.

        Returns:
            What the coroutine returned.

        Raises:
            TimeoutError: It did not end in time.
            RuntimeError: This is the loop's own thread, which would wait for itself; or the loop has ended.
        """
        if self.is_current:
            raise RuntimeError("this blocks, and was called on the event loop that it would wait for")
        future = self.start(function)
        try:
            return _result(future, timeout, check)
        except CancelledError:
            raise RuntimeError(self._thread.gone) from None
        finally:
            future.cancel()  # does nothing to one that is done

    def start(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the loop without waiting; cancelling the future cancels it.

        Args:
            function: Returns the coroutine.

        Raises:
            RuntimeError: The loop has ended.
        """
        return self._thread.start_task(function)

    async def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop, and wait for it on another; cancelling the waiting cancels it.

        Raises:
            RuntimeError: The loop has ended.
        """
        return await wait_across(self.start(function), self._thread.gone)

    def release(self) -> None:
        """Give the lease back; the last one ends the thread, and returns when it is gone. Twice is harmless."""
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


class _LoopThread:
    """One life of the thread. Implements `RunsTasks`."""

    gone = _GONE

    def __init__(self) -> None:
        self._running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._waited_for: set[Future[Any]] = set()
        self._lock = threading.RLock()  # re-entrant: garbage collection may end something, and start its end
        self._takes_tasks = True
        self._thread = threading.Thread(target=self._main, name=_NAME, daemon=True)
        self._thread.start()
        self._loop, self._ending = self._running.result()

    def is_alive(self) -> bool:
        """Whether it runs, in this process."""
        return self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """As `Lease.start`. Every future it returns is resolved in the end, if only by the end of the thread."""
        if not self.is_alive():  # before the lock, which another thread may have held when this process was forked
            raise RuntimeError(_GONE)
        with self._lock:
            if not self._takes_tasks:
                raise RuntimeError(_GONE)
            coroutine = function()
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:  # the loop was closed: its thread died early
                coroutine.close()
                raise RuntimeError(_GONE) from None
        self._waited_for.add(future)
        future.add_done_callback(self._waited_for.discard)
        if self._loop.is_closed():
            self._resolve_all()
        return future

    def end(self) -> None:
        """Cancel all tasks and wait for the thread to be gone; bounded. On the thread itself, do not wait."""
        if not self.is_alive():
            return
        try:
            self._loop.call_soon_threadsafe(self._ending.set)
        except RuntimeError:
            return  # it has just closed
        if self.is_current():
            return
        self._thread.join(BACKGROUND_FAREWELL)
        if self.is_alive():
            logger.warning("connections took longer than %g s to close; they are abandoned", BACKGROUND_FAREWELL)

    def _main(self) -> None:
        use_uvloop = importlib.util.find_spec("uvloop") is not None
        try:
            anyio.run(self._serve, backend_options={"use_uvloop": use_uvloop})
        except BaseException as error:  # noqa: B036 - SystemExit in a task must not leave anybody waiting
            logger.exception("the background loop ended early")
            if not self._running.done():
                self._running.set_exception(error)
        finally:
            self._resolve_all()

    async def _serve(self) -> None:
        ending = asyncio.Event()
        mark_thread_as_asyncio()
        with watching(name=f"the {_NAME}"):
            self._running.set_result((asyncio.get_running_loop(), ending))
            await ending.wait()
        await _cancel_others()
        with self._lock:  # a task that comes later would never begin: the loop runs a few more steps only
            self._takes_tasks = False
        await asyncio.sleep(0)  # until those that came before have begun
        await _cancel_others()

    def _resolve_all(self) -> None:
        """The loop is closed: what it was given too late to begin will never be done."""
        for future in tuple(self._waited_for):
            future.cancel()


async def _cancel_others() -> None:
    """Cancel all other tasks of this loop, and those that they start meanwhile, and wait for their ends."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


BACKGROUND: Final = BackgroundLoop()
"""The loop that all synchronous faces of this process share."""


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
