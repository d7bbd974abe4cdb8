"""A block that others can end goes by the rules of cancellation, of asyncio's and of anyio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from gaia_bridge.client.interruptible import Interruptible

pytestmark = pytest.mark.anyio


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
