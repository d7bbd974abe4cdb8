"""Tasks and events of the background loop, in the hands of another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from gaia.background_loop import BackgroundLoop
from gaia.mcp.aio.handles import ServerTask, StopEvent
from gaia_bridge.runtime.lent_loop import Lease
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.anyio


class Held:
    """A task on another loop that ends when it is told to.

    Args:
        fails: Whether it raises something then.
    """

    def __init__(self, fails: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._fails = fails
        self.task = ServerTask(self._run(), loop=self.loop)

    def end(self) -> None:
        """Tell it to."""
        self.loop.call_soon_threadsafe(self._end.set)

    async def _run(self) -> None:
        await self._end.wait()
        if self._fails:
            raise LookupError("as it was told to")


@asynccontextmanager
async def held(fails: bool = False) -> AsyncGenerator[tuple[Held, Lease]]:
    """A task on a background loop."""

    async def make() -> Held:
        return Held(fails)

    with BackgroundLoop().acquire() as lease:
        found = await lease.wait(make)
        with anyio.fail_after(10):
            yield found, lease
        found.end()


async def test_a_task_is_awaited_on_another_loop_and_on_its_own() -> None:
    async with held() as (found, lease):

        async def wait_there() -> None:
            await found.task

        there = asyncio.create_task(lease.wait(wait_there))
        here = asyncio.ensure_future(asyncio.wait({found.task}))
        found.end()
        await found.task
        await there
        done, pending = await here
        assert (done, pending) == ({found.task}, set())
        await found.task  # once more, when it is over


async def test_what_a_task_raises_is_raised_where_it_is_awaited() -> None:
    async with held(fails=True) as (found, _):
        found.end()
        with pytest.raises(LookupError, match="as it was told"):
            await found.task


async def test_who_gives_up_waiting_leaves_the_task_alone() -> None:
    async with held() as (found, _):
        with anyio.move_on_after(0.01):
            await found.task
        assert not found.task.done()


async def test_a_task_is_cancelled_from_another_loop_once() -> None:
    async with held() as (found, _):
        assert found.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await found.task
        assert found.task.cancelled()
        assert not found.task.cancel()


def test_a_task_is_cancelled_and_watched_without_a_loop() -> None:
    called: list[object] = []

    async def make() -> Held:
        return Held()

    with BackgroundLoop().acquire() as lease:
        found = lease.run(make)
        found.task.add_done_callback(called.append)
        assert found.task.cancel()
        eventually(lambda: called == [found.task])
    assert not found.task.cancel()


async def test_a_task_of_a_loop_that_is_gone_is_over() -> None:
    async def make() -> Held:
        return Held()

    with BackgroundLoop().acquire() as lease:
        found = await lease.wait(make)
    with anyio.fail_after(10), pytest.raises(asyncio.CancelledError):
        await found.task


async def test_setting_an_event_tells_so_wherever_it_is_set() -> None:
    told: list[bool] = []
    event = StopEvent(lambda: told.append(True))
    assert not event.is_set()
    await asyncio.to_thread(event.set)
    assert (event.is_set(), told) == (True, [True])
    with anyio.fail_after(PATIENCE):
        await event.wait()
