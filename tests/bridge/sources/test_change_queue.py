"""Each change is told once, in order, and a flood of them is bounded."""

from __future__ import annotations

import anyio
import pytest

from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.sources.change_queue import ChangeQueue
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TOOLS, PROMPTS, RESOURCES = (Change(kind) for kind in (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES))


def updated(uri: str) -> Change:
    return Change(ChangeKind.RESOURCE_UPDATED, uri)


async def test_changes_come_out_in_order_and_each_once() -> None:
    queue = ChangeQueue()
    for change in (TOOLS, updated("a"), TOOLS, PROMPTS, updated("a"), updated("b")):
        queue.put(change)
    with anyio.fail_after(PATIENCE):
        assert [await queue.get() for _ in range(4)] == [TOOLS, updated("a"), PROMPTS, updated("b")]
    queue.put(TOOLS)
    assert await queue.get() == TOOLS


async def test_a_receiver_waits_for_the_next_change() -> None:
    queue, got = ChangeQueue(), list[Change]()

    async def receive() -> None:
        got.append(await queue.get())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            queue.put(RESOURCES)
    assert got == [RESOURCES]


@pytest.mark.requirement("S-14")
async def test_a_flood_of_updates_is_bounded_and_a_changed_list_is_told_all_the_same() -> None:
    queue = ChangeQueue()
    for number in range(10_000):
        queue.put(updated(str(number)))
    queue.put(TOOLS)
    told: list[Change] = []
    with anyio.fail_after(PATIENCE):
        while TOOLS not in told:
            told.append(await queue.get())
    assert 100 < len(told) < 2_000
