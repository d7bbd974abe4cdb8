"""Which revision a connection speaks, and what it costs to find out."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import anyio
import pytest

from gaia_bridge.client import ClientDelegate, Era, connect
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer
from gaia_bridge.client.transport import AuthorizationError, ConnectionLostError, UpstreamError
from gaia_bridge.protocol.codes import UNSUPPORTED_REVISION
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import (
    QUICK,
    Role,
    ScriptedTransport,
    Wire,
    connected,
    discovered,
    initialized,
    legacy,
    modern,
    serving,
)
from tests.support.on_demand import mcp_types, mcp_versions
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

IMPATIENT = UpstreamLimits(probe_timeout=0.01)
OFF: JSON = {"tools": {"listChanged": False}}


def methods(wire: Wire) -> list[Any]:
    return [message.get("method") for message in wire.received]


async def silent(wire: Wire) -> None:
    """Never say anything."""


async def exits(wire: Wire) -> None:
    """Exit because of the first message."""
    await wire.next()
    wire.end("exited with status 1")


async def test_a_modern_server_is_told_who_asks_and_needs_no_handshake() -> None:
    delegate = Role({"elicitation": {}})
    async with connected(modern(capabilities=OFF, instructions="Ask."), delegate=delegate) as (connection, wire):
        assert methods(wire) == ["server/discover"]
        assert wire.received[0]["params"] == {
            "_meta": {
                mcp_types.PROTOCOL_VERSION_META_KEY: mcp_versions.LATEST_MODERN_VERSION,
                mcp_types.CLIENT_INFO_META_KEY: {"name": "tester", "version": "2"},
                mcp_types.CLIENT_CAPABILITIES_META_KEY: {"elicitation": {}},
            }
        }
        assert wire.agreed == [mcp_versions.LATEST_MODERN_VERSION]
        handshake = connection.handshake
        assert (handshake.revision, handshake.modern, handshake.era) == (
            mcp_versions.LATEST_MODERN_VERSION,
            True,
            Era.MODERN,
        )
        assert handshake.info == {"name": "scripted", "version": "1"}
        assert (handshake.capabilities, handshake.instructions) == (OFF, "Ask.")


@pytest.mark.requirement("P-1", "S0-28")
async def test_a_server_that_refuses_the_probe_gets_the_handshake_and_then_the_confirmation() -> None:
    delegate = Role({"roots": {}})
    async with connected(legacy(serving(tools={"tools": []})), delegate=delegate) as (connection, wire):
        await connection.list_all("tool")
        assert methods(wire) == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
        assert wire.received[1]["params"] == {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "tester", "version": "2"},
        }
        assert wire.agreed == ["2025-11-25"]
        assert connection.handshake.era is Era.LEGACY


@pytest.mark.requirement("S0-3")
async def test_a_server_that_is_known_to_be_legacy_is_not_probed() -> None:
    async with connected(legacy(), era=Era.LEGACY) as (connection, wire):
        assert methods(wire)[:2] == ["initialize", "notifications/initialized"]
        assert not connection.handshake.modern


async def test_a_server_that_is_known_to_be_modern_is_not_offered_the_handshake_however_slow_it_is() -> None:
    async def slow(wire: Wire) -> None:
        request = await wire.next("server/discover")
        await anyio.wait_all_tasks_blocked()
        assert len(wire.received) == 1
        wire.answer(request, {"supportedVersions": [mcp_versions.LATEST_MODERN_VERSION], "capabilities": {}})

    async with connected(slow, era=Era.MODERN, limits=UpstreamLimits(probe_timeout=0)) as (connection, _):
        assert connection.handshake.modern


async def test_a_server_that_turned_modern_is_probed_on_a_fresh_link() -> None:
    async def refuses(wire: Wire) -> None:
        wire.refuse(await wire.next("initialize"), UNSUPPORTED_REVISION, "too old")

    transport = ScriptedTransport(refuses, modern())
    async with connect(transport, Role(), QUICK, era=Era.LEGACY) as connection:
        assert connection.handshake.modern
    assert [methods(wire) for wire in transport.wires] == [["initialize"], ["server/discover"]]


async def test_a_server_that_turned_legacy_gets_the_handshake_on_the_same_link() -> None:
    async with connected(legacy(), era=Era.MODERN) as (connection, wire):
        assert not connection.handshake.modern
        assert methods(wire)[:2] == ["server/discover", "initialize"]


async def test_a_server_that_exits_because_of_the_probe_is_started_again_without_one() -> None:
    delegate = Role()
    transport = ScriptedTransport(exits, legacy())
    async with connect(transport, delegate, QUICK) as connection:
        assert not connection.handshake.modern
        assert transport.wires[0].closed.is_set()
    assert [methods(wire)[0] for wire in transport.wires] == ["server/discover", "initialize"]
    assert delegate.endings == [], "it never was a connection"


async def test_a_server_that_exits_after_it_refused_the_probe_is_started_again_too() -> None:
    async def refuses_and_exits(wire: Wire) -> None:
        wire.refuse(await wire.next("server/discover"))
        await wire.next("initialize")
        wire.end()

    async with connected(refuses_and_exits, legacy()) as (connection, wire):
        assert not connection.handshake.modern
        assert methods(wire)[0] == "initialize"


async def test_a_server_that_always_exits_is_started_twice_and_no_more() -> None:
    transport = ScriptedTransport(exits, exits)
    with pytest.raises(ConnectionLostError, match="^exited with status 1 before it completed the handshake$"):
        async with connect(transport, Role(), QUICK):
            pass
    assert len(transport.wires) == 2


async def test_a_server_that_ignores_the_probe_costs_no_more_than_its_limit() -> None:
    async def ignores(wire: Wire) -> None:
        await wire.next("server/discover")
        await initialized(wire)

    async with connected(ignores, limits=IMPATIENT) as (connection, wire):
        assert not connection.handshake.modern
        cancelled = await wire.next("notifications/cancelled")
        assert cancelled["params"]["requestId"] == wire.received[0]["id"]
        assert methods(wire) == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "notifications/cancelled",
        ]


async def test_a_slow_modern_server_wins_over_the_handshake_that_it_refuses() -> None:
    async def slow(wire: Wire) -> None:
        probe = await wire.next("server/discover")
        handshake = await wire.next("initialize")
        wire.refuse(handshake, UNSUPPORTED_REVISION, "modern only")
        await anyio.wait_all_tasks_blocked()
        wire.answer(probe, {"supportedVersions": [mcp_versions.LATEST_MODERN_VERSION], "capabilities": {}})

    async with connected(slow, limits=IMPATIENT) as (connection, wire):
        assert connection.handshake.modern
        assert methods(wire) == ["server/discover", "initialize"], "a handshake is never cancelled or confirmed"


@pytest.mark.parametrize("probe_first", [True, False], ids=["probe-first", "handshake-first"])
async def test_a_slow_server_that_takes_the_handshake_too_has_settled_for_it(probe_first: bool) -> None:
    async def slow(wire: Wire) -> None:
        probe = await wire.next("server/discover")
        handshake = await wire.next("initialize")
        answers: list[tuple[JSON, JSON]] = [
            (probe, {"supportedVersions": [mcp_versions.LATEST_MODERN_VERSION], "capabilities": {}}),
            (handshake, {"protocolVersion": "2025-11-25"}),
        ]
        for request, result in answers if probe_first else reversed(answers):
            wire.answer(request, result)
        await wire.next("notifications/initialized")

    async with connected(slow, limits=IMPATIENT) as (connection, wire):
        assert (connection.handshake.revision, connection.handshake.era) == ("2025-11-25", Era.LEGACY)
        assert connection.handshake.next_era is Era.MODERN
        assert methods(wire)[:3] == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_slow_modern_server_that_ignores_the_handshake_is_modern() -> None:
    async def slow(wire: Wire) -> None:
        probe = await wire.next("server/discover")
        await wire.next("initialize")
        wire.answer(probe, {"supportedVersions": [mcp_versions.LATEST_MODERN_VERSION], "capabilities": {}})

    async with connected(slow, limits=IMPATIENT) as (connection, _):
        assert connection.handshake.modern


async def test_a_late_refusal_of_the_probe_does_not_disturb_the_handshake() -> None:
    async def slow(wire: Wire) -> None:
        probe = await wire.next("server/discover")
        handshake = await wire.next("initialize")
        wire.refuse(probe)
        await anyio.wait_all_tasks_blocked()
        wire.answer(handshake, {"protocolVersion": "2024-11-05"})
        await wire.next("notifications/initialized")

    async with connected(slow, limits=IMPATIENT) as (connection, _):
        assert connection.handshake.revision == "2024-11-05"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"supportedVersions": None},
        {"supportedVersions": "2026-07-28"},
        {"supportedVersions": ["2025-06-18"], "capabilities": {}},
        {"supportedVersions": []},
        {"tools": []},
    ],
)
async def test_an_answer_to_the_probe_without_a_modern_revision_means_legacy(answer: Any) -> None:
    async def odd(wire: Wire) -> None:
        wire.answer(await wire.next("server/discover"), answer)
        await initialized(wire)

    async with connected(odd) as (connection, _):
        assert connection.handshake.revision == "2025-11-25"


@pytest.mark.parametrize("response", [{"result": 5}, {"error": "no"}, {"error": {"code": "x", "message": 1}}, {}])
async def test_nonsense_in_answer_to_the_probe_means_legacy(response: Any) -> None:
    async def odd(wire: Wire) -> None:
        wire.respond({"id": (await wire.next("server/discover"))["id"]} | response)
        await initialized(wire)

    async with connected(odd) as (connection, _):
        assert not connection.handshake.modern


@pytest.mark.parametrize("code", [-32601, -32600, -32000, 0, UNSUPPORTED_REVISION])
async def test_any_error_in_answer_to_the_probe_means_legacy(code: int) -> None:
    async def refuses(wire: Wire) -> None:
        supported = {"supported": ["2025-06-18", "2025-11-25"]}
        wire.refuse(await wire.next("server/discover"), code, "before initialization", supported)
        await initialized(wire)

    async with connected(refuses) as (connection, _):
        assert not connection.handshake.modern


async def test_a_modern_server_that_names_a_common_revision_is_asked_once_more() -> None:
    async def insists(wire: Wire) -> None:
        wire.refuse(
            await wire.next("server/discover"),
            UNSUPPORTED_REVISION,
            data={"supported": ["2031-01-01", mcp_versions.LATEST_MODERN_VERSION]},
        )
        await discovered(wire)

    async with connected(insists) as (connection, _):
        assert connection.handshake.modern


async def test_a_server_that_never_takes_the_revision_that_it_names_is_legacy() -> None:
    async def insists(wire: Wire) -> None:
        for _ in range(2):
            request = await wire.next("server/discover")
            wire.refuse(request, UNSUPPORTED_REVISION, data={"supported": [mcp_versions.LATEST_MODERN_VERSION]})
        await initialized(wire)

    async with connected(insists) as (connection, wire):
        assert not connection.handshake.modern
        assert methods(wire)[:3] == ["server/discover", "server/discover", "initialize"]


async def test_a_request_that_fails_on_the_way_is_no_verdict_about_the_era() -> None:
    async def fails(wire: Wire) -> None:
        wire.fail(await wire.next("server/discover"), UpstreamError("answered with HTTP status 400"))
        await initialized(wire)

    async with connected(fails) as (connection, _):
        assert not connection.handshake.modern


async def test_who_cannot_be_authorised_for_the_probe_is_not_asked_to_log_in_again_for_the_handshake() -> None:
    async def fails(wire: Wire) -> None:
        wire.fail(await wire.next("server/discover"), AuthorizationError("the login was refused"))

    transport = ScriptedTransport(fails)
    with pytest.raises(AuthorizationError, match="the login was refused"), anyio.fail_after(5):
        async with connect(transport, Role(), QUICK):
            pass
    assert [methods(wire) for wire in transport.wires] == [["server/discover"]]


@pytest.mark.requirement("F-041")
@pytest.mark.parametrize("way", ["result", "error"])
async def test_a_server_without_a_common_revision_is_told_apart_with_both_lists(way: str) -> None:
    async def too_new(wire: Wire) -> None:
        request = await wire.next("server/discover")
        if way == "result":
            wire.answer(request, {"supportedVersions": ["2031-01-01", "2032-02-02"], "capabilities": {}})
        else:
            wire.refuse(request, UNSUPPORTED_REVISION, "x", {"supported": ["2031-01-01", "2032-02-02"]})

    transport = ScriptedTransport(too_new)
    with pytest.raises(UpstreamError) as caught:
        async with connect(transport, Role(), QUICK):
            pass
    assert str(caught.value) == (
        "speaks none of our revisions of MCP: it supports 2031-01-01, 2032-02-02; "
        "we support 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    )


@pytest.mark.requirement("P-2")
@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
async def test_every_handshake_revision_is_accepted(version: str) -> None:
    async with connected(legacy(protocolVersion=version)) as (connection, wire):
        assert connection.handshake.revision == version
        assert wire.agreed == [version]


@pytest.mark.requirement("F-370")
@pytest.mark.parametrize("version", ["1.0.0", "9999", "latest", "2025-11-25-rc1", "x" * 100_000, "2\x1b[31m"])
async def test_an_answer_that_is_no_date_is_taken_for_the_oldest_revision(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    delegate = Role()
    delegate.server = f"upstream {version[:20]!r}"
    for _ in range(2):
        async with connected(legacy(protocolVersion=version), delegate=delegate) as (connection, wire):
            assert connection.handshake.revision == HANDSHAKE_REVISIONS[0]
            assert wire.agreed == [HANDSHAKE_REVISIONS[0]]
    [warning] = [record.getMessage() for record in caplog.records if "protocol version" in record.getMessage()]
    assert warning.startswith(f"{delegate.server} answered the handshake with the protocol version ")
    assert json.dumps(version)[:30] in warning
    assert warning.endswith(", which is no revision of MCP; it is spoken to as 2024-11-05")
    assert warning.isprintable() and len(warning) < 250


@pytest.mark.requirement("F-041")
@pytest.mark.parametrize("version", ["9999-01-01", "2026-07-28", "", 5, None, ["2025-11-25"]])
async def test_a_revision_that_nobody_knows_is_a_clear_error(version: Any) -> None:
    async def odd(wire: Wire) -> None:
        wire.answer(await wire.next("initialize"), {"protocolVersion": version, "capabilities": {}})

    transport = ScriptedTransport(odd, exits, odd)
    with pytest.raises(
        UpstreamError, match=r"^answered the handshake with (no|the) revision .*; we support 2024-11-05"
    ):
        async with connect(transport, Role(), QUICK, era=Era.LEGACY):
            pass


@pytest.mark.requirement("F-041")
async def test_an_error_in_answer_to_the_handshake_is_passed_on_in_one_line() -> None:
    async def refuses(wire: Wire) -> None:
        wire.refuse(await wire.next("server/discover"))
        wire.refuse(await wire.next("initialize"), -32001, "no\nlicence")

    with pytest.raises(UpstreamError, match=r"^refused the handshake: no\\nlicence \(-32001\)$"):
        async with connected(refuses):
            pass


@pytest.mark.requirement("F-005")
@pytest.mark.parametrize("era", [None, Era.LEGACY, Era.MODERN])
async def test_a_server_that_says_nothing_is_given_up_after_the_limit_and_closed(era: Era | None) -> None:
    transport = ScriptedTransport(silent)
    limits = UpstreamLimits(connect_timeout=0.05, probe_timeout=0.01)
    with pytest.raises(UpstreamError, match=r"^did not complete the handshake within 0\.05 s \(startup_timeout\)$"):
        async with connect(transport, Role(), limits, era=era):
            pass
    assert [wire.closed.is_set() for wire in transport.wires] == [True]


async def test_the_limit_for_connecting_does_not_count_once_the_connection_is_open() -> None:
    limits = UpstreamLimits(connect_timeout=0.05)
    async with connected(legacy(serving(tools={"tools": [1]})), limits=limits) as (connection, _):
        with anyio.move_on_after(0.1):
            await connection.ended.wait()
        assert await connection.list_all("tool") == [1]


async def test_a_handshake_waits_until_its_caller_is_ready_which_takes_nothing_from_its_time() -> None:
    transport = ScriptedTransport(legacy())
    limits = UpstreamLimits(connect_timeout=PATIENCE)
    received: list[int] = []

    async def ready(peer: JsonRpcPeer) -> None:
        received.append(len(transport.wires[0].received))
        assert anyio.current_effective_deadline() == math.inf

    async with connect(transport, Role(), limits, ready=ready):
        assert received == [0]
        assert methods(transport.wires[0])[0] == "server/discover"


@pytest.mark.requirement("F-042")
async def test_what_a_server_says_about_itself_is_cut() -> None:
    limits = UpstreamLimits(text_bytes=100)
    info = {"name": "n" * 1_000, "version": "é" * 1_000, "icons": [{"src": "s" * 1_000}], "title": "short", "x": 5}
    capabilities = {"tools": {}, "experimental": {"huge": "h" * 1_000}}
    server = legacy(serverInfo=info, capabilities=capabilities, instructions="i" * 10_000_000)
    async with connected(server, limits=limits) as (connection, _):
        handshake = connection.handshake
        assert handshake.info == {"name": "n" * 100, "version": "é" * 50, "title": "short", "x": 5}
        assert handshake.capabilities == {"tools": {}}
        assert handshake.instructions == "i" * 100


@pytest.mark.parametrize("era", [Era.LEGACY, Era.MODERN])
async def test_a_server_that_says_nothing_about_itself_is_as_good_as_any(era: Era) -> None:
    nothing: Any = {"serverInfo": None, "capabilities": None, "instructions": 5, "_meta": None}
    server = modern if era is Era.MODERN else legacy
    async with connected(server(**nothing), era=era) as (connection, _):
        handshake = connection.handshake
        assert (handshake.info, handshake.capabilities, handshake.instructions) == ({}, {}, None)


async def test_a_transport_that_cannot_connect_says_why() -> None:
    class Unreachable(ScriptedTransport):
        def connect(self, receiver: Any) -> Any:
            raise UpstreamError("cannot be started: no such program")

    with pytest.raises(UpstreamError, match="no such program"):
        async with connect(Unreachable(), ClientDelegate(), QUICK):
            pass


@pytest.mark.parametrize("error", [ValueError("mine"), UpstreamError("mine"), KeyboardInterrupt("mine")])
async def test_what_the_block_raises_comes_out_as_it_was_raised(error: BaseException) -> None:
    with pytest.raises(type(error), match="mine") as caught:
        async with connected(legacy()):
            raise error
    assert caught.value is error


async def test_cancelling_the_block_closes_the_connection() -> None:
    transport = ScriptedTransport(modern(serving()))
    with anyio.CancelScope() as scope:
        async with connect(transport, Role(), QUICK):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert transport.wires[0].closed.is_set()


async def test_a_task_that_is_cancelled_from_outside_closes_the_connection() -> None:
    transport = ScriptedTransport(legacy(serving()))
    opened = anyio.Event()

    async def use() -> None:
        async with connect(transport, Role(), QUICK):
            opened.set()
            await anyio.sleep_forever()

    task = asyncio.create_task(use())
    await opened.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.wires[0].closed.is_set()


async def test_a_server_that_ends_while_it_says_what_it_is_leaves_no_connection() -> None:
    async def answers_and_exits(wire: Wire) -> None:
        await discovered(wire)
        wire.end("was killed")

    delegate = Role()
    with pytest.raises(ConnectionLostError, match="^was killed$"):
        async with connected(answers_and_exits, era=Era.MODERN, delegate=delegate):
            pass
    assert delegate.endings == []
