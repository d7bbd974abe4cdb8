"""A server that misbehaves, beside one that does not: that one goes on, and nothing is left over.

What the wires of a child or of HTTP can do is in `transports/`; this is what becomes of a call.
"""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from msgspec.structs import replace

from gaia_bridge.model import ChangeKind, ServerOptions, SourceState, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.requirements import REQUIREMENTS
from tests.support.upstreams import FakeRequest, Heard, no_more_files, raw_server, running, text_of
from tests.support.waiting import PATIENCE, until
from tests.test_requirements import marked_rows

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

LIMITS = UpstreamLimits(
    backoff_start=0.02, connect_timeout=5, call_timeout=0.3, ping_timeout=0.1, stop_grace=0.1, terminate_grace=0.3
)
PATIENT = replace(LIMITS, call_timeout=5)
"""For what works, but takes its time on a busy machine."""
SECRET = "s3cr3t-canary-value"


async def say(upstream: Upstream, tool: str, **arguments: Any) -> str:
    """Call a tool, which has to lead to an answer of some kind."""
    with anyio.fail_after(PATIENCE):
        return text_of(await upstream.call_tool(tool, arguments, FakeRequest()))


async def in_state(upstream: Upstream, state: SourceState) -> None:
    await until(lambda: upstream.status.state is state)


# At its start


@pytest.mark.requirement("F-001", "F-002", "F-003")
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("dies", "it exited with code 3 before it completed the handshake"),
        ("exit", "it exited with code 3 before it completed the handshake"),
        ("dies listing", "it exited with code 1"),
    ],
)
async def test_a_server_that_dies_whenever_it_is_started_is_given_up(mode: str, reason: str) -> None:
    async with running(raw_server(mode, KEY=SECRET), replace(LIMITS, crashes=3)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.status.reason == f"{reason}; that was failure 3 within 180 s"
        assert upstream.details["starts"] == 3
        assert upstream.features.tools == ()
        assert "is not tried again until somebody asks for it" in await say(upstream, "pid")


@pytest.mark.requirement("F-001", "S-36")
async def test_the_last_lines_of_a_server_that_died_are_shown_in_its_status_and_to_no_client() -> None:
    async with running(raw_server("dies", KEY=SECRET), replace(LIMITS, crashes=2)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.details["lastErrorLines"] == [*(f"line {number}" for number in range(12, 31)), "key: ***"]
        assert "line" not in await say(upstream, "pid")


async def test_why_a_server_does_not_start_is_in_the_log_and_in_its_status_and_told_to_no_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "npm error code SELF_SIGNED_CERT_IN_CHAIN\\nnpm error A complete log of this run can be found in: /x"
    spec = StdioServerSpec("up", sys.executable, ("-S", "-c", f"import sys; sys.exit('{said}')"))
    async with running(spec, replace(LIMITS, crashes=2)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        cause = upstream.details["cause"]
        assert cause.startswith("npm error code SELF_SIGNED_CERT_IN_CHAIN; ") and "NODE_EXTRA_CA_CERTS" in cause
        assert f"it exited with code 1 before it completed the handshake; {cause}" in caplog.text
        assert "SELF_SIGNED" not in upstream.status.reason + await say(upstream, "pid")


@pytest.mark.requirement("F-001")
async def test_the_last_lines_are_those_of_one_start_also_where_an_attempt_takes_two() -> None:
    spec = StdioServerSpec("up", sys.executable, ("-S", "-c", "import sys; sys.exit('no such module')"))
    async with running(spec, replace(LIMITS, crashes=2)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.details["lastErrorLines"] == ["no such module"]


@pytest.mark.requirement("F-005")
async def test_a_handshake_that_hangs_ends_at_its_deadline_with_the_child() -> None:
    async with running(raw_server("silent"), replace(LIMITS, connect_timeout=0.2, crashes=2)) as upstream:
        await in_state(upstream, SourceState.FAILED)
        assert upstream.status.reason.startswith("it did not complete the handshake within 0.2 s")


@pytest.mark.requirement("F-006")
async def test_a_server_that_starts_slowly_is_waited_for() -> None:
    upstream = Upstream(replace(raw_server("slow"), env={"SLOW": "0.5"}), PATIENT)
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        heard = Heard(upstream)
        assert upstream.status.state is SourceState.STARTING
        assert int(await say(upstream, "pid")) > 0
        await heard.until(ChangeKind.TOOLS)
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-042")
async def test_a_server_that_has_a_lot_to_say_about_itself_is_cut_short() -> None:
    async with running(raw_server("verbose"), PATIENT) as upstream:
        info = upstream.features.info
        assert [len(text or "") for text in (info.title, info.instructions)] == [LIMITS.text_bytes] * 2
        assert int(await say(upstream, "pid")) > 0


@pytest.mark.requirement("F-043")
async def test_a_program_that_is_not_there_is_looked_for_once() -> None:
    async with running(StdioServerSpec("up", "no-such-program"), LIMITS) as upstream:
        assert (upstream.status.state, upstream.details["starts"]) == (SourceState.FAILED, 1)
        assert "'no-such-program': No such file or directory" in await say(upstream, "pid")


@contextmanager
def no_more_processes() -> Generator[None]:
    """To root the system refuses nothing, so that the limit itself would prove nothing."""

    def refuse(*args: Any, **options: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        yield


@pytest.mark.requirement("F-048")
@pytest.mark.parametrize(
    ("shortage", "reason"),
    [(no_more_files, "Too many open files"), (no_more_processes, "Resource temporarily unavailable")],
)
async def test_a_server_that_cannot_be_started_right_now_is_started_later(shortage: Any, reason: str) -> None:
    limits = replace(PATIENT, backoff_start=0.2, crashes=1_000)
    upstream = Upstream(raw_server(), limits)
    async with anyio.create_task_group() as tasks:
        with shortage():
            await tasks.start(upstream.run)
            await in_state(upstream, SourceState.BACKOFF)
            assert reason in upstream.status.reason
        assert int(await say(upstream, "pid")) > 0
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-072")
async def test_many_servers_that_cannot_be_started_keep_nobody_waiting() -> None:
    specs = [StdioServerSpec(f"missing{number}", "no-such-program") for number in range(25)]
    specs += [replace(raw_server("dies", KEY=SECRET), name=f"dying{number}") for number in range(5)]
    upstreams = [Upstream(spec, replace(LIMITS, crashes=1)) for spec in specs]
    silent = Upstream(replace(raw_server("silent"), name="silent"), replace(LIMITS, connect_timeout=3600))
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(PATIENCE):
            for upstream in (silent, *upstreams):
                await tasks.start(upstream.run)
            for upstream in upstreams:
                await in_state(upstream, SourceState.FAILED)
        assert silent.status.state is SourceState.STARTING
        tasks.cancel_scope.cancel()


# In a call


@pytest.mark.requirement("F-004")
async def test_a_crash_in_a_call_is_that_calls_error_and_the_server_is_restarted() -> None:
    async with running(raw_server(), PATIENT) as upstream:
        first = await say(upstream, "pid")
        assert "exited with code 5" in await say(upstream, "crash")
        assert await say(upstream, "pid") != first


@pytest.mark.requirement("F-007")
async def test_a_server_that_hangs_is_told_and_kept_as_long_as_it_answers_a_ping() -> None:
    async with running(raw_server(), LIMITS) as upstream:
        for _ in range(3):
            assert "did not answer tools/call within 0.3 s" in await say(upstream, "hang")
        await in_state(upstream, SourceState.READY)
        assert upstream.details["starts"] == 1


@pytest.mark.requirement("F-007", "F-123")
async def test_a_frozen_server_is_killed_and_started_again() -> None:
    async with running(raw_server(), LIMITS) as upstream:
        frozen = psutil.Process(int(await say(upstream, "pid")))
        frozen.suspend()
        for _ in range(3):
            assert "did not answer tools/call within 0.3 s" in await say(upstream, "pid")
        await until(lambda: upstream.details["starts"] == 2 and upstream.status.state is SourceState.READY)
        assert int(await say(upstream, "pid")) != frozen.pid
        assert not frozen.is_running()


@pytest.mark.requirement("F-123", "F-023")
async def test_a_server_that_goes_on_after_it_was_frozen_is_kept_and_its_late_answer_dropped() -> None:
    async with running(raw_server(), LIMITS) as upstream:
        frozen = psutil.Process(int(await say(upstream, "pid")))
        frozen.suspend()
        assert "did not answer" in await say(upstream, "promised", content=[{"type": "text", "text": "late"}])
        frozen.resume()
        assert int(await say(upstream, "pid")) == frozen.pid
        assert upstream.details["starts"] == 1


@pytest.mark.requirement("F-008", "F-009")
async def test_garbage_is_counted_and_shown_and_too_much_of_it_ends_the_server() -> None:
    async with running(raw_server(), replace(PATIENT, garbage_lines=12)) as upstream:
        await say(upstream, "noise")
        details = upstream.details
        assert (details["garbageLines"], details["errorLines"]) == (5, 2)
        assert details["firstGarbage"][0] == "Listening on stdio..."
        texts = [await say(upstream, "noise") for _ in range(3)]
        assert any("that are no MCP messages" in text for text in texts)
        assert int(await say(upstream, "pid")) > 0


@pytest.mark.requirement("F-010")
async def test_an_answer_over_several_lines_is_none_and_the_call_says_what_may_be_wrong() -> None:
    async with running(raw_server(), LIMITS) as upstream:
        assert await say(upstream, "pretty") == (
            "upstream 'up' did not answer tools/call within 0.3 s, and wrote lines to its standard output that are no "
            "MCP messages (tool 'pretty')"
        )
        assert int(await say(upstream, "pid")) > 0
        assert upstream.details["firstGarbage"][0] == "{"


@pytest.mark.requirement("F-012")
async def test_an_answer_in_utf_16_is_garbage() -> None:
    async with running(raw_server(), replace(LIMITS, garbage_lines=12)) as upstream:
        assert "no MCP messages (tool 'utf-16')" in await say(upstream, "utf-16", times=1)
        assert "wrote more than 12 lines" in await say(upstream, "utf-16", times=20)


@pytest.mark.requirement("F-021")
async def test_an_error_that_belongs_to_no_request_is_logged_once_and_costs_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(raw_server(), PATIENT) as upstream:
        assert await say(upstream, "unread") == "answered"
    told = [
        record
        for record in caplog.records
        if record.levelname == "WARNING" and record.name.startswith(("gaia_bridge.client", "gaia_bridge.sources"))
    ]
    assert [record.getMessage() for record in told] == [
        "upstream 'up' reports an error without saying of which request: Parse\\nerror"
    ]


@pytest.mark.requirement("F-025")
async def test_a_server_that_closes_its_output_is_as_good_as_dead() -> None:
    async with running(raw_server(), PATIENT) as upstream:
        first = psutil.Process(int(await say(upstream, "pid")))
        assert "closed its standard output" in await say(upstream, "fall silent")
        assert int(await say(upstream, "pid")) != first.pid
        assert not first.is_running()


@pytest.mark.requirement("F-026")
async def test_a_server_that_closes_its_input_is_as_good_as_dead() -> None:
    async with running(raw_server(), PATIENT) as upstream:
        first = psutil.Process(int(await say(upstream, "pid")))
        assert "closed its standard input" in await say(upstream, "close input")
        assert int(await say(upstream, "pid")) != first.pid
        assert not first.is_running()


@pytest.mark.requirement("F-034")
async def test_a_server_that_leaves_in_good_order_is_started_when_it_is_used_again() -> None:
    async with running(raw_server(), replace(PATIENT, crashes=2)) as upstream:
        features = upstream.features
        pids: set[str] = set()
        for number in range(1, 6):
            pids.add(await say(upstream, "pid"))
            assert await say(upstream, "leave") == "bye"
            await in_state(upstream, SourceState.STOPPED)
            assert upstream.status.reason == "it exited with code 0; it starts when it is used"
            assert upstream.details["starts"] == number
        assert (len(pids), upstream.features) == (5, features)


@pytest.mark.requirement("F-035")
async def test_a_server_that_announces_changes_without_end_costs_a_reading_now_and_then() -> None:
    async with running(raw_server(), PATIENT) as upstream:
        heard = Heard(upstream)
        await upstream.call_tool("grow", {"by": 300}, FakeRequest())
        await heard.until_that(lambda: len(upstream.features.tools) == 311)
        assert len(heard.changes) <= 3


@pytest.mark.requirement("F-037", "F-039")
async def test_a_hostile_tool_is_left_out_alone() -> None:
    async with running(raw_server("hostile tools"), LIMITS) as upstream:
        assert [tool["name"] for tool in upstream.features.tools] == ["pid", "recursive", "slow-pattern"]
        reasons = {item.name: item.reason for item in upstream.features.left_out}
        assert set(reasons) == {"remote", "file", "nowhere", "deep", "bomb", "large", "list", "boolean", "boundless"}
        assert "leads outside of the schema" in reasons["remote"]
        assert "leads outside of the schema" in reasons["file"]
        assert "leads nowhere" in reasons["nowhere"]
        assert "nested deeper than" in reasons["deep"]
        assert "with its references replaced" in reasons["bomb"]
        assert "bytes" in reasons["large"]
        assert "a number that is too large" in reasons["boundless"]


@pytest.mark.requirement("F-038")
async def test_a_server_that_asks_without_end_is_answered_within_bounds_and_its_answers_count() -> None:
    async with running(raw_server(), PATIENT) as upstream:
        assert await say(upstream, "pester", times=5_000) == "asked"
        assert int(await say(upstream, "pid")) > 0


@pytest.mark.requirement("F-063", "S-29")
@pytest.mark.parametrize(
    "result",
    [
        {"structuredContent": {"sum": 3}},
        {"structuredContent": {"sum": "3"}, "isError": True},
        {"structuredContent": None},
        {},
    ],
    ids=["kept", "a failure promises nothing", "null is none", "none"],
)
async def test_a_result_that_breaks_no_promise_is_passed_on_as_it_is(result: JSON) -> None:
    async with running(raw_server("promises"), PATIENT) as upstream:
        answered = await upstream.call_tool("promised", result, FakeRequest())
        assert answered == {"content": [{"type": "text", "text": "see there"}], "resultType": "complete", **result}


@pytest.mark.requirement("F-063", "S-29")
async def test_a_result_against_its_output_schema_is_an_error_that_names_the_place() -> None:
    async with running(raw_server("promises"), PATIENT) as upstream:
        answered = await upstream.call_tool("promised", {"structuredContent": {"sum": "three"}}, FakeRequest())
        assert answered["isError"] is True
        assert "structuredContent" not in answered
        assert text_of(answered) == (
            "upstream 'up' answered with structured content against the output schema of its tool 'promised':\n"
            "- at /sum: got 'three'; the value is not of type \"integer\""
        )
        assert "'sum'" not in await say(upstream, "promised", structuredContent={"sum": 3})


@pytest.mark.requirement("F-063")
async def test_a_promise_that_nobody_understands_is_told_once_and_breaks_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(raw_server("promises"), PATIENT) as upstream:
        for _ in range(2):
            assert (await upstream.call_tool("odd", {}, FakeRequest()))["structuredContent"]
    [complaint] = [record.getMessage() for record in caplog.records if "output schema" in record.getMessage()]
    assert complaint == (
        "upstream 'up': part of the output schema of tool 'odd' is left out: not every client can compile it at /type:"
        " 'banana'"
    )


# All at once


@pytest.mark.requirement("S-37")
async def test_every_kind_of_bad_server_at_once_costs_a_good_one_nothing() -> None:
    """Beside one that does nothing wrong: whatever the others do, together, it answers."""
    modes = ("dies", "exit", "silent", "future", "malformed", "dies listing", "endless", "cycle", "hostile tools")
    tools = ("crash", "hang", "fall silent", "close input", "noise", "pretty", "pester", "unread", "invalid", "leave")
    limits = replace(LIMITS, crashes=2, connect_timeout=1, pages=5)
    specs = [replace(raw_server(mode, KEY=SECRET), name=f"starts {mode}") for mode in modes]
    specs += [replace(raw_server(), name=tool, options=ServerOptions(lazy=False)) for tool in tools]
    upstreams = [Upstream(spec, limits) for spec in specs]

    async def use(upstream: Upstream) -> None:
        await upstream.wait_settled()
        for _ in range(3):
            tool = upstream.name if upstream.name in tools else "pid"
            await upstream.call_tool(tool, {"times": 500}, FakeRequest())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for upstream in upstreams:
                await tasks.start(upstream.run)
            async with anyio.create_task_group() as callers:
                for upstream in upstreams:
                    callers.start_soon(use, upstream)
            tasks.cancel_scope.cancel()


# That this file, and those of the transports, are complete

BEFORE_THERE_IS_A_SERVER = {"F-045"}
"""Faults that show when an entry is read: nothing is started that others could suffer from."""


def test_every_fault_of_a_server_is_injected_beside_one_that_works() -> None:
    folder = Path(__file__).parents[2]
    beside = [path for path in folder.rglob("test_*.py") if _has_a_bystander(path)]
    injected = {row for path in beside for row in marked_rows(path.read_text("utf-8"), path.name)}
    faults = {row for row in REQUIREMENTS if "F-001" <= row <= "F-073"}
    assert len(faults) == 73
    assert faults - injected == BEFORE_THERE_IS_A_SERVER


def _has_a_bystander(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    marks = [ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    return any("usefixtures('bystander')" in mark for mark in marks)
