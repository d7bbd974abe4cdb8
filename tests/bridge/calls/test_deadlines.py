"""The time of a request: signs of life renew it, up to what it may take in all, and it stands still while held."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

import anyio
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.calls.deadlines import Clock, Clocks, Deadline, Interruptible
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.anyio

LONG = Deadline(100, 1_000)


def left(clock: Clock) -> float:
    """Seconds until the request ends, if nothing is heard."""
    return round(clock.ends_at - asyncio.get_running_loop().time())


async def test_a_request_ends_when_nothing_is_heard_and_never_later_than_its_cap() -> None:
    clocks = Clocks()
    patient, hurried = Clock(clocks, 1, LONG), Clock(clocks, 2, Deadline(100, 50))
    assert (left(patient), patient.seconds) == (100, 100)
    assert (left(hurried), hurried.seconds) == (50, 50)
    hurried.restart()
    assert left(hurried) == 50


async def test_while_the_other_side_waits_for_us_no_sign_of_life_is_expected() -> None:
    clock = Clock(Clocks(), 1, LONG)
    clock.hold()
    clock.hold()
    clock.release()
    clock.restart()
    assert left(clock) == 1_000
    clock.release()
    assert left(clock) == 100


async def test_a_request_that_has_ended_is_not_given_more_time() -> None:
    clocks = Clocks()
    late, done = Clock(clocks, 1, Deadline(0, 1_000)), Clock(clocks, 2, LONG)
    with pytest.raises(TimeoutError), late:
        await asyncio.Event().wait()
    ended = late.ends_at
    late.restart()
    with done:
        pass
    done.hold()
    assert (late.is_up, late.ends_at, left(done)) == (True, ended, 100)


async def test_requests_that_are_answered_in_time_set_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, clocks, timers = asyncio.get_running_loop(), Clocks(), list[float]()
    call_at = loop.call_at

    def counted(when: float, *rest: object) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_at", counted)
    for number in range(100):
        with Clock(clocks, number, LONG):
            await asyncio.sleep(0)
    assert len(timers) == 1
    with Clock(clocks, 100, Deadline(50, 1_000)):
        assert len(timers) == 2, "the timer is set anew for an earlier end"
    with Clock(clocks, 101, Deadline(math.inf, math.inf)):
        assert len(timers) == 2


@pytest.mark.parametrize("first", ["it ends", "the request ends"])
async def test_a_connection_that_is_closed_leaves_no_timer(first: str) -> None:
    clocks = Clocks()
    clock = Clock(clocks, 1, LONG)
    timer = clocks._timer  # pyright: ignore[reportPrivateUsage]
    assert timer is not None
    ends: list[Callable[[], None]] = [clocks.close, partial(clock.__exit__, None, None, None)]
    for end in ends if first == "it ends" else reversed(ends):
        assert not timer.cancelled(), "there may be a request yet"
        end()
    assert timer.cancelled()


TIMES = st.floats(0.01, 50).map(lambda seconds: round(seconds, 2))


@given(st.lists(st.tuples(TIMES, TIMES, TIMES, st.lists(TIMES, max_size=5)), min_size=1, max_size=6))
def test_each_of_many_requests_ends_at_its_own_time(requests: list[tuple[float, float, float, list[float]]]) -> None:
    """Each begins at some time, has a deadline and signs of life."""

    async def ended(number: int, clocks: Clocks) -> float:
        begins, idle, cap, signs = requests[number]
        loop = asyncio.get_running_loop()
        await asyncio.sleep(begins)
        began = loop.time()
        clock = Clock(clocks, number, Deadline(idle, cap))
        timers = [loop.call_later(sign, clock.restart) for sign in signs]
        try:
            with clock:
                await loop.create_future()
            raise AssertionError("nobody answers")
        except TimeoutError:
            return loop.time() - began
        finally:
            for timer in timers:
                timer.cancel()

    async def all_of_them() -> list[float]:
        clocks = Clocks()
        return list(await asyncio.gather(*(ended(number, clocks) for number in range(len(requests)))))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        found = runner.run(all_of_them())
    for (_, idle, cap, signs), seconds in zip(requests, found, strict=True):
        expected = min(idle, cap)
        for sign in sorted(signs):
            if sign < expected - 0.005:
                expected = min(sign + idle, cap)
            elif sign < expected + 0.005:
                break  # both at once: either comes first
        else:
            assert seconds == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("outer", [True, False])
async def test_whoever_cancels_the_request_at_the_same_time_is_heard(outer: bool) -> None:
    clocks = Clocks()
    task = asyncio.current_task()
    assert task is not None

    async def wait() -> None:
        with Clock(clocks, 1, LONG) as clock:
            clock.interrupt()
            if outer:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError if outer else TimeoutError):
        await asyncio.create_task(wait())


def test_the_timers_of_both_loops_ring() -> None:
    async def late() -> None:
        clocks = Clocks()
        for number, seconds in enumerate((0.0, 0.001, 0.0104, 0.02)):
            with pytest.raises(TimeoutError), Clock(clocks, number, Deadline(seconds, math.inf)):
                await asyncio.Event().wait()

    asyncio.run(asyncio.wait_for(late(), 10))
    uvloop.run(asyncio.wait_for(late(), 10))


async def waiting(block: Interruptible) -> str:
    with block:
        await asyncio.Event().wait()
    return "went on"


async def started(block: Interruptible) -> asyncio.Task[str]:
    task = asyncio.ensure_future(waiting(block))
    await asyncio.sleep(0)
    return task


async def test_a_block_that_is_interrupted_is_left_and_its_task_goes_on() -> None:
    block = Interruptible()
    task = await started(block)
    block.interrupt()
    block.interrupt()
    assert await task == "went on"
    assert (block.interrupted, task.cancelling()) == (True, 0)


async def test_a_block_that_nobody_is_in_is_not_interrupted() -> None:
    block = Interruptible()
    block.interrupt()
    with block:
        pass
    block.interrupt()
    await asyncio.sleep(0)
    assert not block.interrupted


async def test_an_error_of_the_block_is_its_outcome_even_if_it_was_interrupted() -> None:
    async def failing() -> None:
        with block:
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError("its own")

    block = Interruptible()
    task = asyncio.ensure_future(failing())
    await asyncio.sleep(0)
    block.interrupt()
    with pytest.raises(KeyError):
        await task
    assert task.cancelling() == 0


@pytest.mark.parametrize("interrupt_first", [True, False])
async def test_a_task_that_is_cancelled_at_the_same_time_is_cancelled(interrupt_first: bool) -> None:
    block = Interruptible()
    task = await started(block)
    actions: list[Callable[[], object]] = [block.interrupt, task.cancel]
    for act in actions if interrupt_first else reversed(actions):
        act()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("interrupt_first", [True, False])
async def test_a_scope_around_it_that_is_cancelled_at_the_same_time_ends_what_it_is_around(
    interrupt_first: bool,
) -> None:
    reached: list[str] = []

    async def scoped() -> None:
        with scope:
            reached.append(await waiting(block))
            await anyio.lowlevel.checkpoint()
            reached.append("beyond the scope's end")
        reached.append("behind the scope")

    block, scope = Interruptible(), anyio.CancelScope()
    task = asyncio.ensure_future(scoped())
    await asyncio.sleep(0)
    actions = [block.interrupt, scope.cancel]
    for act in actions if interrupt_first else reversed(actions):
        act()
    await task
    assert reached[-1] == "behind the scope"
    assert "beyond the scope's end" not in reached
    assert task.cancelling() == 0


async def test_a_task_group_in_it_ends_with_it() -> None:
    ended: list[str] = []

    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("child")

    async def grouped() -> str:
        with block:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child)
                await anyio.sleep_forever()
        return "went on"

    block = Interruptible()
    task = asyncio.ensure_future(grouped())
    for _ in range(3):
        await asyncio.sleep(0)
    block.interrupt()
    assert await task == "went on"
    assert (ended, task.cancelling()) == (["child"], 0)
