"""Requests: their ids, answers, progress, deadlines and ends."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.client import Deadline, RequestTimeoutError
from gaia_bridge.client.transport import ConnectionLostError, SessionExpiredError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Role, Wire, connected, legacy, modern, serving
from tests.support.on_demand import mcp_types, mcp_versions

pytestmark = pytest.mark.anyio

Report = tuple[float, float | None, str | None]


async def never(*report: Any) -> None:
    raise AssertionError(f"there was no reason to report {report}")


async def test_a_request_and_its_result_are_relayed_as_they_are() -> None:
    params = {"name": "x", "arguments": {"a": None}, "x-extra": [1], "_meta": {"vendor/key": {"a": [None]}}}
    result: JSON = {"content": [], "x-result": {"null": None}, "_meta": {"vendor/key": 1}}
    async with connected(legacy(serving(tools=result))) as (connection, wire):
        assert await connection.request("tools/call", params) == result
        sent = wire.received[-1]
        meta = {"vendor/key": {"a": [None]}, "progressToken": sent["id"]}
        assert sent == {"jsonrpc": "2.0", "id": sent["id"], "method": "tools/call", "params": {**params, "_meta": meta}}


async def test_a_request_without_parameters_that_no_progress_prolongs_is_sent_without_any() -> None:
    async with connected(legacy(serving(prompts={}))) as (connection, wire):
        assert await connection.request("prompts/list", deadline=Deadline(5, 5)) == {}
        assert "params" not in wire.received[-1]


async def test_a_modern_request_says_who_asks_and_keeps_what_the_caller_says() -> None:
    params: JSON = {"uri": "x:y", "_meta": {"vendor/key": 1, mcp_types.CLIENT_CAPABILITIES_META_KEY: {"roots": {}}}}
    async with connected(modern(serving(resources={"contents": []}))) as (connection, wire):
        await connection.request("resources/read", params)
        assert wire.received[-1]["params"] == {
            "uri": "x:y",
            "_meta": {
                "vendor/key": 1,
                mcp_types.PROTOCOL_VERSION_META_KEY: mcp_versions.LATEST_MODERN_VERSION,
                mcp_types.CLIENT_INFO_META_KEY: {"name": "tester", "version": "2"},
                mcp_types.CLIENT_CAPABILITIES_META_KEY: {"roots": {}},
                "progressToken": wire.received[-1]["id"],
            },
        }
        assert params["_meta"] == {"vendor/key": 1, mcp_types.CLIENT_CAPABILITIES_META_KEY: {"roots": {}}}


async def test_a_modern_caller_cannot_claim_another_revision() -> None:
    async with connected(modern(serving(tools={}))) as (connection, wire):
        await connection.request("tools/call", {"_meta": {mcp_types.PROTOCOL_VERSION_META_KEY: "1999"}})
        assert (
            wire.received[-1]["params"]["_meta"][mcp_types.PROTOCOL_VERSION_META_KEY]
            == mcp_versions.LATEST_MODERN_VERSION
        )


@pytest.mark.requirement("F-023", "C-24")
async def test_ids_are_never_used_twice() -> None:
    async with connected(legacy(serving(tools={}))) as (connection, wire):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(connection.request, "tools/call")
        await connection.request("tools/call")
        ids = [message["id"] for message in wire.received if "id" in message]
        assert len(ids) == len(set(ids)) == 53
        assert all(type(number) is int and number > 0 for number in ids)


@pytest.mark.requirement("F-024", "C-24", "P-3")
@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(12)))
def test_answers_in_any_order_reach_whoever_asked(order: list[int]) -> None:
    async def shuffles(wire: Wire) -> None:
        requests = [await wire.next("tools/call") for _ in order]
        for index in order:
            wire.answer(requests[index], {"for": requests[index]["params"]["caller"]})

    answers: dict[int, Any] = {}

    async def run() -> None:
        async with connected(legacy(shuffles)) as (connection, _):

            async def call(caller: int) -> None:
                answers[caller] = await connection.request("tools/call", {"caller": caller})

            async with anyio.create_task_group() as tasks:
                for caller in order:
                    tasks.start_soon(call, caller)

    anyio.run(run)
    assert answers == {caller: {"for": caller} for caller in order}


@pytest.mark.requirement("F-019", "F-020", "F-021", "F-022")
async def test_answers_that_nobody_waits_for_are_dropped() -> None:
    async def confuses(wire: Wire) -> None:
        request = await wire.next("tools/call")
        number = request["id"]
        for odd in (999_999, f"{number}.0", number + 0.5, None, True, [number]):
            wire.respond({"id": odd, "result": {"wrong": odd}})
        wire.respond({"id": None, "error": {"code": -32700, "message": "parse error"}})
        wire.answer(request, {"right": True})
        wire.answer(request, {"second": True})

    async with connected(legacy(confuses)) as (connection, wire):
        assert await connection.request("tools/call") == {"right": True}
        assert wire.unexpected == 8


async def test_a_json_rpc_error_is_raised_with_its_code_and_data() -> None:
    async def refuses(wire: Wire) -> None:
        wire.refuse(await wire.next("tools/call"), -31999, "not\ntoday", {"until": "monday"})

    async with connected(legacy(refuses)) as (connection, _):
        with pytest.raises(ProtocolError) as caught:
            await connection.request("tools/call")
    assert (caught.value.code, caught.value.message, caught.value.data) == (-31999, "not\ntoday", {"until": "monday"})


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"result": None},
        {"result": []},
        {"result": "text"},
        {"error": None},
        {"error": "text"},
        {"error": {}},
        {"error": {"code": "1", "message": "x"}},
        {"error": {"code": True, "message": "x"}},
        {"error": {"code": 1}},
        {"error": {"code": 1, "message": None}},
    ],
)
async def test_a_response_that_is_none_is_the_failure_of_that_request_only(response: JSON) -> None:
    async def odd(wire: Wire) -> None:
        wire.respond({"id": (await wire.next("tools/call"))["id"]} | response)
        wire.answer(await wire.next("prompts/get"), {"messages": []})

    async with connected(legacy(odd)) as (connection, _):
        with pytest.raises(UpstreamError, match="^answered tools/call with (neither a result|an error that has no)"):
            await connection.request("tools/call")
        assert await connection.request("prompts/get") == {"messages": []}


@pytest.mark.requirement("P-6")
@pytest.mark.parametrize("server", [legacy, modern])
async def test_progress_is_passed_on_in_order_and_before_the_result(server: Any) -> None:
    reports: list[Report] = []

    async def works(wire: Wire) -> None:
        request = await wire.next("tools/call")
        wire.progress(request, 1, total=3, message="one")
        wire.progress(request, 1.5)
        wire.progress(request, 2, total="three", message=2)
        wire.progress(request, "no number")
        wire.progress(request, True)
        wire.answer(request, {})

    async def slow_receiver(report: Progress) -> None:
        await anyio.lowlevel.checkpoint()
        reports.append((report.progress, report.total, report.message))

    async with connected(server(works)) as (connection, _):
        await connection.request("tools/call", {"_meta": {"progressToken": "theirs"}}, on_progress=slow_receiver)
    assert reports == [(1, 3, "one"), (1.5, None, None), (2, None, None)]


@pytest.mark.requirement("P-6")
async def test_progress_reaches_only_the_request_that_it_is_for_and_only_while_that_runs() -> None:
    reports: dict[str, list[float]] = {"a": [], "b": []}

    async def works(wire: Wire) -> None:
        first, second = await wire.next("tools/call"), await wire.next("tools/call")
        wire.progress(second, 20)
        wire.progress(first, 10)
        wire.notify("notifications/progress", {"progressToken": "x", "progress": 1})
        wire.notify("notifications/progress", {"progressToken": None, "progress": 1})
        wire.notify("notifications/progress", {"progressToken": True, "progress": 1})
        wire.notify("notifications/progress")
        wire.answer(first, {})
        await wire.next("done")
        wire.progress(first, 11)
        wire.progress(second, 21)
        wire.answer(second, {})

    async with connected(legacy(works)) as (connection, _):

        async def call(name: str) -> None:
            async def report(told: Progress) -> None:
                reports[name].append(told.progress)

            await connection.request("tools/call", {"name": name}, on_progress=report)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "b")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(call, "a")
            await anyio.wait_all_tasks_blocked()
            await connection.notify("done")
    assert reports == {"a": [20, 21], "b": [10]}


async def test_a_token_of_another_connection_is_replaced_by_our_own_or_left_out() -> None:
    meta = {"progressToken": 7, "vendor/key": 1}
    async with connected(legacy(serving(tools={}))) as (connection, wire):
        await connection.request("tools/call", {"_meta": meta}, number=(number := connection.new_id()))
        assert wire.received[-1]["params"] == {"_meta": {"vendor/key": 1, "progressToken": number}}
        await connection.request("tools/call", {"_meta": meta}, deadline=Deadline(5, 5))
        assert wire.received[-1]["params"] == {"_meta": {"vendor/key": 1}}
        assert meta == {"progressToken": 7, "vendor/key": 1}


async def test_what_the_receiver_of_progress_raises_ends_the_request() -> None:
    async def works(wire: Wire) -> None:
        request = await wire.next("tools/call")
        wire.progress(request, 1)
        cancelled = await wire.next("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]

    async def broken(*_: Any) -> None:
        raise ValueError("no")

    async with connected(legacy(works)) as (connection, wire):
        with pytest.raises(ValueError, match="^no$"):
            await connection.request("tools/call", on_progress=broken)
        assert wire.received[-1]["method"] == "notifications/cancelled"


@pytest.mark.requirement("S-14")
async def test_a_flood_of_progress_is_bounded_and_its_end_arrives() -> None:
    reports: list[float] = []

    async def floods(wire: Wire) -> None:
        request = await wire.next("tools/call")
        for step in range(10_000):
            wire.progress(request, step)
        wire.answer(request, {})

    async def report(told: Progress) -> None:
        reports.append(told.progress)

    async with connected(legacy(floods), limits=UpstreamLimits(notes=10)) as (connection, _):
        await connection.request("tools/call", on_progress=report)
    assert reports == list(range(9_990, 10_000))


@pytest.mark.requirement("F-007", "F-023")
@pytest.mark.parametrize("on_progress", [None, never])
async def test_a_request_that_is_not_answered_in_time_is_cancelled_and_the_rest_goes_on(on_progress: Any) -> None:
    async def hangs(wire: Wire) -> None:
        late = await wire.next("tools/call")
        cancelled = await wire.next("notifications/cancelled")
        assert cancelled["params"]["requestId"] == late["id"]
        wire.answer(late, {"late": True})
        wire.answer(await wire.next("prompts/get"), {"messages": []})

    async with connected(legacy(hangs)) as (connection, wire):
        with pytest.raises(RequestTimeoutError, match=r"^did not answer tools/call within 0\.01 s$"):
            await connection.request("tools/call", on_progress=on_progress, deadline=Deadline(0.01, 60))
        assert await connection.request("prompts/get") == {"messages": []}
        assert wire.unexpected == 1


@pytest.mark.requirement("S-13")
async def test_progress_starts_the_idle_time_anew() -> None:
    async def slow(wire: Wire) -> None:
        request = await wire.next("tools/call")
        until = anyio.current_time() + 0.3
        while anyio.current_time() < until:
            wire.progress(request, 1)
            await anyio.lowlevel.checkpoint()
        wire.answer(request, {"done": True})

    async def report(*_: Any) -> None:
        pass

    async with connected(legacy(slow)) as (connection, _):
        result = await connection.request("tools/call", on_progress=report, deadline=Deadline(0.2, math.inf))
        assert result == {"done": True}


@pytest.mark.requirement("S-13", "F-057")
async def test_progress_does_not_put_off_the_cap() -> None:
    async def endless(wire: Wire) -> None:
        request = await wire.next("tools/call")
        for step in range(1_000_000):
            wire.progress(request, step)
            await anyio.lowlevel.checkpoint()

    async def report(*_: Any) -> None:
        pass

    async with connected(legacy(endless)) as (connection, wire):
        with pytest.raises(RequestTimeoutError, match=r"^did not answer tools/call within 0\.05 s$"):
            await connection.request("tools/call", on_progress=report, deadline=Deadline(30, 0.05))
        assert "notifications/cancelled" in [message.get("method") for message in wire.received]


async def test_the_limits_hold_where_no_deadline_is_given() -> None:
    async with connected(legacy(), limits=UpstreamLimits(call_timeout=0.01)) as (connection, _):
        with pytest.raises(RequestTimeoutError, match=r"within 0\.01 s"):
            await connection.request("tools/call")
    async with connected(legacy(), limits=UpstreamLimits(call_cap=0.01)) as (connection, _):
        with pytest.raises(RequestTimeoutError, match=r"within 0\.01 s"):
            await connection.request("tools/call")


@pytest.mark.requirement("P-6")
@pytest.mark.parametrize("on_progress", [None, never])
async def test_whoever_cancels_a_request_cancels_it_at_the_server(on_progress: Any) -> None:
    async def hangs(wire: Wire) -> None:
        await wire.next("tools/call")

    async with connected(legacy(hangs)) as (connection, wire):
        call = asyncio.create_task(connection.request("tools/call", on_progress=on_progress))
        await anyio.wait_all_tasks_blocked()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert wire.received[-1]["params"]["requestId"] == wire.received[-2]["id"]


@pytest.mark.requirement("F-004")
async def test_the_end_of_the_connection_fails_what_is_in_flight_after_the_role_was_told() -> None:
    async def exits(wire: Wire) -> None:
        await wire.next("tools/call")
        await wire.next("tools/call")
        wire.end("exited with status 5")

    class Watching(Role):
        def ended(self, reason: str) -> None:
            super().ended(reason)
            self.failed_before = list(failed)

    failed: list[str] = []
    delegate = Watching()

    async with connected(legacy(exits), delegate=delegate) as (connection, _):

        async def call(on_progress: Any) -> None:
            try:
                await connection.request("tools/call", on_progress=on_progress)
            except ConnectionLostError as error:
                failed.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, None)
            tasks.start_soon(call, never)
        assert connection.ended.is_set()
        with pytest.raises(ConnectionLostError, match="^exited with status 5$"):
            await connection.request("tools/call")
        with pytest.raises(ConnectionLostError, match="^exited with status 5$"):
            await connection.notify("notifications/roots/list_changed")
    assert failed == ["exited with status 5"] * 2
    assert (delegate.endings, delegate.failed_before) == (["exited with status 5"], [])


async def test_closing_the_connection_is_an_end_that_the_role_is_not_told_of() -> None:
    delegate = Role()
    async with connected(legacy(), delegate=delegate) as (connection, _):
        assert not connection.ended.is_set()
        assert connection.last_words == "scripted"
    assert connection.ended.is_set()
    with pytest.raises(ConnectionLostError, match="^is no longer connected$"):
        await connection.request("tools/call")
    assert delegate.endings == []


async def test_a_role_that_fails_when_told_of_the_end_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Role):
        def ended(self, reason: str) -> None:
            raise ValueError("broken")

        def notified(self, method: str, params: JSON, during: int | None = None) -> None:
            raise ValueError("broken")

    async def exits(wire: Wire) -> None:
        wire.notify("notifications/message", {"level": "info", "data": 1})
        await wire.next("tools/call")
        wire.end()

    async with connected(legacy(exits), delegate=Broken()) as (connection, _):
        with pytest.raises(ConnectionLostError):
            await connection.request("tools/call")
    assert [record.getMessage() for record in caplog.records] == [
        "scripted: telling of notifications/message failed",
        "scripted: telling of the end failed",
    ]


async def test_an_expired_session_can_be_told_apart() -> None:
    async def forgets(wire: Wire) -> None:
        wire.fail(await wire.next("tools/call"), SessionExpiredError())

    async with connected(legacy(forgets)) as (connection, _):
        with pytest.raises(SessionExpiredError):
            await connection.request("tools/call")


async def test_notifications_are_handed_to_the_role_in_order_and_as_they_came() -> None:
    delegate = Role()

    async def talks(wire: Wire) -> None:
        wire.notify("notifications/message", {"level": "info", "data": [1]})
        wire.notify("notifications/tools/list_changed")
        wire.notify("notifications/resources/updated", {"uri": "a:b", "_meta": {"x": 1}})
        wire.notify("notifications/vendor/news", {"a": None})

    async with connected(legacy(talks), delegate=delegate):
        await delegate.until(lambda: len(delegate.heard) == 4)
    assert delegate.heard == [
        ("notifications/message", {"level": "info", "data": [1]}),
        ("notifications/tools/list_changed", {}),
        ("notifications/resources/updated", {"uri": "a:b", "_meta": {"x": 1}}),
        ("notifications/vendor/news", {"a": None}),
    ]


@pytest.mark.requirement("P-6")
async def test_a_legacy_server_is_pinged_and_a_modern_one_discovered() -> None:
    async with connected(legacy(serving(ping={}))) as (connection, wire):
        assert 0 <= await connection.ping() < 5
        assert wire.received[-1]["method"] == "ping"
    async with connected(modern(serving(server={}))) as (connection, wire):
        assert 0 <= await connection.ping() < 5
        assert wire.received[-1]["method"] == "server/discover"


async def test_a_server_that_does_not_answer_a_ping_has_little_time() -> None:
    async with connected(legacy(), limits=UpstreamLimits(ping_timeout=0.01)) as (connection, _):
        with pytest.raises(RequestTimeoutError, match=r"^did not answer ping within 0\.01 s$"):
            await connection.ping()


async def test_a_log_level_is_asked_for_as_the_era_wants_it() -> None:
    async with connected(legacy(serving(logging={}), {"logging": {}})) as (connection, wire):
        await connection.set_log_level("warning")
        assert wire.received[-1]["params"] == {"level": "warning"}
    async with connected(legacy(serving())) as (connection, wire):
        await connection.set_log_level("warning")
        assert wire.received[-1]["method"] == "notifications/initialized"
    async with connected(modern(serving(tools={}))) as (connection, wire):
        await connection.set_log_level("warning")
        await connection.request("tools/call", {"_meta": {}})
        assert wire.received[-1]["params"]["_meta"][mcp_types.LOG_LEVEL_META_KEY] == "warning"


async def test_subscriptions_of_a_legacy_server_are_requests_where_it_has_them() -> None:
    async with connected(legacy(serving(resources={}), {"resources": {"subscribe": True}})) as (connection, wire):
        await connection.subscribe("a:b")
        await connection.unsubscribe("a:b")
        assert [(message["method"], message["params"]) for message in wire.received[-2:]] == [
            ("resources/subscribe", {"uri": "a:b"}),
            ("resources/unsubscribe", {"uri": "a:b"}),
        ]
    async with connected(legacy(serving(), {"resources": {}})) as (connection, wire):
        await connection.subscribe("a:b")
        await connection.unsubscribe("a:b")
        assert wire.received[-1]["method"] == "notifications/initialized"


async def test_requests_leave_no_tasks_behind() -> None:

    async def report(*_: Any) -> None:
        pass

    async with connected(legacy(serving(tools={}))) as (connection, _):
        before = len(asyncio.all_tasks())
        async with anyio.create_task_group() as tasks:
            for on_progress in (report, None) * 50:
                tasks.start_soon(partial(connection.request, "tools/call", on_progress=on_progress))
        assert len(asyncio.all_tasks()) == before
