"""Calls that may not be passed on directly, and limits that hold for direct calls as for others."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Final

import anyio
import httpx2
import pytest
from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.model import ServerOptions, ToolTransform
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_direct_calls import ERAS, META, bridge_of_raw, raw_client
from tests.bridge.server.test_direct_calls import began as began  # a fixture
from tests.bridge.server.test_direct_calls_in_flight import ALSO, LATER, NOW, Client, Scene, World, world
from tests.interaction.connecting import serving
from tests.support.agents import one_tool
from tests.support.upstreams import raw_server
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

CAPABLE: Final[JSON] = {**META, "io.modelcontextprotocol/clientCapabilities": {"roots": {}}}


async def it_wants_progress(world: World, seen: list[Any]) -> None:
    client = await world.client()
    for _ in range(3):
        seen += await client.call([["progress", 1], ["text", "done"]], progressToken="mine")


async def it_has_passed_another_bridge(world: World, seen: list[Any]) -> None:
    client = await world.client()
    passed: JSON = {HOPS_META_KEY: ["one"], "x/more": 1}
    for _ in range(3):
        seen += await client.call([["meta"]], **passed)


async def its_tool_wants_a_header_for_an_argument(world: World, seen: list[Any]) -> None:
    other = await world.client()
    schema = {"type": "object", "properties": {"tag": {"type": "string", "x-mcp-header": "Tag"}}}
    await other.call([["list", ALSO, {"name": "do", "inputSchema": schema}], *NOW], name="up__also")
    with anyio.fail_after(PATIENCE):
        while "x-mcp-header" not in str(await other.listed()):
            pass
    client = await world.client(other.session if not world.modern else "")
    message = client.message(NOW)
    for tag in (None, None, "a"):
        message["params"]["arguments"] = {"steps": NOW, **({} if tag is None else {"tag": tag})}
        seen += await client.send(message)


async def the_server_has_asked_before(world: World, seen: list[Any]) -> None:
    if world.modern:
        return
    pairs: list[tuple[Client, Client]] = []
    for _ in range(2):
        client = await world.client(capabilities={"roots": {}})
        pairs.append((client, await world.client(client.session)))
    steps: list[Any] = [["ask", "roots/list", {}], ["text", "asked"]]
    said: list[list[Any]] = [[], []]

    async def ask(number: int) -> None:
        client, other = pairs[number]

        async def answer(question: JSON) -> None:
            await other.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})

        said[number] += await client.question(steps, answer)

    await ask(0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, 0)
        tasks.start_soon(ask, 1)
    seen += said


async def stranger(world: World) -> Client:
    """Return a client whose first call to the server is direct: it called another tool before."""
    client = await world.client("none")
    del client.headers["mcp-session-id"]
    await client.greet({})
    [answer] = await client.call([], name="work")
    assert "result" in answer
    return client


async def the_server_logs_after_its_answer_to_another(world: World, seen: list[Any]) -> None:
    if world.modern:
        return
    await world.bridge.add_agent(one_tool(lambda _: "yes"), "one")
    other, client = await world.client(), await stranger(world)
    await other.send({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}})
    second = await world.client(other.session)  # only these two have been answered lately

    async def hold() -> None:
        seen.extend(await other.call(LATER, "held", number=7))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        while "held" not in await second.received():
            pass
        seen += await client.call([["text", "mine"], ["log", "of a stranger"], ["release", "it"]])


async def its_level_of_logs_is_new(world: World, seen: list[Any]) -> None:
    client = await world.client()
    if not world.modern:
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}})
    seen += await client.call(NOW)
    seen.append(await client.received())


SCENES: Final[tuple[Scene, ...]] = (
    it_wants_progress,
    it_has_passed_another_bridge,
    its_tool_wants_a_header_for_an_argument,
    the_server_has_asked_before,
    the_server_logs_after_its_answer_to_another,
    its_level_of_logs_is_new,
)


async def compared(scene: Scene, revision: str, **options: Any) -> list[Any]:
    """Play a scene with direct calls and without; return what is seen both times."""
    seen: list[list[Any]] = []
    with anyio.fail_after(3 * PATIENCE):
        for direct in (True, False):
            seen.append([])
            async with world(revision, direct=direct, **options) as place:
                await scene(place, seen[-1])
    assert seen[0] == seen[1]
    return seen[0]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_a_call_takes_the_ordinary_way_where(scene: Scene, revision: str) -> None:
    await compared(scene, revision)


async def its_server_speaks_another_era(world: World, seen: list[Any]) -> None:
    client = await world.client(capabilities={"roots": {}})
    asks: list[list[Any]] = [[["meta"]], [["meta"]], [["ask", "roots/list", {}]]]
    for steps in asks if world.modern else asks[:2]:
        message = client.message(steps)
        if world.modern:
            message["params"]["_meta"] = CAPABLE
        [answer] = await client.send(message)
        result = answer["result"]
        seen.append([result["resultType"], result["inputRequests"]] if "inputRequests" in result else answer)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_crosses_the_eras_on_the_ordinary_way(revision: str) -> None:
    [other] = [one for one in ERAS if one != revision]
    era: Any = "handshake" if revision == "2026-07-28" else "2026-07-28"
    seen = await compared(its_server_speaks_another_era, revision, servers=other, options=ServerOptions(era=era))
    assert "input_required" in str(seen) or revision == "2025-11-25"


async def test_what_a_server_logs_for_a_stranger_reaches_nobody_else(
    began: list[DirectCall], caplog: pytest.LogCaptureFixture
) -> None:
    async with world("2025-11-25", direct=True) as place:
        await place.bridge.add_agent(one_tool(lambda _: "yes"), "one")
        await place.client()
        client = await stranger(place)
        began.clear()
        await client.call([["text", "mine"], ["log", "of a stranger"]])
        await client.received()
        assert began
    assert "of a stranger" in caplog.text


async def test_a_direct_call_counts_among_the_requests_of_its_server_until_it_is_answered() -> None:
    async with world("2025-11-25", direct=True) as place, anyio.create_task_group() as tasks:
        client, held = await place.client(), list[Any]()
        [upstream] = place.bridge.sources
        assert isinstance(upstream, Upstream)
        await place.in_flight(tasks, held, client)
        assert upstream.details["requests"] == 1
        await (await place.client()).call([["release", "it"], *NOW])
        await until(lambda: bool(held))
        assert upstream.details["requests"] == 0


async def test_a_tool_that_runs_as_a_task_leaves_the_turns_of_others(began: list[DirectCall]) -> None:
    async with world("2025-11-25", direct=True, limits=UpstreamLimits(max_concurrency=1)) as place:
        client = await place.client()
        needing: JSON = {"name": "do", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
        await client.call([["list", ALSO, needing], *NOW], name="up__also")
        with anyio.fail_after(PATIENCE):
            while "taskSupport" not in str(await client.listed()):
                pass
            for _ in range(2):
                began.clear()
                assert "now" in str(await client.call(NOW))
        assert began


@pytest.mark.parametrize("revision", ERAS)
async def test_structured_content_is_what_the_tool_promises(revision: str) -> None:
    answers: list[list[Any]] = []
    for direct in (True, False):
        async with bridge_of_raw(direct=direct, mode="promises") as (url, _), raw_client(url, revision) as client:
            good: JSON = {"structuredContent": {"sum": 1}}
            contents = (good, good, {"structuredContent": {"sum": "no"}}, good)
            answers.append([await client.call("up__promised", content) for content in contents])
    assert answers[0] == answers[1]


async def test_a_session_gives_way_after_calls_that_could_not_be_direct(began: list[DirectCall]) -> None:
    options = ServerOptions(era="2026-07-28")
    async with world("2025-11-25", direct=True, servers="2026-07-28", options=options, sessions=2) as place:
        client = await place.client()
        await client.call(NOW)
        assert began
        for _ in range(2):
            await place.client()
        assert (await client.call(NOW))[0] == 404


async def test_a_server_with_a_connection_for_each_client_is_called_on_that() -> None:
    async with world("2025-11-25", direct=True, options=ServerOptions(isolation="session")) as place:
        clients = [await place.client() for _ in range(2)]
        async with httpx2.AsyncClient() as http:  # whose calls, which have no session, share a connection
            alone = await http.post(f"{place.url}/", json=clients[0].message(NOW))
        assert "now" in alone.text
        for number, client in enumerate(clients):
            await client.call(NOW, f"of {number}")
        assert ["of 1" in await client.received() for client in clients] == [False, True]


async def test_a_tool_that_has_another_name_is_called_by_its_own() -> None:
    options = ServerOptions(tools={"env": ToolTransform(name="pid")}, allowed_tools=("env",))
    async with serving({}) as (url, bridge), raw_client(url, "2025-11-25") as client:
        await bridge.add_upstream(replace(raw_server(), options=options))
        for _ in range(3):
            assert "PATH" in (await client.call("up__pid", {}))[1]


async def test_a_server_with_little_time_has_it_for_each_call(began: list[DirectCall]) -> None:
    limits = UpstreamLimits(call_timeout=60)
    options = ServerOptions(timeout=0.1)
    async with world("2025-11-25", direct=True, limits=limits, quick_answer=PATIENCE * 2, options=options) as place:
        client = await place.client()
        with anyio.fail_after(PATIENCE):
            [answer] = await client.call(LATER)
    assert "did not answer" in answer["result"]["content"][0]["text"]


async def test_a_server_that_dies_loses_no_call_that_waits_for_its_turn(began: list[DirectCall]) -> None:
    limits = UpstreamLimits(max_concurrency=1)
    async with world("2025-11-25", direct=True, limits=limits, quick_answer=PATIENCE * 2) as place:
        clients = [await place.client() for _ in range(3)]
        [process] = await clients[0].call([["pid"]])
        answers: dict[int, Any] = {}
        began.clear()

        async def call(number: int, steps: list[Any]) -> None:
            answers[number] = (await clients[number].call(steps))[0]["result"]

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number, steps in enumerate((LATER, NOW, NOW)):
                    tasks.start_soon(call, number, steps)
                    await until(lambda number=number: len(began) > number)  # type: ignore[misc]
                os.kill(int(process["result"]["content"][0]["text"]), signal.SIGKILL)
    assert answers[0]["isError"] is True
    assert [answers[number]["content"][0]["text"] for number in (1, 2)] == ["now", "now"]


async def test_each_slow_call_becomes_an_ordinary_one(began: list[DirectCall]) -> None:
    async with world("2025-11-25", direct=True, quick_answer=0.2) as place:
        clients = [await place.client() for _ in range(2)]
        began.clear()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(clients[0].call, LATER)
                await until(lambda: bool(began) and time.monotonic() > began[0].began + 0.1)
                tasks.start_soon(clients[1].call, [["hold", "other"]])
                await until(lambda: [call.is_ordinary for call in began] == [True, True])
                await (await place.client()).call([["release", "it"], *NOW])
                tasks.cancel_scope.cancel()


async def test_a_call_that_has_become_ordinary_is_cancelled_at_its_server(began: list[DirectCall]) -> None:
    async with world("2025-11-25", direct=True, quick_answer=0.05) as place, anyio.create_task_group() as tasks:
        client = await place.client()
        await place.in_flight(tasks, [], client)
        [call] = [call for call in began if call.id == 7]
        await until(lambda: call.is_adopted)
        other = await place.client(client.session)
        await other.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        with anyio.fail_after(PATIENCE):
            while "cancelled" not in await (await place.client()).received():
                pass
