"""Tools that are run as tasks only, called by somebody who waits for the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from gaia_bridge.client import Connection, Deadline, RequestTimeoutError
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.protocol.meta import RELATED_TASK_KEY as RELATED_TASK
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, Role, Script, Wire, connected, legacy

pytestmark = pytest.mark.anyio

LIMITS = replace(QUICK, poll_floor=0)
TASKS: JSON = {"tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}, "tools": {}}
TOOLS = [
    {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "either", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
    {"name": "odd", "inputSchema": {"type": "object"}, "execution": 5},
    "no tool",
]
RELATED: JSON = {RELATED_TASK: {"taskId": "t"}}
RESULT: JSON = {"content": [{"type": "text", "text": "done"}]}


def working(**fields: Any) -> JSON:
    return {"taskId": "t", "status": "working", "pollInterval": 0, **fields}


@asynccontextmanager
async def listed(
    script: Script, delegate: Role | None = None, capabilities: JSON = TASKS, limits: UpstreamLimits = LIMITS
) -> AsyncGenerator[tuple[Connection, Wire]]:
    """A connection whose tools are known."""

    async def run(wire: Wire) -> None:
        wire.answer(await wire.next("tools/list"), {"tools": TOOLS})
        await script(wire)

    async with connected(legacy(run, capabilities), delegate=delegate, limits=limits) as (connection, wire):
        await connection.list_all("tool")
        yield connection, wire


async def called(connection: Connection, name: str = "slow", **more: Any) -> JSON:
    return await connection.request("tools/call", {"name": name, "arguments": {}}, **more)


def asked(wire: Wire) -> list[str]:
    methods = [message["method"] for message in wire.received if "method" in message]
    return methods[methods.index("tools/list") + 1 :]


@pytest.mark.requirement("P-206")
async def test_a_task_is_made_watched_and_its_result_fetched() -> None:
    async def script(wire: Wire) -> None:
        made = await wire.next("tools/call")
        assert made["params"]["task"] == {"ttl": 5_000}
        wire.answer(made, {"task": working()})
        for status in ("working", "completed"):
            poll = await wire.next("tasks/get")
            assert poll["params"]["taskId"] == "t"
            wire.answer(poll, working(status=status))
        fetched = await wire.next("tasks/result")
        assert fetched["params"]["taskId"] == "t"
        wire.answer(fetched, {**RESULT, "_meta": {**RELATED, "a/b": 1}})

    async with listed(script) as (connection, wire):
        assert await called(connection, deadline=Deadline(2, 5)) == {**RESULT, "_meta": {"a/b": 1}}
        assert asked(wire) == ["tools/call", "tasks/get", "tasks/get", "tasks/result"]


async def test_what_the_server_says_of_it_is_its_progress_unless_it_reports_some() -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def hear(report: Progress) -> None:
        reports.append((report.progress, report.total, report.message))

    async def script(wire: Wire) -> None:
        made = await wire.next("tools/call")
        wire.answer(made, {"task": working(statusMessage="reading")})
        for message in ("reading", "writing"):
            wire.answer(await wire.next("tasks/get"), working(statusMessage=message, pollInterval=20))
        poll = await wire.next("tasks/get")
        wire.progress(made, 0.5, total=1, message="half")
        wire.answer(poll, working(statusMessage="never told", pollInterval=20))
        wire.answer(await wire.next("tasks/get"), working(status="completed"))
        wire.answer(await wire.next("tasks/result"), RESULT)

    async with listed(script) as (connection, _):
        assert await called(connection, on_progress=hear) == RESULT
    assert reports[:2] == [(1, None, "reading"), (2, None, "writing")]
    assert (0.5, 1, "half") in reports


async def test_what_a_task_asks_belongs_to_the_call() -> None:
    calls: list[int | None] = []

    class Asked(Role):
        async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
            calls.append(during)
            return await super().answer(method, params)

    form: JSON = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}

    async def script(wire: Wire) -> None:
        made = await wire.next("tools/call")
        wire.answer(made, {"task": working(status="input_required")})
        fetched = await wire.next("tasks/result")
        wire.ask("over a pipe", "elicitation/create", {**form, "_meta": RELATED})
        assert (await wire.next())["result"] == {"action": "decline"}
        wire.ask("over http", "elicitation/create", form, during=fetched["id"])
        assert (await wire.next())["result"] == {"action": "decline"}
        wire.answer(fetched, RESULT)

    delegate = Asked({"elicitation": {}}, elicitation={"action": "decline"})
    async with listed(script, delegate) as (connection, _):
        number = connection.new_id()
        assert await called(connection, number=number) == RESULT
    assert calls == [number, number]
    assert [params.get("_meta") for _, params in delegate.asked] == [{}, None]


async def test_what_a_task_says_names_no_task_that_only_we_know() -> None:
    reports: list[Progress] = []
    said: list[tuple[JSON, int | None]] = []

    class Told(Role):
        def notified(self, method: str, params: JSON, during: int | None = None) -> None:
            said.append((params, during))

    async def hear(report: Progress) -> None:
        reports.append(report)

    async def script(wire: Wire) -> None:
        made = await wire.next("tools/call")
        wire.answer(made, {"task": working(status="completed")})
        fetched = await wire.next("tasks/result")
        for meta in (RELATED, {**RELATED, "a/b": 1}, {RELATED_TASK: {"taskId": "of another"}}):
            wire.notify("notifications/message", {"level": "info", "data": 1, "_meta": meta})
        wire.notify("notifications/message", {"level": "info", "data": 2, "_meta": RELATED}, during=fetched["id"])
        wire.answer(fetched, RESULT)

    async def reporting(wire: Wire) -> None:
        made = await wire.next("tools/call")
        wire.answer(made, {"task": working()})
        poll = await wire.next("tasks/get")
        wire.progress(made, 1, _meta=RELATED)
        wire.progress(made, 2, _meta={**RELATED, "a/b": 1})
        wire.answer(poll, working(pollInterval=20))
        wire.answer(await wire.next("tasks/get"), working(status="completed"))
        wire.answer(await wire.next("tasks/result"), RESULT)

    async with listed(script, Told()) as (connection, _):
        number = connection.new_id()
        assert await called(connection, number=number) == RESULT
    of_another = {RELATED_TASK: {"taskId": "of another"}}
    assert [(params["_meta"], during) for params, during in said] == [
        ({}, None),
        ({"a/b": 1}, None),
        (of_another, None),
        ({}, number),
    ]
    async with listed(reporting) as (connection, _):
        assert await called(connection, on_progress=hear) == RESULT
    assert reports == [Progress(1), Progress(2, meta={"a/b": 1})]


async def test_whoever_cancels_the_call_cancels_the_task() -> None:
    over = anyio.Event()

    async def script(wire: Wire) -> None:
        wire.answer(await wire.next("tools/call"), {"task": working(pollInterval=30_000)})
        cancelled = await wire.next("tasks/cancel")
        assert cancelled["params"]["taskId"] == "t"
        wire.answer(cancelled, working(status="cancelled"))
        over.set()

    async with listed(script) as (connection, wire), anyio.create_task_group() as tasks:
        tasks.start_soon(called, connection)
        while "tools/call" not in asked(wire):
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert over.is_set()


async def test_a_task_that_does_not_end_is_cancelled_at_its_deadline() -> None:
    async def script(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if request["method"] == "tools/call":
                wire.answer(request, {"task": working(pollInterval=20)})
            elif "id" in request:
                wire.answer(request, working(pollInterval=20))

    async with listed(script) as (connection, wire):
        with pytest.raises(RequestTimeoutError, match="did not answer tools/call within 0.2 s"):
            await called(connection, deadline=Deadline(2, 0.2))
        assert asked(wire)[-1] == "tasks/cancel"


@pytest.mark.parametrize("interval", [10**400, -(10**400), 1e308, "soon", True, None, {}])
async def test_a_task_is_asked_about_whatever_its_server_says_of_how_often(interval: object) -> None:
    async def script(wire: Wire) -> None:
        wire.answer(await wire.next("tools/call"), {"task": working(pollInterval=interval)})
        wire.answer(await wire.next("tasks/get"), working(status="completed"))
        wire.answer(await wire.next("tasks/result"), RESULT)

    limits = replace(LIMITS, poll_cap=0.01, poll_interval=0.01)
    async with listed(script, limits=limits) as (connection, _):
        assert await called(connection) == RESULT


async def test_calls_whose_server_gives_them_the_same_task_are_answered_all_the_same() -> None:
    async def script(wire: Wire) -> None:
        made = [await wire.next("tools/call") for _ in range(2)]
        for request in made:
            wire.answer(request, {"task": working(status="completed")})
        for _ in made:
            wire.answer(await wire.next("tasks/result"), RESULT)

    results: list[JSON] = []

    async def call(connection: Connection) -> None:
        results.append(await called(connection))

    async with listed(script) as (connection, _), anyio.create_task_group() as tasks:
        tasks.start_soon(call, connection)
        tasks.start_soon(call, connection)
    assert results == [RESULT, RESULT]


async def test_a_task_that_fails_is_the_failure_of_the_call() -> None:
    async def script(wire: Wire) -> None:
        for answers in (True, False):
            wire.answer(await wire.next("tools/call"), {"task": working(status="failed")})
            fetched = await wire.next("tasks/result")
            if answers:
                wire.answer(fetched, {**RESULT, "isError": True})
            else:
                wire.refuse(fetched, -32000, "it broke")
        wire.answer(await wire.next("tools/call"), {"task": working(status="cancelled")})
        wire.answer(await wire.next("tasks/cancel"), {})

    async with listed(script) as (connection, _):
        assert (await called(connection))["isError"] is True
        with pytest.raises(ProtocolError, match="it broke"):
            await called(connection)
        with pytest.raises(UpstreamError, match="cancelled the task"):
            await called(connection)


async def test_only_tools_that_need_it_are_called_as_tasks_and_callers_may_make_tasks_themselves() -> None:
    async def script(wire: Wire) -> None:
        for _ in range(3):
            made = await wire.next("tools/call")
            wire.answer(made, {"task": made["params"].get("task")})

    async with listed(script) as (connection, _):
        assert await called(connection, "either") == {"task": None}
        assert await called(connection, "odd") == {"task": None}
        made = await connection.request("tools/call", {"name": "slow", "task": {"ttl": 1}})
        assert made == {"task": {"ttl": 1}}


async def test_a_server_that_declares_no_tasks_is_asked_for_none() -> None:
    async def script(wire: Wire) -> None:
        made = await wire.next("tools/call")
        assert "task" not in made["params"]
        wire.answer(made, RESULT)

    async with listed(script, capabilities={"tools": {}, "tasks": {"requests": {}}}) as (connection, _):
        assert await called(connection) == RESULT
