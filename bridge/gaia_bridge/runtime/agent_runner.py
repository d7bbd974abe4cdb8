"""Runs agent code away from the event loop: in bounded threads, and on a loop of its own for coroutines.

Nothing an agent does may stop the loop that serves the protocol, so agent code never runs on it. Blocking code runs in
a pool that belongs to that agent alone; coroutines run on an event loop that belongs to that agent alone. Both kinds
of thread are daemons: a stuck call must not keep the process alive, which is why the standard library's
executor, whose threads are joined at exit, does not serve here.

Code that waits for a person's answer is idle, so it gives its place to others meanwhile (`resting`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from gaia_bridge.errors import BusyError, LoopEndedError
from gaia_bridge.runtime.event_loops import wait_across
from gaia_bridge.runtime.watchdog import watching

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NEVER_AWAITED = frozenset({dict, list, str, type(None)})
"""The types of most results, for which the check whether they can be awaited is skipped: it costs as much as a copy."""

_GONE = "the event loop that this was to run on has ended"


class Outcome(Struct, frozen=True):
    """The end of a piece of agent code: a value, or any `BaseException`, which is kept here and not raised."""

    value: Any = None
    error: BaseException | None = None


def _unchanged(value: Any) -> Any:
    return value


class LoopHandle:
    """The running event loop, for use in other threads. Must be created on the loop's own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run `callback` on the loop, soon, from any thread. If the loop has ended, do nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    async def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on this loop, and wait for it on another; cancelling the waiting cancels it.

        Raises:
            LoopEndedError: The loop is gone, or ends meanwhile.
        """
        coroutine = function()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise LoopEndedError(_GONE) from None
        return await wait_across(future, _GONE)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` in `seconds`; return a function that cancels it. Only on the loop's own thread."""
        return self._loop.call_later(seconds, callback).cancel


class RunsCoroutines(Protocol):
    """The interface of an agent's event loop to a runner."""

    def submit(
        self,
        awaitable: Awaitable[Any],
        convert: Callable[[Any], Any],
        context: Context,
        on_done: Callable[[Outcome], None],
    ) -> Callable[[], object]:
        """Run `awaitable` as a task of the loop; return a thread-safe function that cancels it."""
        ...

    def close(self) -> None:
        """Cancel all tasks and end the loop, once the code that it runs right now returns."""
        ...

    async def join(self, seconds: float) -> None:
        """Wait at most so many seconds for the end after `close`."""
        ...


class _Place:
    """The place that a piece of agent code takes in its runner. The runner's lock guards it.

    Args:
        outer: The place of the code that waits for this code, and so rests when this does.
    """

    def __init__(self, runner: AgentRunner, outer: _Place | None) -> None:
        self.runner: AgentRunner | None = runner
        self.outer = outer
        self.waits = 0
        """The number of answers that the code waits for."""
        self.has_thread = True
        self.held = 0
        """The threads that the code keeps while it waits: one, or none if it is a coroutine."""

    def rest(self) -> None:
        """Give the place to others."""
        if (runner := self.runner) is not None:
            runner.rest(self)

    def resume(self) -> None:
        """Take the place again."""
        if (runner := self.runner) is not None:
            runner.resume(self)


_place: ContextVar[_Place | None] = ContextVar("gaia_bridge_place", default=None)


@contextmanager
def resting() -> Generator[None]:
    """Give the places of the code that calls this to others while it waits for an answer.

    These are its places in its own runner, and in every runner whose code waits for it. Afterwards the code goes on at
    once: for each place that rested, one more thread may then be at work until the surplus ones end.
    """
    places: list[_Place] = []
    place = _place.get()
    while place is not None:
        places.append(place)
        place = place.outer
    for place in places:
        place.rest()
    try:
        yield
    finally:
        for place in places:
            place.resume()


class Job:
    """One piece of agent code on its way through a runner."""

    def __init__(
        self,
        call: Callable[[], Any],
        convert: Callable[[Any], Any],
        context: Context,
        on_done: Callable[[Outcome], None],
        place: _Place,
    ) -> None:
        self._call = call
        self._convert = convert
        self._context = context
        self._on_done = on_done
        self._place = place
        self._cancelled = False
        self._cancel_task: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Skip the job if it did not start, cancel it if it is a coroutine. Code in a thread goes on to its end."""
        self._cancelled = True
        if (cancel_task := self._cancel_task) is not None:
            cancel_task()

    def run(self, loop: RunsCoroutines) -> None:
        """Run the job on the calling worker thread; pass an awaitable result on to the agent's loop."""
        if self._cancelled:
            self._on_done(Outcome(error=asyncio.CancelledError()))
            return
        try:
            awaitable, value = self._context.run(self._called)
        except BaseException as error:  # noqa: B036 - the boundary: SystemExit in a tool is that call's failure
            self._on_done(Outcome(error=error))
            return
        if awaitable is None:
            self._on_done(Outcome(value))
            return
        self._place.has_thread = False
        self._cancel_task = loop.submit(awaitable, self._convert, self._context, self._on_done)
        if self._cancelled:
            self._cancel_task()

    def _called(self) -> tuple[Awaitable[Any] | None, Any]:
        """Call the code and return its awaitable, or its value, which is converted at once."""
        _place.set(self._place)
        value = self._call()
        if type(value) not in _NEVER_AWAITED and inspect.isawaitable(value):
            return value, None
        return None, self._convert(value)


class AgentRunner:
    """Runs one agent's code in at most `threads` threads, with at most `queue` calls waiting.

    Args:
        threads: Blocking calls at once.
        queue: Calls that may wait.
        loop: The agent's event loop, where it has one already.
    """

    def __init__(self, name: str, threads: int, queue: int, loop: RunsCoroutines | None = None) -> None:
        self.name = name
        self._max_threads = threads
        self._max_pending = threads + queue
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.RLock()  # re-entrant: `close` may come out of garbage collection
        self._pending = 0  # without those that rest
        self._threads = 0
        self._held = 0  # of the threads, by those that rest
        self._unfinished = 0  # with those that rest
        self._when_idle: Callable[[], object] | None = None
        self._closed = False
        self._loop: RunsCoroutines = loop or AgentLoop(name)

    def beside(self, threads: int, queue: int) -> AgentRunner:
        """Return another runner for the same agent, which works on when this is busy: own threads, the same loop."""
        return AgentRunner(self.name, threads, queue, self._loop)

    def start(
        self,
        call: Callable[[], Any],
        context: Context,
        on_done: Callable[[Outcome], None],
        convert: Callable[[Any], Any] = _unchanged,
    ) -> Job:
        """Run `call` in the pool.

        Args:
            call: The code. If it returns an awaitable, that runs on the agent's own event loop.
            on_done: Called exactly once, in a thread of this runner.
            convert: Applied to what the code returned, in the same place: to read a value can run the agent's code too.

        Raises:
            BusyError: All threads and the whole queue are taken.
        """
        place = _Place(self, context.get(_place))
        job = Job(call, convert, context, self._release_and(on_done, place), place)
        with self._lock:
            if self._closed or self._pending >= self._max_pending:
                running = min(self._pending, self._max_threads)
                raise BusyError(self.name, running, self._pending - running)
            self._pending += 1
            try:
                self._ensure_thread()
            except BaseException:  # the system has no more threads
                self._pending -= 1
                raise
            self._unfinished += 1
            self._jobs.put(job)
        return job

    async def run(
        self, call: Callable[[], Any], context: Context, convert: Callable[[Any], Any] = _unchanged
    ) -> Outcome:
        """Run `call` as `start` does and wait for its outcome.

        Cancelling this cancels a coroutine, too; a thread cannot be cancelled, and keeps its place in the pool until it
        ends.

        Raises:
            BusyError: All threads and the whole queue are taken.
        """
        loop, done = LoopHandle(), anyio.Event()
        outcomes: list[Outcome] = []

        def finish(outcome: Outcome) -> None:
            outcomes.append(outcome)
            loop.call_soon(done.set)

        job = self.start(call, context, finish, convert)
        try:
            await done.wait()
        finally:
            job.cancel()
        return outcomes[0]

    def close(self) -> None:
        """End idle threads and the agent's loop. Code that is stuck is left alone; its threads are daemons."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._jobs.put(None)
        self._loop.close()

    async def wait_idle(self) -> None:
        """Wait until all jobs are over, also those that wait for an answer. Only if no more jobs are started."""
        loop, idle = LoopHandle(), anyio.Event()
        with self._lock:
            if not self._unfinished:
                return
            self._when_idle = lambda: loop.call_soon(idle.set)
        await idle.wait()

    async def wait_closed(self, seconds: float) -> None:
        """Wait at most so many seconds, after `close`, for the agent's coroutines to clean up.

        Its threads are daemons: without this, the end of the process would cut off their `finally` blocks.
        """
        await self._loop.join(seconds)

    def rest(self, place: _Place) -> None:
        """Give the place of code that waits for an answer to other code."""
        with self._lock:
            place.waits += 1
            if place.waits > 1 or place.runner is None:
                return
            place.held = int(place.has_thread)
            self._held += place.held
            self._pending -= 1
            with suppress(RuntimeError):  # the system has no more threads: those that are there take over
                self._ensure_thread()

    def resume(self, place: _Place) -> None:
        """Count the place of code that got its answer again."""
        with self._lock:
            place.waits -= 1
            if not place.waits and place.runner is not None:
                self._held -= place.held
                self._pending += 1

    def _ensure_thread(self) -> None:
        """Start one more thread if there is work for it, and room."""
        working = self._threads - self._held
        if working < self._pending and working < self._max_threads and not self._closed:
            name = f"agent {self.name} #{self._threads + 1}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._threads += 1

    def _release_and(self, on_done: Callable[[Outcome], None], place: _Place) -> Callable[[Outcome], None]:
        """Return a function that frees a place, and then calls `on_done`."""

        def finish(outcome: Outcome) -> None:
            with self._lock:
                place.runner = None
                if place.waits:  # a thread that it started itself still waits for an answer
                    self._held -= place.held
                else:
                    self._pending -= 1
                self._unfinished -= 1
                when_idle = None if self._unfinished else self._when_idle
            on_done(outcome)
            if when_idle is not None:
                when_idle()

        return finish

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._loop)
            del job  # and with it the result, while this thread waits for the next
            if self._is_surplus():
                return

    def _is_surplus(self) -> bool:
        """Return whether the calling thread has to end, and is no longer counted: those that rested work again."""
        with self._lock:
            surplus = self._threads - self._held > self._max_threads
            self._threads -= surplus
            return surplus


class AgentLoop:
    """An event loop in a thread of its own, started with the first coroutine. Implements `RunsCoroutines`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # as that of a runner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False

    def submit(
        self,
        awaitable: Awaitable[Any],
        convert: Callable[[Any], Any],
        context: Context,
        on_done: Callable[[Outcome], None],
    ) -> Callable[[], object]:
        """Run `awaitable` as a task of the loop; return a thread-safe function that cancels it."""

        async def contain() -> None:
            try:
                outcome = Outcome(convert(await awaitable))
            except BaseException as error:  # noqa: B036 - as in `Job.run`; the loop itself must survive
                on_done(Outcome(error=error))  # without a name: the error's traceback leads back here
                return
            on_done(outcome)

        with self._lock:
            if not self._closed:
                return _started_task(self._loop or self._start_loop(), contain, context)
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        on_done(Outcome(error=asyncio.CancelledError()))
        return lambda: None

    @property
    def is_closed(self) -> bool:
        """Whether the loop was closed."""
        return self._closed

    def close(self) -> None:
        """Cancel all tasks and end the loop, once the code that it runs right now returns."""
        with self._lock:
            closed, self._closed = self._closed, True
            if not closed and self._loop is not None:
                self._loop.call_soon_threadsafe(self._end, self._loop)

    async def join(self, seconds: float) -> None:
        """Wait at most so many seconds for the end after `close`."""
        if self._thread is not None:
            await anyio.to_thread.run_sync(self._thread.join, seconds)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended = True
        loop.stop()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        name = f"agent {self._name} loop"
        self._thread = threading.Thread(target=self._watched, args=(loop,), name=name, daemon=True)
        self._thread.start()
        return loop

    def _watched(self, loop: asyncio.AbstractEventLoop) -> None:
        name = f"the event loop of the coroutines of agent {self._name}"
        with watching(loop=loop, name=name, is_of_agent=True):
            self._run(loop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._ended:  # not `_closed`: what stops the loop is still to come then
            try:
                loop.run_forever()
            except BaseException:  # noqa: B036 - SystemExit in a task that the agent itself started
                logger.exception("agent %s: a task of its own ended its event loop; the loop goes on", self._name)
        try:
            loop.run_until_complete(_end_tasks())
        except BaseException:  # noqa: B036 - as above
            logger.exception("agent %s: a task of its own did not end in good order", self._name)
        finally:
            loop.close()


def _started_task(
    loop: asyncio.AbstractEventLoop, main: Callable[[], Coroutine[Any, Any, None]], context: Context
) -> Callable[[], object]:
    """Start a task on a loop of another thread; return a thread-safe function that cancels it."""
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        tasks.append(loop.create_task(main(), context=context))

    def cancel_once() -> None:
        while tasks:
            loop.call_soon(tasks.pop().cancel)  # after its first step: before it, `main` would not run at all

    def cancel() -> None:
        with suppress(RuntimeError):  # a closed loop has ended all its tasks
            loop.call_soon_threadsafe(cancel_once)

    loop.call_soon_threadsafe(start)
    return cancel


async def _end_tasks() -> None:
    """Cancel all other tasks of the running loop and wait for them, as `asyncio.run` does."""
    await asyncio.sleep(0)  # the first step of those that were only just started
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)
    await asyncio.get_running_loop().shutdown_asyncgens()
