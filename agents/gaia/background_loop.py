"""The one background event loop behind every synchronous interface of agents.

Synchronous code that needs the bridge takes a `Lease` on `BACKGROUND`. The first lease starts a thread with an event
loop; the last one that is released ends it. A lease runs coroutines on that loop from any thread and waits for them,
also from a thread where another event loop is running: that loop stands still meanwhile, as with any blocking call.

At the end of the process, whatever is still open is cancelled and given a few seconds to close, so that no child
process outlives it. The thread is a daemon: nothing that hangs on the loop can keep the process alive.

After `os.fork`, the child has no such thread: old leases raise `LoopEndedError`, and new ones start a new thread.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import anyio

from gaia_bridge.errors import LoopEndedError
from gaia_bridge.runtime.event_loops import mark_thread_as_asyncio
from gaia_bridge.runtime.lent_loop import Lease
from gaia_bridge.runtime.watchdog import watching

logger = logging.getLogger(__name__)

T = TypeVar("T")

BACKGROUND_FAREWELL: Final = 8.0
"""Seconds for things that synchronous code left open to close, when the loop ends: a stubborn child's `stop_grace` and
`terminate_grace`, and some more."""

_NAME = "gaia-bridge background loop"
_GONE = "the background loop of this connection has ended (after a fork or at exit); connect again"


class BackgroundLoop:
    """An event loop in a thread of its own, which exists as long as there is a lease on it."""

    _lock: threading.RLock
    _thread: _LoopThread | None
    _leases: int
    is_over = False
    """Whether the process is ending, so that nobody waits for what is cut short."""

    def __init__(self) -> None:
        self._forget()
        atexit.register(self._end_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def acquire(self) -> Lease:
        """Take a lease; the thread is running when this returns. Release it in the end, or use it as a context."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = None  # a release meanwhile, as by garbage collection in the new thread, is of an old one
                self._thread, self._leases, self.is_over = _LoopThread(), 0, False
            self._leases += 1
            return Lease(self._thread, self._release)

    def _release(self, thread: _LoopThread) -> None:
        if thread is not self._thread:
            return  # without the lock, which `acquire` holds until its new thread runs
        with self._lock:
            if thread is not self._thread:
                return
            self._leases -= 1
            if self._leases:
                return
            self._thread = None
        thread.end()  # outside of the lock: it takes as long as the last tasks need to close

    def _end_at_exit(self) -> None:
        self.is_over = True
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def _forget(self) -> None:
        """Reset to no thread. In a forked child, the lock may be held by a thread that does not exist there."""
        self._lock = threading.RLock()  # re-entrant: a release may come out of garbage collection
        self._thread = None
        self._leases = 0


class _LoopThread:
    """A thread with an event loop, from its start to its end. Implements `RunsTasks`."""

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
        """Whether the thread runs, in this process."""
        return self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def start_task(self, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine as `Lease.start` does. The future is resolved at the latest by the end of the thread."""
        if not self.is_alive():  # before the lock, which another thread may have held when this process was forked
            raise LoopEndedError(_GONE)
        with self._lock:
            if not self._takes_tasks:
                raise LoopEndedError(_GONE)
            coroutine = function()
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:  # the loop was closed: its thread died early
                coroutine.close()
                raise LoopEndedError(_GONE) from None
        self._waited_for.add(future)
        future.add_done_callback(self._waited_for.discard)
        if self._loop.is_closed():
            self._resolve_all()
        return future

    def end(self) -> None:
        """Cancel all tasks and wait, within a bound, for the thread to end. On the thread itself, do not wait."""
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
        """Cancel all futures once the loop is closed: coroutines that came too late to start will never run."""
        for future in tuple(self._waited_for):
            future.cancel()


async def _cancel_others() -> None:
    """Cancel all other tasks of this loop, and those that they start meanwhile, and wait for their ends."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


BACKGROUND: Final = BackgroundLoop()
"""The loop that all synchronous interfaces of this process share."""
