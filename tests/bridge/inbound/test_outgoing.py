"""What goes out: large results at once hold nobody else up, and a result is written once to find out what it is."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import anyio
import pydantic_core
import pytest
from anyio.lowlevel import checkpoint
from gaia_bridge.inbound.outgoing import Outgoing

from gaia_bridge import jsontypes, text
from gaia_bridge.inbound import call_log, outgoing
from gaia_bridge.inbound.backlog import Backlog
from gaia_bridge.inbound.performing import Performer
from gaia_bridge.jsontypes import JSON
from gaia_bridge.runtime import AgentRunner
from gaia_bridge.settings import AgentLimits, BacklogLimits
from tests.helpers import PATIENCE, one_tool, running_bridge
from tests.outbound_helpers import FakeRequest

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("F-253")
@pytest.mark.parametrize(("size", "at_once"), [(2_000, 1), (500, 5)])
async def test_others_have_a_turn_between_two_large_results_and_small_ones_wait_for_nobody(
    size: int, at_once: int
) -> None:
    nobody_listens = Mock(begin=Mock(return_value=None))
    pacing, turns, released = Outgoing(nobody_listens, 1_000, Backlog(BacklogLimits())), 0, list[int]()
    everybody_is_there = anyio.Event()

    async def answer(_: Any) -> JSON:
        await everybody_is_there.wait()
        return {"content": "x" * size}

    async def call() -> None:
        context: Any = SimpleNamespace(method="tools/list", request_id=1)
        await pacing(context, answer)
        released.append(turns)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            everybody_is_there.set()
            while len(released) < 5:
                await checkpoint()
                turns += 1
    assert max(released.count(turn) for turn in released) == at_once
    if at_once == 1:
        assert all(later - earlier >= 10 for earlier, later in zip(released, released[1:], strict=False))


@pytest.mark.requirement("F-310")
@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_a_result_is_written_once_for_all_who_want_to_know_its_size(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(level, "gaia_bridge.inbound.call_log")
    written = list[Any]()

    def to_json(value: Any) -> bytes:
        written.append(value)
        return pydantic_core.to_json(value)

    async with running_bridge(one_tool(lambda _: "found")) as running, running.client("legacy") as client:
        for module in (call_log, text, jsontypes, outgoing):
            monkeypatch.setattr(module, "to_json", to_json, raising=False)
        await client.call_tool("work", {})
    results = [value for value in written if "content" in value]
    assert len(results) == 1
    size = len(pydantic_core.to_json(results[0]))
    told = [record.getMessage() for record in caplog.records if record.name == call_log.__name__]
    assert [line.endswith(f", {size} B out") for line in told] == [True] * (level == logging.INFO)


@pytest.mark.requirement("F-253")
@pytest.mark.parametrize(("size", "alone"), [(2_000, True), (10, False)])
async def test_large_results_of_an_agent_are_made_one_by_one(size: int, alone: bool) -> None:
    limits = AgentLimits(large_result_bytes=1_000)
    runner = AgentRunner("test", limits.threads, limits.queue)
    performer = Performer(runner, limits)
    together, met = threading.Barrier(4), list[bool]()

    def convert(value: str) -> JSON:
        try:
            together.wait(0.2 if alone else PATIENCE)
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        return {"resultType": "complete", "content": []}

    async def call() -> None:
        await performer.perform(lambda: "x" * size, FakeRequest(), "tool", convert)

    try:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(call)
    finally:
        runner.close()
    assert met == [not alone] * 4
