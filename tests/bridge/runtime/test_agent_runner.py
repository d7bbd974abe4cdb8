"""Agent code runs in bounded places of its own, and however it ends, somebody is told exactly once."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gaia_bridge.errors import BusyError, LoopEndedError
from gaia_bridge.runtime.agent_runner import AgentLoop, AgentRunner, Job, LoopHandle, Outcome, resting
from tests.support.processes import threads_named
from tests.support.waiting import PATIENCE, comes_true, wait_in_thread

Call = Callable[[], Any]


class CustomError(BaseException):
    """Derives from nothing that anyone expects."""


ENDINGS = [
    ValueError("x"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(1),
    StopAsyncIteration(),
    MemoryError(),
    RecursionError(),
    CustomError(),
    BaseExceptionGroup("several", [SystemExit(1)]),
]


@contextmanager
def runner(threads: int = 2, queue: int = 2) -> Generator[AgentRunner]:
    made = AgentRunner("test", threads, queue)
    try:
        yield made
    finally:
        made.close()


async def run(pool: AgentRunner, call: Call, **options: Any) -> Outcome:
    with anyio.fail_after(PATIENCE):
        return await pool.run(call, copy_context(), **options)


def raising(error: BaseException) -> Call:
    def call() -> None:
        raise error

    return call


def raising_later(error: BaseException) -> Call:
    async def call() -> None:
        await asyncio.sleep(0)
        raise error

    return call


def signalling(signal: Callable[[], None]) -> Callable[[Outcome], None]:
    return lambda _: signal()


class Blocking:
    """Calls that block until they are released."""

    def __init__(self) -> None:
        self.running = threading.Semaphore(0)
        self.release = threading.Event()

    def __call__(self) -> str:
        self.running.release()
        assert self.release.wait(PATIENCE)
        return "released"

    async def until_running(self, count: int) -> None:
        for _ in range(count):
            await wait_in_thread(lambda seconds: self.running.acquire(timeout=seconds))


@pytest.mark.anyio
@pytest.mark.requirement("F-101")
@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("make", [raising, raising_later])
async def test_however_code_ends_it_is_an_outcome_and_the_next_call_works(
    error: BaseException, make: Callable[[BaseException], Call]
) -> None:
    with runner(threads=1, queue=0) as pool:
        outcome = await run(pool, make(error))
        assert outcome.error is error or isinstance(outcome.error, RuntimeError)  # a coroutine's StopIteration
        assert (await run(pool, lambda: "next")).value == "next"
        assert (await run(pool, lambda: asyncio.sleep(0, "next"))).value == "next"


@pytest.mark.anyio
async def test_blocking_code_runs_in_a_thread_and_coroutines_on_a_loop_of_the_agents_own() -> None:
    async def where() -> tuple[str, asyncio.AbstractEventLoop]:
        return threading.current_thread().name, asyncio.get_running_loop()

    with runner() as pool:
        thread = (await run(pool, threading.current_thread)).value
        assert thread.name == "agent test #1"
        assert thread.daemon
        name, loop = (await run(pool, where)).value
        assert name == "agent test loop"
        assert loop is not asyncio.get_running_loop()
        assert (await run(pool, where)).value == (name, loop)


@pytest.mark.anyio
@pytest.mark.requirement("S1-17")
async def test_as_many_blocking_calls_overlap_as_there_are_threads() -> None:
    together = threading.Barrier(4)
    with runner(threads=4, queue=0) as pool:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run, pool, lambda: together.wait(PATIENCE))
    assert not together.broken


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_calls_beyond_threads_and_queue_are_refused_and_places_come_back() -> None:
    blocking = Blocking()
    with runner(threads=2, queue=3) as pool:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(run, pool, blocking)
            await blocking.until_running(2)
            with pytest.raises(BusyError) as caught:
                await pool.run(blocking, copy_context())
            assert (caught.value.name, caught.value.running, caught.value.waiting) == ("test", 2, 3)
            assert not blocking.running.acquire(blocking=False)
            blocking.release.set()
        assert (await run(pool, lambda: "next")).value == "next"


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_coroutines_count_as_calls_too() -> None:
    gate = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def wait() -> str:
        loops.append(asyncio.get_running_loop())
        await gate.wait()
        return "released"

    with runner(threads=1, queue=1) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, wait)
            tasks.start_soon(run, pool, wait)
            await wait_in_thread(comes_true(lambda: len(loops) == 2))
            with pytest.raises(BusyError):
                await pool.run(wait, copy_context())
            loops[0].call_soon_threadsafe(gate.set)


@pytest.mark.anyio
@pytest.mark.requirement("F-220")
@pytest.mark.parametrize("nested", [False, True])
async def test_who_waits_for_an_answer_gives_its_place_to_others_and_so_does_who_waits_for_it(nested: bool) -> None:
    asking, earlier = Blocking(), threads_named("agent test #")

    def ask() -> str:
        with resting():
            return asking()

    with runner(threads=1, queue=0) as pool, runner(threads=1, queue=0) as inner:

        def ask_through_another() -> Any:
            done = Future[Outcome]()
            inner.start(ask, copy_context(), done.set_result)
            return done.result(PATIENCE).value

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(run, pool, ask_through_another if nested else ask)
                await asking.until_running(1)
                assert (await run(pool, partial(str, number))).value == str(number)
            asking.release.set()
        await wait_in_thread(comes_true(lambda: len(threads_named("agent test #", earlier)) <= 2))  # one of each


@pytest.mark.anyio
@pytest.mark.requirement("F-220")
async def test_code_that_ends_while_a_thread_of_its_own_asks_gives_its_place_back_once() -> None:
    asking, working = Blocking(), Blocking()

    def ask() -> None:
        with resting():
            asking()

    def leave_a_thread() -> threading.Thread:
        thread = threading.Thread(target=copy_context().run, args=(ask,))
        thread.start()
        assert asking.running.acquire(timeout=PATIENCE)
        return thread

    with runner(threads=1, queue=0) as pool:
        left = (await run(pool, leave_a_thread)).value
        asking.release.set()
        await wait_in_thread(lambda seconds: left.join(seconds) or not left.is_alive())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, working)
            await working.until_running(1)
            with pytest.raises(BusyError):
                await run(pool, working)
            working.release.set()


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_a_busy_agent_can_still_be_spoken_to_beside_its_calls() -> None:
    blocking = Blocking()
    with runner(threads=1, queue=0) as pool:
        beside = pool.beside(threads=1, queue=0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, blocking)
            await blocking.until_running(1)
            assert (await run(beside, lambda: "here")).value == "here"
            blocking.release.set()

        async def loop() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        assert (await run(pool, loop)).value is (await run(beside, loop)).value
        beside.close()


@pytest.mark.anyio
@pytest.mark.requirement("F-109")
async def test_each_call_has_context_variables_of_its_own() -> None:
    principal: contextvars.ContextVar[str] = contextvars.ContextVar("principal", default="nobody")
    together = threading.Barrier(2)

    def sync() -> str:
        mine = principal.get()
        principal.set(f"overwritten by {mine}")
        together.wait(PATIENCE)
        return mine

    async def coroutine() -> str:
        mine = principal.get()
        principal.set(f"overwritten by {mine}")
        await asyncio.sleep(0)
        return mine

    seen: list[tuple[str, Any]] = []

    async def call_as(pool: AgentRunner, name: str, call: Call) -> None:
        principal.set(name)
        seen.append((name, (await run(pool, call)).value))
        assert principal.get() == name

    with runner() as pool:
        for call in (sync, coroutine):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_as, pool, "A", call)
                tasks.start_soon(call_as, pool, "B", call)
    assert sorted(seen) == [("A", "A"), ("A", "A"), ("B", "B"), ("B", "B")]
    assert principal.get() == "nobody"


@pytest.mark.anyio
@pytest.mark.requirement("F-103")
@pytest.mark.parametrize("coroutine", [False, True])
async def test_values_are_converted_where_the_code_runs(coroutine: bool) -> None:
    places: list[threading.Thread] = []
    scope: contextvars.ContextVar[str] = contextvars.ContextVar("scope")

    def lazily() -> Generator[str]:
        places.append(threading.current_thread())
        yield scope.get()

    async def later() -> Generator[str]:
        return lazily()

    scope.set("mine")
    with runner() as pool:
        outcome = await run(pool, later if coroutine else lazily, convert=list)
    assert outcome.value == ["mine"]
    assert places[0].name == ("agent test loop" if coroutine else "agent test #1")


@pytest.mark.anyio
@pytest.mark.requirement("F-101", "F-103")
@pytest.mark.parametrize("call", [lambda: 1, lambda: asyncio.sleep(0)])
async def test_a_value_that_cannot_be_converted_is_an_outcome(call: Call) -> None:
    def convert(_: Any) -> Any:
        raise SystemExit(3)

    with runner(threads=1, queue=0) as pool:
        assert isinstance((await run(pool, call, convert=convert)).error, SystemExit)
        assert (await run(pool, lambda: "next")).value == "next"


@pytest.mark.anyio
async def test_cancelling_the_wait_cancels_a_coroutine() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with runner() as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, work)
            await wait_in_thread(started.wait)
            tasks.cancel_scope.cancel()
        await wait_in_thread(cancelled.wait)


@pytest.mark.anyio
async def test_a_coroutine_that_is_cancelled_at_once_gives_its_place_back() -> None:
    with runner(threads=1, queue=0) as pool:
        for _ in range(200):
            done = threading.Event()
            pool.start(asyncio.Event().wait, copy_context(), signalling(done.set)).cancel()
            await wait_in_thread(done.wait)


@pytest.mark.anyio
async def test_a_coroutine_that_is_cancelled_before_its_first_step_has_an_end_too() -> None:
    blocking, done, jobs = Blocking(), threading.Event(), list[Job]()

    async def block() -> None:
        blocking()

    def cancel_and_wait() -> Any:
        jobs[0].cancel()
        return asyncio.Event().wait()

    with runner(threads=1, queue=2) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, block)
            await blocking.until_running(1)
            submitted = threading.Event()
            jobs.append(
                pool.start(lambda: submitted.wait(PATIENCE) and cancel_and_wait(), copy_context(), signalling(done.set))
            )
            submitted.set()
            await run(pool, lambda: "the only thread has handed it over")
            blocking.release.set()
        await wait_in_thread(done.wait)


@pytest.mark.anyio
async def test_a_coroutine_is_cancelled_only_once_so_that_it_can_clean_up() -> None:
    started, outcomes, done = threading.Event(), list[Outcome](), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            outcomes.append(Outcome("cleaned up"))

    with runner() as pool:
        job = pool.start(work, copy_context(), lambda _: done.set())
        await wait_in_thread(started.wait)
        job.cancel()
        job.cancel()
        await wait_in_thread(done.wait)
    assert outcomes == [Outcome("cleaned up")]


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_while_it_waits_never_runs() -> None:
    blocking, ran = Blocking(), list[str]()
    with runner(threads=1, queue=1) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, pool, blocking)
            await blocking.until_running(1)
            with anyio.move_on_after(0):
                await pool.run(lambda: ran.append("ran"), copy_context())
            blocking.release.set()
        assert (await run(pool, lambda: "next")).value == "next"
    assert ran == []


@pytest.mark.anyio
async def test_a_coroutine_may_refuse_to_be_cancelled() -> None:
    started = threading.Event()

    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "went on"
        return ""

    outcomes: list[Outcome] = []
    done = threading.Event()

    def finish(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    with runner() as pool:
        job = pool.start(work, copy_context(), finish)
        await wait_in_thread(started.wait)
        job.cancel()
        await wait_in_thread(done.wait)
    assert outcomes == [Outcome("went on")]


@pytest.mark.anyio
async def test_closing_ends_coroutines_and_whoever_waits_for_them() -> None:
    started = threading.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    pool = AgentRunner("test", 2, 2)
    outcomes: list[Outcome] = []

    async def wait() -> None:
        outcomes.append(await run(pool, work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await wait_in_thread(started.wait)
        pool.close()
    assert isinstance(outcomes[0].error, asyncio.CancelledError)


@pytest.mark.anyio
async def test_a_loop_that_ends_before_it_began_ends_in_good_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread of a loop may get its first turn when everybody else is gone."""
    loop, go, ended = AgentLoop("late"), threading.Event(), threading.Event()
    begin = loop._watched  # pyright: ignore[reportPrivateUsage]

    def late(inner: asyncio.AbstractEventLoop) -> None:
        assert go.wait(PATIENCE)
        begin(inner)
        ended.set()

    async def work() -> None:
        await asyncio.Event().wait()

    outcomes: list[Outcome] = []
    monkeypatch.setattr(loop, "_watched", late)
    cancel = loop.submit(work(), lambda value: value, copy_context(), outcomes.append)  # keeps the task
    loop.close()
    go.set()
    await wait_in_thread(ended.wait)
    assert [type(outcome.error) for outcome in outcomes] == [asyncio.CancelledError]
    cancel()
    assert caplog.records == []


@pytest.mark.anyio
async def test_every_call_has_an_end_when_the_pool_closes_at_any_moment() -> None:
    for delay in range(40):
        pool = AgentRunner("test", 1, 8)
        ended = [threading.Event() for _ in range(4)]
        jobs = [pool.start(asyncio.Event().wait, copy_context(), signalling(event.set)) for event in ended]
        for _ in range(delay * 50):  # another moment each time
            pass
        pool.close()
        for event, job in zip(ended, jobs, strict=True):
            await wait_in_thread(event.wait)
            job.cancel()  # harmless


@pytest.mark.anyio
async def test_closing_takes_the_idle_threads_away() -> None:
    together = threading.Barrier(3)
    pool, before = AgentRunner("gone", 3, 0), threading.enumerate()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(run, pool, lambda: together.wait(PATIENCE))
    await run(pool, lambda: asyncio.sleep(0))
    threads = threads_named("agent gone", before)
    assert len(threads) == 4
    pool.close()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, PATIENCE)
        assert not thread.is_alive()


@pytest.mark.anyio
async def test_a_closed_pool_takes_no_more_calls_and_closes_again() -> None:
    pool = AgentRunner("test", 1, 1)
    await run(pool, lambda: asyncio.sleep(0))
    pool.close()
    pool.close()
    with pytest.raises(BusyError):
        await pool.run(lambda: None, copy_context())


@pytest.mark.anyio
@pytest.mark.requirement("F-101")
async def test_a_background_task_of_the_agent_cannot_end_its_loop() -> None:
    tasks: list[asyncio.Task[None]] = []
    broken = threading.Event()

    async def background() -> None:
        broken.set()
        raise SystemExit(3)

    async def spawn() -> None:
        tasks.append(asyncio.get_running_loop().create_task(background()))

    with runner() as pool:
        await run(pool, spawn)
        await wait_in_thread(broken.wait)
        assert (await run(pool, lambda: asyncio.sleep(0, "alive"))).value == "alive"


@pytest.mark.anyio
@pytest.mark.requirement("F-106")
async def test_a_result_is_not_kept_once_it_was_given() -> None:
    class Large:
        pass

    with runner() as pool:
        outcome = await run(pool, Large)
        large = weakref.ref(outcome.value)
        del outcome
        await wait_in_thread(comes_true(lambda: bool(gc.collect()) or large() is None))
        assert large() is None


@pytest.mark.anyio
async def test_any_awaitable_will_do() -> None:
    class Later:
        def __await__(self) -> Generator[Any, None, str]:
            yield from asyncio.sleep(0).__await__()
            return "done"

    with runner() as pool:
        later: Call = Later
        assert (await run(pool, later)).value == "done"

        with closing(asyncio.new_event_loop()) as elsewhere:
            foreign = elsewhere.create_future()
            assert isinstance((await run(pool, lambda: foreign)).error, RuntimeError)


def test_a_loop_that_is_gone_has_nobody_left_to_tell() -> None:
    async def handle() -> LoopHandle:
        return LoopHandle()

    gone = asyncio.run(handle())
    gone.call_soon(lambda: pytest.fail("nobody is there"))


@pytest.mark.anyio
async def test_whoever_waits_for_a_loop_that_ends_is_told_and_not_cancelled() -> None:
    handles: list[LoopHandle] = []
    ready, begun = threading.Event(), threading.Event()

    async def other() -> None:
        handles.append(LoopHandle())
        ready.set()
        await anyio.to_thread.run_sync(begun.wait)

    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    thread = threading.Thread(target=asyncio.run, args=[other()])
    thread.start()
    await wait_in_thread(ready.wait)
    with anyio.fail_after(PATIENCE):
        for _ in range(2):  # it ends while it is waited for, and then it is gone
            with pytest.raises(LoopEndedError, match="has ended"):
                await handles[0].wait(hang)
            await asyncio.to_thread(thread.join, PATIENCE)


@pytest.mark.anyio
async def test_a_loop_can_be_reached_from_any_thread_and_later() -> None:
    handle, soon, later = LoopHandle(), anyio.Event(), anyio.Event()
    await anyio.to_thread.run_sync(lambda: handle.call_soon(soon.set))
    handle.call_later(0.001, later.set)
    stop = handle.call_later(0.001, lambda: pytest.fail("it was called off"))
    stop()
    with anyio.fail_after(PATIENCE):
        await soon.wait()
        await later.wait()


def test_a_runner_can_be_closed_by_garbage_collection_in_the_middle_of_its_own_work() -> None:
    runner = AgentRunner("forgotten", 1, 1)

    def work() -> None:
        loop = runner._loop  # pyright: ignore[reportPrivateUsage]
        assert isinstance(loop, AgentLoop)
        with runner._lock, loop._lock:  # pyright: ignore[reportPrivateUsage]  # where collection may happen
            runner.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
