"""A server that misbehaves, beside one that does not: that one goes on, and nothing is left over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import psutil
import pytest

from gaia_bridge.model import ChangeKind, SourceState, StdioServerSpec
from gaia_bridge.outbound.upstream import Upstream
from gaia_bridge.settings import UpstreamLimits
from tests.outbound_helpers import FakeRequest, Heard, raw_server, running, text_of, until

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(backoff_start=0.02, connect_timeout=5, call_timeout=0.3, ping_timeout=0.1, stop_grace=0.1)


def left_over() -> tuple[Any, set[int], set[str]]:
    """What this process holds: descriptors, children, tasks."""
    process = psutil.Process()
    children = {child.pid for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}
    return process.num_fds(), children, {task.get_name() for task in asyncio.all_tasks()}


async def say(upstream: Upstream, tool: str) -> str:
    """Call a tool, which has to lead to an answer of some kind within five seconds."""
    with anyio.fail_after(5):
        return text_of(await upstream.call_tool(tool, {}, FakeRequest()))


@asynccontextmanager
async def beside_a_good_one(spec: StdioServerSpec, limits: UpstreamLimits = LIMITS) -> AsyncGenerator[Upstream]:
    """An upstream that is about to misbehave. In the end, the one beside it works, and both leave nothing behind."""
    async with running(replace(raw_server(), name="warm-up"), LIMITS):
        pass  # what the first child needs once
    before = left_over()
    async with running(replace(raw_server(), name="good"), LIMITS) as good, running(spec, limits) as upstream:
        yield upstream
        with anyio.fail_after(1):
            assert int(await say(good, "pid")) > 0
        assert good.details["starts"] == 1
    assert left_over() == before


async def in_state(upstream: Upstream, state: SourceState) -> None:
    await until(lambda: upstream.status.state is state)


@pytest.mark.requirement("F-001", "F-002", "F-003")
@pytest.mark.parametrize(
    ("mode", "reason"),
    [("exit", "it exited with code 3 before it completed the handshake"), ("dies listing", "it exited with code 1")],
)
async def test_a_server_that_dies_whenever_it_is_started_is_given_up(mode: str, reason: str) -> None:
    async with beside_a_good_one(raw_server(mode), replace(LIMITS, crashes=3)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.status.reason == f"{reason}; that was failure 3 within 180 s"
        assert upstream.details["starts"] == 3
        assert "is not tried again until somebody asks for it" in await say(upstream, "pid")


@pytest.mark.requirement("F-004")
async def test_a_crash_in_a_call_is_that_calls_error_and_the_server_is_restarted() -> None:
    async with beside_a_good_one(raw_server()) as upstream:
        first = await say(upstream, "pid")
        assert "exited with code 5" in await say(upstream, "crash")
        assert await say(upstream, "pid") != first


@pytest.mark.requirement("F-005")
async def test_a_handshake_that_hangs_ends_at_its_deadline_with_the_child() -> None:
    async with beside_a_good_one(raw_server("silent"), replace(LIMITS, connect_timeout=0.2, crashes=2)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.status.reason.startswith("it did not complete the handshake within 0.2 s")


@pytest.mark.requirement("F-006")
async def test_a_server_that_starts_slowly_is_waited_for_and_delays_nobody() -> None:
    spec = replace(raw_server("slow"), env={"SLOW": "0.5"})
    before_it_started: list[str] = []
    upstream = Upstream(spec, replace(LIMITS, call_timeout=5))
    async with running(replace(raw_server(), name="good"), LIMITS) as good, anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        heard = Heard(upstream)
        with anyio.fail_after(1):
            assert int(await say(good, "pid")) > 0
        before_it_started.append(upstream.status.state.value)
        assert int(await say(upstream, "pid")) > 0
        await heard.until(ChangeKind.TOOLS)
        tasks.cancel_scope.cancel()
    assert before_it_started == ["starting"]


@pytest.mark.requirement("F-007")
async def test_a_server_that_hangs_is_told_and_kept_as_long_as_it_answers_a_ping() -> None:
    async with beside_a_good_one(raw_server()) as upstream:
        for _ in range(3):
            assert "did not answer tools/call within 0.3 s" in await say(upstream, "hang")
        await in_state(upstream, SourceState.READY)
        assert upstream.details["starts"] == 1


@pytest.mark.requirement("F-025")
async def test_a_server_that_closes_its_output_is_as_good_as_dead() -> None:
    async with beside_a_good_one(raw_server()) as upstream:
        first = int(await say(upstream, "pid"))
        assert "closed its standard output" in await say(upstream, "fall silent")
        assert int(await say(upstream, "pid")) != first
        assert not psutil.pid_exists(first) or psutil.Process(first).status() == psutil.STATUS_ZOMBIE


@pytest.mark.requirement("F-034")
async def test_a_server_that_leaves_in_good_order_is_started_when_it_is_used_again() -> None:
    async with beside_a_good_one(raw_server(), replace(LIMITS, crashes=2)) as upstream:
        offer = upstream.offer
        pids: set[str] = set()
        for number in range(1, 6):
            pids.add(await say(upstream, "pid"))
            assert await say(upstream, "leave") == "bye"
            await in_state(upstream, SourceState.STOPPED)
            assert upstream.status.reason == "it exited with code 0; it starts when it is used"
            assert upstream.details["starts"] == number
        assert (len(pids), upstream.offer) == (5, offer)


@pytest.mark.requirement("F-035")
async def test_a_server_that_announces_changes_without_end_costs_a_reading_now_and_then() -> None:
    async with beside_a_good_one(raw_server(), replace(LIMITS, call_timeout=5)) as upstream:
        heard = Heard(upstream)
        await upstream.call_tool("grow", {"by": 300}, FakeRequest())
        await heard.until_that(lambda: len(upstream.offer.tools) == 311)
        assert len(heard.changes) <= 3


@pytest.mark.requirement("F-037")
async def test_a_hostile_tool_is_left_out_alone() -> None:
    async with beside_a_good_one(raw_server("hostile tools")) as upstream:
        assert [tool["name"] for tool in upstream.offer.tools] == ["pid", "recursive", "slow-pattern"]
        reasons = {item.name: item.reason for item in upstream.offer.left_out}
        assert set(reasons) == {"remote", "file", "nowhere", "deep", "bomb", "large", "list", "boolean"}
        assert "leads outside of the schema" in reasons["remote"]
        assert "leads outside of the schema" in reasons["file"]
        assert "leads nowhere" in reasons["nowhere"]
        assert "nested deeper than" in reasons["deep"]
        assert "with its references replaced" in reasons["bomb"]
        assert "bytes" in reasons["large"]


@pytest.mark.requirement("F-043")
async def test_a_program_that_is_not_there_is_looked_for_once() -> None:
    async with beside_a_good_one(StdioServerSpec("up", "no-such-program")) as upstream:
        assert (upstream.status.state, upstream.details["starts"]) == (SourceState.FAILED, 1)
        assert "'no-such-program': No such file or directory" in await say(upstream, "pid")


@pytest.mark.requirement("F-008", "F-009")
async def test_garbage_is_counted_and_shown_and_too_much_of_it_ends_the_server() -> None:
    async with beside_a_good_one(raw_server(), replace(LIMITS, garbage_lines=12)) as upstream:
        await say(upstream, "noise")
        details = upstream.details
        assert (details["garbageLines"], details["errorLines"]) == (5, 2)
        assert details["firstGarbage"][0] == "Listening on stdio..."
        texts = [await say(upstream, "noise") for _ in range(3)]
        assert any("that are no MCP messages" in text for text in texts)
        assert int(await say(upstream, "pid")) > 0
