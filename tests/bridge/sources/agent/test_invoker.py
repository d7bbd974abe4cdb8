"""What one agent may use of the process, and how its calls end."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent, MCPAgent, tool
from gaia_bridge.calls.parked_calls import Question
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import (
    BusyError,
    RequestCancelledError,
)
from gaia_bridge.model import Progress
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.invocation import Invocation
from gaia_bridge.sources.agent.invoker import AgentInvoker
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import call, published
from tests.support.agents import one_tool
from tests.support.processes import threads_named
from tests.support.upstreams import FakeRequest, text_of
from tests.support.waiting import PATIENCE, wait_in_thread


@pytest.mark.anyio
@pytest.mark.requirement("S1-17", "F-107")
async def test_as_many_calls_run_side_by_side_as_the_agent_has_threads() -> None:
    together = threading.Barrier(8)
    async with published(one_tool(lambda _: together.wait(PATIENCE))) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(call, source)
    assert not together.broken


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_one_call_too_many_is_told_busy_and_a_busy_agent_keeps_its_tools() -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    def block(arguments: JSON) -> str:
        running.release()
        assert release.wait(PATIENCE)
        return "done"

    limits = AgentLimits(threads=2, queue=1, definitions_max_age=0)
    async with published(one_tool(block), limits) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call, source)
            for _ in range(2):
                await wait_in_thread(lambda seconds: running.acquire(timeout=seconds))
            result = await call(source)
            assert result["isError"] is True
            assert text_of(result) == "test is busy: 2 calls running, 1 waiting. Try again in a moment."
            await source.refresh()
            assert [item["name"] for item in source.features.tools] == ["work"]
            assert not source.features.left_out
            release.set()
        assert text_of(await call(source)) == "done"


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_call_over_its_deadline_is_an_error_and_its_code_can_know(blocking: bool) -> None:
    knew = threading.Event()

    def sync(arguments: JSON) -> None:
        if get_request_context().wait_cancelled(PATIENCE):
            knew.set()

    async def coroutine(arguments: JSON) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            knew.set()

    async with published(one_tool(sync if blocking else coroutine), AgentLimits(call_timeout=0.05)) as source:
        result = await call(source)
        assert result["isError"] is True
        assert text_of(result) == "tool 'work' did not finish within 0.05 s"
        await wait_in_thread(knew.wait)


class PlainSleeper:
    @tool(timeout=0.05)
    async def work(self) -> None:
        """Sleep."""
        await asyncio.Event().wait()


class SleepingAgent(Agent):
    work = PlainSleeper.work


class SleepingMCPAgent(MCPAgent):
    work = PlainSleeper.work


class ListingMCPAgent(SleepingMCPAgent):
    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [*super().get_mcp_tool_definitions(), {"name": "other", "inputSchema": {"type": "object"}}]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [PlainSleeper, SleepingAgent, SleepingMCPAgent, ListingMCPAgent])
async def test_the_deadline_in_a_tools_decorator_holds_for_every_kind_of_agent(kind: Callable[[], Any]) -> None:
    async with published(kind()) as source:
        await source.learn()
        assert text_of(await call(source)) == "tool 'work' did not finish within 0.05 s"


@pytest.mark.anyio
async def test_how_a_cancelled_call_ended_is_not_what_came_of_it() -> None:
    call, done = Invocation(AgentLimits(), LoopHandle()), Outcome(1)
    call.cancel("it took too long")
    call.finish(Outcome(None, asyncio.CancelledError()))
    assert call.outcome is None, "or its deadline would look like a failure of the agent, if the agent is quick to end"
    other = Invocation(AgentLimits(), LoopHandle())
    other.finish(done)
    other.cancel("it is over")
    assert other.outcome is done


@pytest.mark.anyio
async def test_a_cancelled_request_cancels_the_call_and_nobody_is_left_waiting() -> None:
    started, knew = threading.Event(), threading.Event()

    def work(arguments: JSON) -> None:
        request = get_request_context()
        assert not request.cancelled
        started.set()
        if request.wait_cancelled(PATIENCE) and request.cancelled:
            knew.set()

    async with published(one_tool(work)) as source:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, source)
            await wait_in_thread(started.wait)
            tasks.cancel_scope.cancel()
        await wait_in_thread(knew.wait)


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_calls_in_flight_end_when_the_agent_is_no_longer_published(blocking: bool) -> None:
    started, knew = threading.Event(), threading.Event()

    def sync(arguments: JSON) -> None:
        request = get_request_context()
        started.set()
        request.wait_cancelled(PATIENCE)
        try:
            request.raise_if_cancelled()
        except RequestCancelledError as error:
            assert str(error) == "the agent is no longer published"
            knew.set()

    async def coroutine(arguments: JSON) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            knew.set()

    source = AgentSource(one_tool(sync if blocking else coroutine), "test", AgentLimits())
    results: list[JSON] = []

    async def ask() -> None:
        results.append(await call(source))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as outer:
            async with anyio.create_task_group() as inner:
                await inner.start(source.run)
                outer.start_soon(ask)
                await wait_in_thread(started.wait)
                inner.cancel_scope.cancel()
    assert results[0]["isError"] is True
    assert text_of(results[0]) == "the agent is no longer published"
    await wait_in_thread(knew.wait)


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_what_an_agent_leaves_running_cannot_ask_when_the_call_is_over(blocking: bool) -> None:
    over, errors, ended = threading.Event(), list[BaseException](), threading.Event()
    left_running: list[Any] = []

    def sync(arguments: JSON) -> str:
        request = get_request_context()

        def ask_later() -> None:
            over.wait(PATIENCE)
            try:
                request.list_roots()
            except RequestCancelledError as error:
                errors.append(error)
                assert request.cancelled
            ended.set()

        threading.Thread(target=ask_later, daemon=True).start()
        return "done"

    async def coroutine(arguments: JSON) -> str:
        request = get_request_context()

        async def ask_later() -> None:
            await asyncio.to_thread(over.wait, PATIENCE)
            try:
                await request.alist_roots()
            except RequestCancelledError as error:
                errors.append(error)
            ended.set()

        left_running.append(asyncio.get_running_loop().create_task(ask_later()))
        return "done"

    async with published(one_tool(sync if blocking else coroutine)) as source:
        assert text_of(await call(source)) == "done"
        over.set()
        await wait_in_thread(ended.wait)
    assert [str(error) for error in errors] == ["tool 'work' is over"]


@pytest.mark.anyio
async def test_nothing_can_be_called_once_the_agent_is_no_longer_published() -> None:
    async with published(one_tool(lambda _: "x")) as source:
        pass
    result = await call(source)
    assert result["isError"] is True


@pytest.mark.anyio
async def test_an_unpublished_agent_leaves_no_thread_behind() -> None:
    before = threading.enumerate()
    async with published(one_tool(lambda _: asyncio.sleep(0))) as source:
        await call(source)
        threads = threads_named("agent test", before)
        assert threads
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, PATIENCE)
        assert not thread.is_alive()


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_an_agent_that_floods_its_client_starves_nobody() -> None:
    class Quick(FakeRequest):
        """The request of a client that wants no progress: there is nothing to wait for."""

        async def report_progress(self, report: Progress) -> None:
            self.progress.append((report.progress, report.total, report.message))

    stop, flooded = threading.Event(), threading.Event()

    def flood(arguments: JSON) -> str:
        request = get_request_context()
        deadline = time.monotonic() + PATIENCE / 2
        for number in itertools.count():
            request.report_progress(number)
            if number == 1_000:
                flooded.set()
            if stop.is_set():
                return "stopped"
            if time.monotonic() > deadline:
                break
        return "nobody came to stop it"

    request, results = Quick(), list[JSON]()

    async def call_it() -> None:
        results.append(await source.call_tool("work", {}, request))

    async with published(one_tool(flood), AgentLimits(notes=10)) as source:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_it)
            await wait_in_thread(flooded.wait)
            for _ in range(10):  # the loop comes round while the flood goes on
                await anyio.lowlevel.checkpoint()
            stop.set()
    assert text_of(results[0]) == "stopped"
    numbers = [progress for progress, _, _ in request.progress]
    assert numbers == sorted(numbers)


@pytest.mark.anyio
async def test_progress_and_logs_come_in_order_and_before_the_result() -> None:
    def work(arguments: JSON) -> str:
        request = get_request_context()
        for number in range(100):
            request.report_progress(number, 100, f"step {number}")
            request.log({"step": number}, "debug", "worker")
        return "done"

    request = FakeRequest()
    async with published(one_tool(work)) as source:
        result = await source.call_tool("work", {}, request)
    assert text_of(result) == "done"
    assert request.progress == [(number, 100, f"step {number}") for number in range(100)]
    assert request.logs == [("debug", {"step": number}, "worker") for number in range(100)]


@pytest.mark.anyio
@pytest.mark.requirement("F-103", "F-104", "F-105")
async def test_anything_can_be_logged_and_reported_in_valid_text() -> None:
    odd: Any = 5

    def work(arguments: JSON) -> None:
        request = get_request_context()
        for data in ("\ud800", float("nan"), object(), {"k": {1, 2}}, "x" * 1_000):
            request.log(data, logger=odd)
        request.log("x", logger="\ud800")
        request.report_progress(1, 2, "\ud800")
        request.report_progress(2, 2, odd)

    request = FakeRequest()
    async with published(one_tool(work), AgentLimits(log_bytes=100)) as source:
        assert not (await source.call_tool("work", {}, request)).get("isError")
    json.dumps([request.logs, request.progress], ensure_ascii=False, allow_nan=False).encode()
    assert [logger for _, _, logger in request.logs] == ["5"] * 5 + ["?"]
    assert len(request.logs[4][1]) <= 100
    assert [message for _, _, message in request.progress] == ["?", "5"]


def test_an_answer_that_comes_twice_or_too_late_is_ignored() -> None:
    question = Question("q1", "roots/list", {})
    question.answer({"roots": []})
    question.answer({"roots": [1]})
    question.fail(ValueError())
    assert question.reply.result() == {"roots": []}
    late = Question("q2", "roots/list", {})
    late.reply.cancel()
    late.answer({"roots": []})
    late.fail(ValueError())
    assert late.reply.cancelled()


def test_busy_is_an_error_of_one_request() -> None:
    assert str(BusyError("a", 1, 0)).startswith("a is busy: 1 calls running, 0 waiting")


@pytest.mark.anyio
@pytest.mark.requirement("F-253")
@pytest.mark.parametrize(("size", "alone"), [(2_000, True), (10, False)])
async def test_large_results_of_an_agent_are_made_one_by_one(size: int, alone: bool) -> None:
    limits = AgentLimits(large_result_bytes=1_000)
    runner = AgentRunner("test", limits.threads, limits.queue)
    performer = AgentInvoker(runner, limits)
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
