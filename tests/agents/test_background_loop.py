"""One loop behind all synchronous faces: there with the first user, gone with the last, never in the way of exit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import anyio.to_thread
import pytest

from gaia import background_loop as background
from gaia.background_loop import BackgroundLoop
from gaia_bridge.errors import LoopEndedError
from gaia_bridge.runtime.lent_loop import (
    Lease,
    _result,  # pyright: ignore[reportPrivateUsage]  # a moment that no test of the whole can hit
)
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio


def run_program(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that has to end by itself."""
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, timeout=30, check=False
    )


async def here() -> threading.Thread:
    return threading.current_thread()


def test_the_thread_lives_from_the_first_lease_to_the_last() -> None:
    loop = BackgroundLoop()
    with loop.acquire() as first:
        thread = first.run(here)
        assert thread.daemon
        with loop.acquire() as second:
            assert second.run(here) is thread
        assert thread.is_alive()
    assert not thread.is_alive()
    with loop.acquire() as third:
        assert third.run(here) is not thread


def test_releasing_twice_gives_back_one_lease() -> None:
    loop = BackgroundLoop()
    first, second = loop.acquire(), loop.acquire()
    first.release()
    first.release()
    assert second.run(here).is_alive()
    second.release()


def test_the_last_release_lets_tasks_close_what_they_hold() -> None:
    closed: list[str] = []
    started = threading.Event()

    async def hold() -> None:
        try:
            started.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    lease = BackgroundLoop().acquire()
    held = lease.start(hold)
    assert started.wait(PATIENCE)
    lease.release()
    assert (closed, held.cancelled(), lease.is_alive) == (["closed"], True, False)


def test_what_a_coroutine_raises_is_raised_where_it_is_waited_for() -> None:
    async def fail() -> None:
        raise LookupError("not there")

    async def give_up() -> None:
        raise TimeoutError("its own")

    with BackgroundLoop().acquire() as lease:
        with pytest.raises(LookupError, match="not there"):
            lease.run(fail)
        with pytest.raises(TimeoutError, match="its own"):
            lease.run(give_up, timeout=PATIENCE)


def test_work_that_takes_too_long_is_cancelled() -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with BackgroundLoop().acquire() as lease:
        with pytest.raises(TimeoutError, match=r"no result within 0\.01 s"):
            lease.run(endless, timeout=0.01)
        assert cancelled.wait(PATIENCE)


def test_a_result_that_comes_at_the_very_moment_is_not_late() -> None:
    class JustInTime(Future[str]):
        def result(self, timeout: float | None = None) -> str:
            if timeout is None:
                return super().result()
            self.set_result("just in time")
            raise TimeoutError

    assert _result(JustInTime(), None, None) == "just in time"


def test_a_check_ends_the_waiting_and_the_work() -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    def check() -> None:
        raise LookupError("nobody waits")

    with BackgroundLoop().acquire() as lease:
        with pytest.raises(LookupError, match="nobody waits"):
            lease.run(endless, check=check)
        assert cancelled.wait(PATIENCE)


@pytest.mark.anyio
async def test_another_loop_can_wait_and_cancelling_the_waiting_cancels_the_work() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def endless() -> None:
        try:
            started.set()
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with BackgroundLoop().acquire() as lease:
        assert await lease.wait(here) is not threading.current_thread()
        waiting = asyncio.create_task(lease.wait(endless))
        await wait_in_thread(started.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await wait_in_thread(cancelled.wait)


@pytest.mark.anyio
async def test_the_end_of_the_loop_is_an_error_and_no_cancellation_for_whoever_waits_on_another() -> None:
    started = threading.Event()

    async def endless() -> None:
        started.set()
        await asyncio.sleep(60)

    lease = BackgroundLoop().acquire()
    waiting = asyncio.create_task(lease.wait(endless))
    await wait_in_thread(started.wait)
    await anyio.to_thread.run_sync(lease.release)
    with pytest.raises(LoopEndedError, match="has ended .* connect again"):
        await waiting


CTRL_C = """
import asyncio, os, signal, sys, threading
from gaia.background_loop import BACKGROUND

cancelled = threading.Event()

async def endless():
    if sys.argv[1] == "process":
        os.kill(os.getpid(), signal.SIGINT)
    else:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    try:
        await asyncio.sleep(60)
    finally:
        cancelled.set()

signal.signal(signal.SIGINT, signal.default_int_handler)
with BACKGROUND.acquire() as lease:
    try:
        lease.run(endless)
    except KeyboardInterrupt:
        print("interrupted", cancelled.wait(10))
"""


@pytest.mark.parametrize("receiver", ["process", "thread"])  # the system chooses the thread, and need not wake ours
def test_ctrl_c_while_waiting_cancels_the_work(receiver: str) -> None:
    assert run_program(CTRL_C, receiver).stdout == "interrupted True\n"


def test_waiting_on_the_loops_own_thread_is_an_error_and_no_deadlock() -> None:
    with BackgroundLoop().acquire() as lease:

        async def wait_for_itself() -> None:
            lease.run(here)

        with pytest.raises(RuntimeError, match="was called on the event loop that it would wait for"):
            lease.run(wait_for_itself, timeout=PATIENCE)


@pytest.mark.anyio
async def test_it_can_be_waited_for_inside_another_running_loop() -> None:
    with BackgroundLoop().acquire() as lease:
        assert lease.run(here) is not threading.current_thread()


def test_many_threads_share_the_loop() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    with BackgroundLoop().acquire() as lease, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(lease.run, partial(double, number)) for number in range(200)]
        assert [answer.result(PATIENCE) for answer in answers] == [2 * number for number in range(200)]


def test_context_variables_of_the_caller_are_seen() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("mine")

    async def look() -> str:
        return variable.get()

    with BackgroundLoop().acquire() as lease:
        assert lease.run(look) == "mine"


def test_a_lease_given_back_on_the_loop_itself_ends_the_thread_without_waiting() -> None:
    lease = BackgroundLoop().acquire()
    thread = lease.run(here)

    async def give_back() -> None:
        lease.release()

    # The answer may come before the loop ends, or be cut off by its end.
    with suppress(RuntimeError):
        lease.run(give_back)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_lease_outlived_by_its_loop_says_so() -> None:
    lease = BackgroundLoop().acquire()
    lease.release()
    for use in (lease.run, lease.start):
        with pytest.raises(RuntimeError, match="has ended .* connect again"):
            use(here)


def test_a_task_is_run_or_refused_however_late_it_is_started() -> None:
    answers: list[object] = []
    loop = background.BackgroundLoop()
    lease = loop.acquire()

    async def late() -> None:
        answers.append("ran")

    async def left_open() -> AsyncGenerator[None]:  # which asyncio closes after all tasks were cancelled
        try:
            yield
        finally:
            try:
                lease.start(late)
            except RuntimeError as error:
                answers.append(str(error))

    async def open_it() -> AsyncGenerator[None]:
        opened = left_open()
        await anext(opened)
        return opened

    opened = lease.run(open_it)
    lease.release()
    del opened
    assert len(answers) == 1 and "has ended" in str(answers[0])


def test_a_task_that_ends_the_loop_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    loop = BackgroundLoop()
    lease = loop.acquire()
    thread = lease.run(here)
    with pytest.raises((RuntimeError, SystemExit)):
        lease.run(leave, timeout=PATIENCE)
    thread.join(PATIENCE)
    assert "the background loop ended early" in caplog.text
    with loop.acquire() as another:
        assert another.run(here) is not thread
    lease.release()


@pytest.mark.parametrize("ends", [True, False])
def test_old_leases_can_be_given_back_by_a_thread_that_is_just_starting(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    loop, leases = BackgroundLoop(), list[Lease]()
    old = loop.acquire()
    thread = old.run(here)
    if ends:
        loop._end_at_exit()  # pyright: ignore[reportPrivateUsage]  # as at the end of the process
    else:
        old.start(leave)
        thread.join(PATIENCE)

    def collect_garbage() -> None:
        old.release()

    monkeypatch.setattr(background, "mark_thread_as_asyncio", collect_garbage)
    starting = threading.Thread(target=lambda: leases.append(loop.acquire()), daemon=True)
    starting.start()
    starting.join(PATIENCE)
    assert not starting.is_alive()
    assert leases[0].run(here) is not thread
    leases[0].release()


EXIT = """
import asyncio
from gaia.background_loop import BACKGROUND

async def hold(how):
    print("held", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        {farewell}

lease = BACKGROUND.acquire()
lease.start(lambda: hold(1))
lease.run(lambda: asyncio.sleep(0))
"""


def test_the_end_of_the_process_closes_what_is_open() -> None:
    ended = run_program(EXIT.format(farewell="print('closed', flush=True)"))
    assert (ended.stdout, ended.stderr, ended.returncode) == ("held\nclosed\n", "", 0)


def test_the_end_of_the_process_waits_a_bounded_time_only() -> None:
    short = "import gaia.background_loop as b; b.BACKGROUND_FAREWELL = 0.1\n"
    ended = run_program(short + EXIT.format(farewell="await asyncio.sleep(60)"))
    assert (ended.stdout, ended.returncode) == ("held\n", 0)
    assert "connections took longer than 0.1 s to close; they are abandoned" in ended.stderr


FORK = """
import asyncio, os, sys
from gaia.background_loop import BACKGROUND

async def pid():
    return os.getpid()

lease = BACKGROUND.acquire()
lease.run(pid)
child = os.fork()
if child == 0:
    try:
        lease.run(pid)
    except RuntimeError as error:
        print("child:", error, flush=True)
    lease.release()
    with BACKGROUND.acquire() as own:
        print("child:", own.run(pid) == os.getpid(), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print("parent:", lease.run(pid) == os.getpid())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_after_a_fork_the_child_begins_anew_and_the_parent_goes_on() -> None:
    ended = run_program(FORK)
    assert ended.stdout.splitlines() == [
        "child: the background loop of this connection has ended (after a fork or at exit); connect again",
        "child: True",
        "parent: True",
    ], ended.stderr
