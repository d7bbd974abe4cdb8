"""One upstream as a source: what it offers, what crosses it, and what happens when it misbehaves."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest
from msgspec.structs import replace

from gaia_bridge.errors import ProtocolError, ResourceNotFoundError
from gaia_bridge.model import (
    Change,
    ChangeKind,
    LeftOut,
    ServerFeatures,
    SourceKind,
    SourceState,
    SourceStatus,
    StdioServerSpec,
)
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.servers.raw_server import ODD_RESULT
from tests.support.bystanders import Holdings
from tests.support.upstreams import FakeRequest, Heard, raw_server, running, text_of
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

ONCE = UpstreamLimits(crashes=1)
"""A server that fails is not tried again."""
SECRET = "s3cr3t-canary-value"


async def call(upstream: Upstream, name: str, arguments: JSON | None = None, meta: JSON | None = None) -> str:
    result = await upstream.call_tool(name, arguments or {}, FakeRequest(meta))
    assert not result.get("isError"), result
    return text_of(result)


async def failure(upstream: Upstream, name: str) -> str:
    with anyio.fail_after(PATIENCE):
        result = await upstream.call_tool(name, {}, FakeRequest())
    assert result["isError"] is True
    return text_of(result)


def is_empty(features: ServerFeatures) -> bool:
    return not (features.tools or features.prompts or features.resources or features.templates or features.capabilities)


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Of this half of the bridge: the endpoint beside it has its own opinion of two servers with the same URIs."""
    ours = (
        record for record in caplog.records if record.name.startswith(("gaia_bridge.client", "gaia_bridge.sources"))
    )
    return [record for record in ours if record.levelno >= logging.WARNING]


# What it offers


async def test_the_offer_fills_when_the_server_is_ready_and_listeners_are_told() -> None:
    upstream = Upstream(raw_server(), UpstreamLimits())
    heard = Heard(upstream)
    assert (upstream.name, upstream.kind, upstream.status.state) == ("up", SourceKind.SERVER, SourceState.STARTING)
    assert is_empty(upstream.features)
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        with anyio.fail_after(PATIENCE):
            assert await upstream.wait_settled() == SourceStatus(SourceState.READY)
        assert heard.changes == [
            Change(ChangeKind.TOOLS),
            Change(ChangeKind.PROMPTS),
            Change(ChangeKind.RESOURCES),
            Change(ChangeKind.INTRODUCTION),
        ]
        assert {"name": "pid", "inputSchema": {"type": "object"}} in upstream.features.tools
        assert upstream.features.prompts == ({"name": "p", "x-extra": 1},)
        assert upstream.features.templates == ()
        assert upstream.features.capabilities == {"tools", "prompts", "resources", "completions", "logging"}
        assert upstream.features.info.website_url == "https://example.com"
        assert upstream.features.info.icons[0]["sizes"] == ["48x48"]
        tasks.cancel_scope.cancel()


async def test_only_what_the_server_declares_is_offered() -> None:
    async with running(raw_server("plain")) as upstream:
        assert upstream.features.capabilities == {"tools"}
        assert upstream.features.prompts == upstream.features.resources == ()


async def test_an_old_server_is_understood() -> None:
    async with running(raw_server("old")) as upstream:
        assert int(await call(upstream, "pid")) > 0


async def test_a_bad_definition_is_left_out_alone_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with running(raw_server("bad tools")) as upstream:
        assert upstream.features.tools == (
            {"name": "pid", "inputSchema": {"type": "object"}},
            {"name": "bare", "inputSchema": {"type": "object", "properties": {}}},
            {"name": "rich", "inputSchema": {"type": "object", "$defs": {}}, "x-extra": [None], "_meta": {"a": 1}},
        )
        reasons = {left_out.name: left_out.reason for left_out in upstream.features.left_out}
        assert set(reasons) == {"list-schema", "#3", "#4", "pid"}
        assert "inputSchema" in reasons["list-schema"]
        assert LeftOut("tool", "pid", "another tool has the same name") in upstream.features.left_out
        assert [name in caplog.text for name in reasons] == [True] * 4


@pytest.mark.requirement("P-4")
async def test_lists_are_read_to_their_last_page() -> None:
    async with running(raw_server("pages")) as upstream:
        assert len(upstream.features.tools) == 11


@pytest.mark.requirement("F-036")
@pytest.mark.parametrize(("mode", "expected"), [("endless", 5), ("cycle", 11)])
async def test_an_endless_list_is_cut_with_a_warning(
    mode: str, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(raw_server(mode), UpstreamLimits(pages=5)) as upstream:
        assert len(upstream.features.tools) == expected
        assert "does not end" in warnings(caplog)[0].getMessage()


async def test_a_changed_list_is_read_again_and_announced() -> None:
    async with running(raw_server()) as upstream:
        heard = Heard(upstream)
        await call(upstream, "grow")
        await heard.until(ChangeKind.TOOLS)
        assert upstream.features.tools[-1]["name"] == "new-0"


async def test_many_announcements_are_few_readings() -> None:
    async with running(raw_server()) as upstream:
        heard = Heard(upstream)
        await call(upstream, "grow", {"by": 200})
        with anyio.fail_after(PATIENCE):
            while len(upstream.features.tools) < 211:
                await heard.until(ChangeKind.TOOLS)
                await anyio.lowlevel.checkpoint()
        assert len(heard.changes) < 20


async def test_a_listener_that_left_hears_nothing_more() -> None:
    async with running(raw_server()) as upstream:
        gone, staying = Heard(upstream), Heard(upstream)
        gone.stop()
        gone.stop()
        await call(upstream, "grow")
        await staying.until(ChangeKind.TOOLS)
        assert gone.changes == []


# What crosses it


async def test_a_result_is_relayed_with_fields_that_nobody_knows() -> None:
    async with running(raw_server()) as upstream:
        result = await upstream.call_tool("odd", {}, FakeRequest())
    assert result.pop("resultType") == "complete"
    assert result == ODD_RESULT


async def test_meta_crosses_without_what_belongs_to_the_clients_own_connection() -> None:
    meta: JSON = {
        "vendor/key": {"a": None},
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "editor", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        "io.modelcontextprotocol/logLevel": "debug",
    }
    async with running(raw_server()) as upstream:
        received = json.loads(await call(upstream, "meta", meta=meta))
        assert isinstance(received.pop("progressToken"), int)  # ours, which keeps the call alive
        assert received == {"vendor/key": {"a": None}}
        token = json.loads(await call(upstream, "meta", meta={"progressToken": "the-clients-own"}))["progressToken"]
        assert token != "the-clients-own"


async def test_progress_is_passed_on_before_the_result() -> None:
    async with running(raw_server()) as upstream:
        request = FakeRequest({"progressToken": 1})
        await upstream.call_tool("progress", {}, request)
        assert request.progress == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_answers_that_come_in_another_order_find_their_calls() -> None:
    answers: dict[int, str] = {}

    async with running(raw_server()) as upstream:

        async def reverse(number: int) -> None:
            answers[number] = await call(upstream, "reverse", {"number": number, "calls": 20})

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(reverse, number)
    assert {number: json.loads(text)["number"] for number, text in answers.items()} == {n: n for n in range(20)}


async def test_a_log_message_reaches_the_client_of_the_only_call() -> None:
    async with running(raw_server()) as upstream:
        request = FakeRequest()
        await upstream.call_tool("log", {}, request)
        assert request.logs == [("warning", {"said": "hello\nworld"}, "part")]


async def test_a_log_message_that_could_be_for_two_clients_reaches_none(caplog: pytest.LogCaptureFixture) -> None:
    async with running(raw_server()) as upstream, anyio.create_task_group() as tasks:
        heard, first, second = Heard(upstream), FakeRequest(), FakeRequest()
        tasks.start_soon(upstream.call_tool, "hang", {"name": "a"}, first)
        await heard.until(ChangeKind.RESOURCE_UPDATED, "hanging://a")
        await upstream.call_tool("log", {}, second)
        assert first.logs == second.logs == []
        assert r"hello\nworld" in caplog.text
        tasks.cancel_scope.cancel()


async def test_a_json_rpc_error_keeps_its_code_message_and_data() -> None:
    async with running(raw_server()) as upstream:
        with pytest.raises(ProtocolError) as caught:
            await upstream.call_tool("refuse", {}, FakeRequest())
    error = caught.value
    assert (error.code, error.message, error.data) == (-31999, "not today", {"until": "monday"})


async def test_prompts_resources_and_suggestions_cross() -> None:
    async with running(raw_server()) as upstream:
        prompt = await upstream.get_prompt("p", {"a": "1"}, FakeRequest({"vendor/key": 1}))
        received = json.loads(prompt["messages"][0]["content"]["text"])
        assert (received["name"], received["arguments"], received["_meta"]["vendor/key"]) == ("p", {"a": "1"}, 1)
        content = {"uri": "raw://r", "blob": "aGk=", "mimeType": "a/b", "x-extra": 1}
        assert (await upstream.read_resource("raw://r", FakeRequest()))["contents"] == [content]
        ref, argument = {"type": "ref/prompt", "name": "p"}, {"name": "a", "value": "v"}
        result = await upstream.complete(ref, argument, {"b": "2"}, FakeRequest())
        received = json.loads(result["completion"]["values"][0])
        del received["_meta"]
        assert received == {"ref": ref, "argument": argument, "context": {"arguments": {"b": "2"}}}


async def test_a_missing_resource_has_the_code_of_every_revision() -> None:
    async with running(raw_server()) as upstream:
        with pytest.raises(ResourceNotFoundError):
            await upstream.read_resource("raw://gone", FakeRequest())


async def test_updates_of_a_resource_are_announced() -> None:
    async with running(raw_server()) as upstream:
        heard = Heard(upstream)
        await upstream.subscribe("raw://r")
        await heard.until(ChangeKind.RESOURCE_UPDATED, "raw://r")
        heard.changes.clear()
        await upstream.unsubscribe("raw://r")
        await heard.until(ChangeKind.RESOURCE_UPDATED, "raw://r")


async def test_a_refused_subscription_is_told_and_a_refused_end_is_not() -> None:
    async with running(raw_server()) as upstream:
        with pytest.raises(ProtocolError, match="cannot watch that"):
            await upstream.subscribe("raw://refused")
        await upstream.unsubscribe("raw://refused")


async def test_a_server_without_subscriptions_is_not_asked() -> None:
    async with running(raw_server("plain")) as upstream:
        heard = Heard(upstream)
        await upstream.subscribe("raw://r")
        await upstream.unsubscribe("raw://r")
        await upstream.refresh()
        await call(upstream, "pid")
        assert heard.changes == []


@pytest.mark.requirement("S-32")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
        ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
        ("roots/list", {}),
        ("no/such/method", {}),
    ],
)
async def test_what_a_server_asks_of_the_client_is_refused(method: str, params: JSON) -> None:
    async with running(raw_server()) as upstream:
        error = json.loads(await call(upstream, "ask", {"method": method, "params": params}))
        assert error["code"] in (-32600, -32601)


async def test_the_child_gets_its_own_environment_and_a_harmless_part_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GAIA_TOKEN", SECRET)
    async with running(raw_server(OWN="$HOME", PATH="/own")) as upstream:
        env = json.loads(await call(upstream, "env"))
    assert (env["OWN"], env["PATH"], env["HOME"]) == ("$HOME", "/own", os.environ["HOME"])
    assert SECRET not in env.values()


async def test_the_child_runs_where_it_is_told(tmp_path: Path) -> None:
    raw = raw_server()
    async with running(StdioServerSpec("up", raw.command, raw.args, cwd=str(tmp_path))) as upstream:
        assert await call(upstream, "cwd") == str(tmp_path)


# What goes wrong


@pytest.mark.requirement("F-004", "S-36")
async def test_a_crash_fails_the_calls_in_flight_at_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[str] = []

    async with running(raw_server(), ONCE) as upstream:
        heard = Heard(upstream)

        async def hang() -> None:
            answers.append(await failure(upstream, "hang"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            await heard.until(ChangeKind.RESOURCE_UPDATED, "hanging://")
            answers.append(await failure(upstream, "crash"))
            assert upstream.status.state is SourceState.FAILED
        assert [text.startswith("upstream 'up' exited with code 5 before it answered") for text in answers] == [
            True,
            True,
        ]
        reason = "it exited with code 5; that was failure 1 within 180 s"
        assert upstream.status == SourceStatus(SourceState.FAILED, reason)
        assert is_empty(upstream.features)
        assert heard.changes[1:] == [
            Change(ChangeKind.TOOLS),
            Change(ChangeKind.PROMPTS),
            Change(ChangeKind.RESOURCES),
            Change(ChangeKind.INTRODUCTION),
        ]
        assert (await failure(upstream, "pid")).startswith(f"upstream 'up' is not running: {reason}")
        with pytest.raises(ProtocolError, match="is not running"):
            await upstream.get_prompt("p", {}, FakeRequest())
        with pytest.raises(ProtocolError, match="is not running"):
            await upstream.subscribe("raw://r")
    [record] = warnings(caplog)
    assert record.exc_info is None
    assert "boom: \\x1b[31mthese are my last words" in record.getMessage()
    assert "last words" not in "".join(answers)


@pytest.mark.requirement("F-004")
async def test_after_a_crash_the_server_is_there_again_and_so_is_what_it_offers() -> None:
    async with running(raw_server(), UpstreamLimits(backoff_start=0.05)) as upstream:
        heard = Heard(upstream)
        features, first = upstream.features, await call(upstream, "pid")
        await failure(upstream, "crash")
        assert upstream.status == SourceStatus(SourceState.BACKOFF, "it exited with code 5")
        assert upstream.features is features
        assert await call(upstream, "pid") != first
        assert (upstream.features, heard.changes) == (features, [])


@pytest.mark.requirement("F-001", "F-002", "F-005", "F-041")
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("exit", "it exited with code 3"),
        ("silent", "it did not complete the handshake within 0.2 s (startup_timeout)"),
        ("refuse", "it refused the handshake: Unsupported\\nversion (-32022)"),
        ("future", 'it answered the handshake with the revision "9999-01-01"; we support'),
        ("malformed", "it answered the handshake with the revision 5; we support"),
        ("dies listing", "it exited with code 1"),
    ],
)
async def test_a_server_that_cannot_be_used_fails_in_one_line(
    mode: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(ONCE, connect_timeout=0.2) if mode == "silent" else ONCE
    async with running(raw_server(mode), limits) as upstream:
        assert upstream.status.state is SourceState.FAILED
        assert upstream.status.reason.startswith(reason)
        assert is_empty(upstream.features)
        assert upstream.status.reason in await failure(upstream, "pid")
    [record] = warnings(caplog)
    assert (record.exc_info, "\n" in record.getMessage()) == (None, False)
    assert ("No module named 'x'" in record.getMessage()) == (mode == "exit")


@pytest.mark.requirement("F-006")
async def test_a_silent_server_keeps_nobody_waiting_beyond_its_deadline() -> None:
    upstream = Upstream(raw_server("silent"), UpstreamLimits(call_timeout=0.1))
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(PATIENCE):
            await tasks.start(upstream.run)
            assert "still starting" in await failure(upstream, "pid")
        tasks.cancel_scope.cancel()


def launch(command: str, *args: str, cwd: str | None = None) -> StdioServerSpec:
    return StdioServerSpec("up", command, args, {"TOKEN": SECRET}, cwd)


@pytest.mark.requirement("F-043", "F-044", "S-36")
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (launch("no-such-program"), "'no-such-program': No such file or directory"),
        (launch("true; touch pwned"), "'true; touch pwned': No such file or directory"),
        (launch("/"), "'/': Permission denied"),
        (launch("/dev/null"), "'/dev/null': Permission denied"),
        (launch("true", cwd="/no/such/folder"), "its working directory '/no/such/folder'"),
        (launch("true", SECRET + "\0"), "has characters that cannot be passed to a program"),
        (launch("true", SECRET + "\ud800"), "has characters that cannot be passed to a program"),
        (launch("true", "x" * 3_000_000), "'true': Argument list too long"),
    ],
    ids=lambda value: None,
)
async def test_a_launch_line_that_cannot_start_is_one_clear_line(
    spec: StdioServerSpec, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(spec) as upstream:
        assert upstream.status.state is SourceState.FAILED
        assert upstream.status.reason.startswith("it cannot be started")
        assert reason in upstream.status.reason
        assert upstream.details["starts"] == 1
        assert reason in await failure(upstream, "pid")
    [record] = warnings(caplog)
    assert (record.exc_info, SECRET in caplog.text) == (None, False)
    assert list(Path.cwd().iterdir()) == []


async def test_a_program_that_speaks_no_mcp_fails() -> None:
    async with running(launch("true"), ONCE) as upstream:
        # Which of the two is noticed first is up to the system.
        assert upstream.status.reason.startswith(("it exited with code 0", "it closed its standard input"))


async def test_a_call_that_hangs_ends_at_its_deadline_and_the_server_is_told() -> None:
    async with running(raw_server(), UpstreamLimits(call_timeout=0.2)) as upstream:
        heard = Heard(upstream)
        assert await failure(upstream, "hang") == "upstream 'up' did not answer tools/call within 0.2 s (tool 'hang')"
        await heard.until(ChangeKind.RESOURCE_UPDATED, "cancelled://")
        assert upstream.status.state is SourceState.READY


async def test_cancelling_a_call_reaches_the_server() -> None:
    async with running(raw_server()) as upstream:
        heard = Heard(upstream)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upstream.call_tool, "hang", {"name": "a"}, FakeRequest())
            tasks.start_soon(upstream.call_tool, "hang", {"name": "b"}, FakeRequest())
            await heard.until(ChangeKind.RESOURCE_UPDATED, "hanging://b")
            tasks.cancel_scope.cancel()
        await heard.until(ChangeKind.RESOURCE_UPDATED, "cancelled://a")
        await heard.until(ChangeKind.RESOURCE_UPDATED, "cancelled://b")
        assert int(await call(upstream, "pid")) > 0


async def test_a_result_that_is_no_mcp_result_is_an_error_of_that_call() -> None:
    async with running(raw_server()) as upstream:
        assert "with a result that MCP does not allow: content" in await failure(upstream, "invalid")
        assert int(await call(upstream, "pid")) > 0


@pytest.mark.requirement("F-008", "F-011", "F-013")
async def test_noise_on_either_output_does_not_disturb(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gaia_bridge")
    async with running(raw_server()) as upstream:
        with anyio.fail_after(PATIENCE):
            assert await call(upstream, "noise") == "made noise"
            assert int(await call(upstream, "pid")) > 0
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("error_output")]
    assert lines[-1] == "up: \ufffd the end"
    assert max(map(len, lines)) < 2_000
    [ours] = [record.getMessage() for record in warnings(caplog) if record.name.startswith("gaia_bridge")]
    assert ours.startswith("upstream 'up' writes to its standard output what is no MCP message; skipped: Listening")


@pytest.mark.requirement("F-016", "F-017")
async def test_an_answer_may_come_byte_by_byte() -> None:
    async with running(raw_server()) as upstream:
        assert await call(upstream, "split") == "é" * 9


async def test_a_listener_that_breaks_fails_its_upstream_and_nothing_beside_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    upstream = Upstream(raw_server(), UpstreamLimits())

    def breaks(change: Change) -> None:
        if upstream.status.state is SourceState.READY:
            raise LookupError(SECRET)

    upstream.listen(breaks)
    async with anyio.create_task_group() as beside:
        await beside.start(upstream.run)
        with anyio.fail_after(PATIENCE):
            while upstream.status.state is not SourceState.FAILED:
                await anyio.lowlevel.checkpoint()
        assert upstream.status == SourceStatus(
            SourceState.FAILED, "an unexpected error, of which the debug log has the details"
        )
        beside.cancel_scope.cancel()
    assert SECRET not in warnings(caplog)[0].getMessage()


# How it ends


async def test_stopping_leaves_no_child_and_fails_what_was_in_flight() -> None:
    answers: list[str] = []
    children: list[psutil.Process] = []
    upstream = Upstream(raw_server(), UpstreamLimits())
    async with anyio.create_task_group() as callers:

        async def hang() -> None:
            answers.append(await failure(upstream, "hang"))

        async with anyio.create_task_group() as tasks:
            await tasks.start(upstream.run)
            await upstream.wait_settled()
            children.append(psutil.Process(int(await call(upstream, "pid"))))
            heard = Heard(upstream)
            callers.start_soon(hang)
            await heard.until(ChangeKind.RESOURCE_UPDATED, "hanging://")
            tasks.cancel_scope.cancel()
    assert [child.is_running() for child in children] == [False]
    assert answers[0].startswith("upstream 'up' is no longer connected before it answered")
    assert upstream.status == SourceStatus(SourceState.STOPPED, "it was stopped")
    assert is_empty(upstream.features)
    assert await failure(upstream, "pid") == "upstream 'up' is not running: it was stopped (tool 'pid')"


async def test_a_child_that_ignores_every_request_to_end_is_killed() -> None:
    async with running(raw_server("stubborn"), UpstreamLimits(stop_grace=0.05, terminate_grace=0.05)) as upstream:
        child = psutil.Process(int(await call(upstream, "pid")))
    assert not child.is_running()


@pytest.mark.requirement("F-124")
async def test_the_end_may_come_at_any_step_of_the_start() -> None:
    before = Holdings.now()
    with anyio.fail_after(20):
        for steps in range(12):
            upstream = Upstream(raw_server("silent"), UpstreamLimits())
            async with anyio.create_task_group() as tasks:
                await tasks.start(upstream.run)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            await before.nothing_more()
            assert upstream.status.state is SourceState.STOPPED
