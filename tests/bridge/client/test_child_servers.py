"""Connections to child processes: one without an SDK, which can be as odd as needed, and one with the official SDK."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.client import ClientDelegate, Connection, Deadline, Era, RequestTimeoutError, connect
from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Role
from tests.support.upstreams import PATIENT, raw_server, sdk_server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]


EXITS_ON_THE_PROBE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "server/discover":
        sys.exit(3)
    if request["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def text_of(result: JSON) -> str:
    """The text of a result that is one block of text."""
    [block] = result["content"]
    text: str = block["text"]
    return text


@asynccontextmanager
async def connected(
    spec: StdioServerSpec,
    delegate: ClientDelegate | None = None,
    limits: UpstreamLimits | None = None,
    era: Era | None = None,
) -> AsyncGenerator[Connection]:
    limits = limits or PATIENT
    with anyio.fail_after(20):
        async with connect(StdioTransport(spec, limits), delegate or ClientDelegate(), limits, era=era) as connection:
            yield connection


async def called(connection: Connection, name: str, **arguments: Any) -> JSON:
    return await connection.request("tools/call", {"name": name, "arguments": arguments})


@pytest.mark.requirement("S0-3", "P-1")
@pytest.mark.parametrize("era", [None, Era.LEGACY])
async def test_a_server_without_an_sdk_is_connected(era: Era | None) -> None:
    async with connected(raw_server(), era=era) as connection:
        handshake = connection.handshake
        assert (handshake.revision, handshake.info["name"], handshake.instructions) == ("2025-11-25", "raw", "Be raw.")
        assert "pid" in [tool["name"] for tool in await connection.list_all("tool")]
        assert 0 <= await connection.ping() < 10


@pytest.mark.parametrize("era", [None, Era.LEGACY])
async def test_a_server_with_the_official_sdk_is_connected_in_both_eras(era: Era | None) -> None:
    async with connected(sdk_server(), era=era) as connection:
        assert connection.handshake.modern is (era is None)
        assert connection.handshake.info["name"] == "sdk-upstream"
        assert len(await connection.list_all("tool")) == 7
        assert (await called(connection, "add", a=1, b=2))["structuredContent"] == {"sum": 3}
        reports: list[Any] = []

        async def report(told: Progress) -> None:
            reports.append((told.progress, told.total, told.message))

        await connection.request("tools/call", {"name": "progress", "arguments": {}}, on_progress=report)
        assert reports == [(step, 3, f"step {step}") for step in (1, 2, 3)]


async def test_a_process_that_exits_because_of_the_probe_is_replaced() -> None:
    spec = StdioServerSpec("up", sys.executable, ("-S", "-c", EXITS_ON_THE_PROBE))
    async with connected(spec) as connection:
        assert connection.handshake.revision == "2025-06-18"


@pytest.mark.requirement("F-005")
async def test_a_process_that_never_answers_the_handshake_is_ended_at_the_limit() -> None:
    with pytest.raises(UpstreamError, match=r"^did not complete the handshake within 0\.5 s \(startup_timeout\)$"):
        async with connected(raw_server("silent"), limits=UpstreamLimits(connect_timeout=0.5)):
            pass


@pytest.mark.requirement("F-041")
@pytest.mark.parametrize("mode", ["future", "malformed"])
async def test_a_process_of_an_unknown_revision_is_refused(mode: str) -> None:
    with pytest.raises(UpstreamError, match="^answered the handshake with the revision"):
        async with connected(raw_server(mode)):
            pass


@pytest.mark.requirement("P-4", "F-036")
async def test_pages_of_a_process_are_read(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(raw_server()) as connection:
        tools = await connection.list_all("tool")
    async with connected(raw_server("pages")) as connection:
        assert await connection.list_all("tool") == tools
    async with connected(raw_server("endless"), limits=UpstreamLimits(pages=7)) as connection:
        assert len(await connection.list_all("tool")) == 7
    async with connected(raw_server("cycle")) as connection:
        assert await connection.list_all("tool") == tools * 2
    assert len(caplog.messages) == 2


@pytest.mark.requirement("P-3")
async def test_answers_in_reverse_order_reach_whoever_asked() -> None:
    answers: dict[int, str] = {}
    async with connected(raw_server()) as connection:

        async def call(number: int) -> None:
            answers[number] = text_of(await called(connection, "reverse", calls=20, number=number))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(call, number)
    assert all(f'"number": {number}}}' in answers[number] for number in range(20))


@pytest.mark.requirement("F-007")
async def test_a_call_that_hangs_is_given_up_and_the_process_is_told() -> None:
    delegate = Role()
    async with connected(raw_server(), delegate) as connection:
        with pytest.raises(RequestTimeoutError, match=r"^did not answer tools/call within 0\.1 s$"):
            params = {"name": "hang", "arguments": {"name": "x"}}
            await connection.request("tools/call", params, deadline=Deadline(0.1, 0.1))
        uris = ["hanging://x", "cancelled://x"]
        await delegate.until(lambda: [params["uri"] for _, params in delegate.heard] == uris)
        assert text_of(await called(connection, "pid"))


@pytest.mark.requirement("F-004")
async def test_a_process_that_crashes_in_a_call_fails_all_calls_at_once() -> None:
    delegate, failures = Role(), list[UpstreamError]()
    async with connected(raw_server(), delegate) as connection:

        async def call(name: str) -> None:
            try:
                await called(connection, name)
            except ConnectionLostError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hang")
            tasks.start_soon(call, "crash")
        assert len(failures) == len(delegate.endings) + 1 == 2
        assert connection.ended.is_set()
        assert "these are my last words" in connection.last_words
        with pytest.raises(ConnectionLostError):
            await called(connection, "pid")


@pytest.mark.requirement("F-038", "S-32")
@pytest.mark.parametrize(
    ("method", "code"), [("sampling/createMessage", -32601), ("roots/list", -32601), ("vendor/odd", -32601)]
)
async def test_what_a_process_may_not_ask_is_refused(method: str, code: int) -> None:
    async with connected(raw_server()) as connection:
        answer = text_of(await called(connection, "ask", method=method, params={}))
        assert f'"code": {code}' in answer


async def test_subscriptions_of_a_process_are_served() -> None:
    delegate = Role()
    async with connected(raw_server(), delegate) as connection:
        await connection.subscribe("raw://r")
        await delegate.until(lambda: delegate.heard == [("notifications/resources/updated", {"uri": "raw://r"})])
        with pytest.raises(ProtocolError, match="^cannot watch that$"):
            await connection.subscribe("raw://refused")
