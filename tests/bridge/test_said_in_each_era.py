"""A server that says something else of itself in each era: each client is told what is said in its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.client import Connection, ServerHandshake
from gaia_bridge.client.lists import ReadPage
from gaia_bridge.model import Change, ChangeKind, ServerFeatures, SourceState, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge.sources.upstream.listing.feature_lists import introduced
from gaia_bridge.sources.upstream.listing.features import FeatureTracker
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import ScriptedTransport, Wire, legacy
from tests.conformance.raw_clients import connect_http
from tests.interaction.connecting import DEADLINE, serving
from tests.support.agents import one_tool
from tests.support.on_demand import mcp_types
from tests.support.upstreams import PATIENT, FakeRequest, running, until_ready
from tests.support.waiting import until
from tests.translation.test_beyond_the_core import modern_request

pytestmark = pytest.mark.anyio

EXTENSIONS: JSON = {"example.org/new": {}}
DECLARED: dict[str, JSON] = {
    "old": {"tools": {}, "prompts": {"listChanged": True}},
    "new": {"tools": {"listChanged": True}, "extensions": EXTENSIONS},
}
SPEC = StdioServerSpec("up", command="none")


def info(face: str) -> JSON:
    return {"name": "two-faced", "version": "1", "title": f"The {face} one"}


class TwoFaced:
    """A server of both eras, whose streams are settled by their first request."""

    def __init__(self) -> None:
        self.more: list[str] = []
        """Tools that it has got since, by name."""
        self.wires: dict[str, Wire] = {}

    async def __call__(self, wire: Wire) -> None:
        face = ""
        while True:
            request = await wire.next()
            method = request["method"]
            if not face:
                face = "new" if method == "server/discover" else "old"
                self.wires[face] = wire
            if "id" in request:
                answer = self.answer(face, method)
                if answer is None:
                    wire.refuse(request)
                else:
                    wire.answer(request, answer)

    def answer(self, face: str, method: str) -> JSON | None:
        said: JSON = {"capabilities": DECLARED[face], "instructions": f"{face} words"}
        modern: JSON = {"resultType": "complete"} if face == "new" else {}
        match (face, method):
            case ("old", "initialize"):
                return {**said, "protocolVersion": "2025-11-25", "serverInfo": info(face)}
            case ("new", "server/discover"):
                return {
                    **said,
                    **modern,
                    "supportedVersions": ["2026-07-28"],
                    "_meta": {mcp_types.SERVER_INFO_META_KEY: info(face)},
                }
            case (_, "tools/list"):
                names = ["same", f"only-{face}", *self.more]
                page: JSON = {"ttlMs": 77_000, "cacheScope": "private"} if modern else {}
                return {**modern, **page, "tools": [{"name": name, "inputSchema": {}} for name in names]}
            case (_, "prompts/list"):
                return {"prompts": []}
            case (_, "tools/call"):
                return {**modern, "content": [{"type": "text", "text": face}]}
            case _:
                return None


@asynccontextmanager
async def publishing() -> AsyncGenerator[tuple[str, Bridge, TwoFaced]]:
    """The server beside an agent and a server of the handshake era."""
    server = TwoFaced()
    with anyio.fail_after(DEADLINE):
        async with serving({}) as (url, bridge):
            await bridge.add_agent(one_tool(lambda _: "worked"), "agent")
            await bridge.add_upstream(replace(SPEC, name="older"), ScriptedTransport(legacy()))
            await bridge.add_upstream(SPEC, ScriptedTransport(*[server] * 9))
            await until_ready(*bridge.sources)
            yield url, bridge, server


async def said_to_old(url: str, call: str = "") -> JSON:
    """What a client of the handshake era is told."""
    async with connect_http(url) as client:
        said = await client.initialize("2025-11-25")
        if call:
            await client.result("tools/call", {"name": call})
        listed = await client.result("tools/list")
    return {**said, "listed": {tool["name"] for tool in listed["tools"]}, "page": listed}


async def said_to_new(url: str, call: str = "") -> JSON:
    """What a client of 2026-07-28 is told."""
    said = (await modern_request(url, "server/discover", {}))["result"]
    if call:
        await modern_request(url, "tools/call", {"name": call}, name=call)
    listed = (await modern_request(url, "tools/list", {}))["result"]
    told = said["_meta"][mcp_types.SERVER_INFO_META_KEY]
    return {**said, "serverInfo": told, "listed": {tool["name"] for tool in listed["tools"]}, "page": listed}


@pytest.mark.requirement("F-345", "F-286")
@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("old", "new", "old", "new")], ids="-".join)
async def test_its_own_endpoint_says_to_each_client_what_it_says_in_its_era(order: tuple[str, ...]) -> None:
    async with publishing() as (url, _, _):
        for face in order:
            ask = said_to_old if face == "old" else said_to_new
            said = await ask(f"{url}/servers/up/mcp", "same")
            assert said["capabilities"] == DECLARED[face]
            assert said["instructions"] == f"{face} words"
            assert said["serverInfo"] == info(face)
            assert said["listed"] == {"same", f"only-{face}"}
            assert said["page"].get("ttlMs") == (None if face == "old" else 77_000)


@pytest.mark.requirement("F-345")
@pytest.mark.parametrize("first", ["old", "new"])
async def test_the_endpoint_of_all_merges_what_is_said_in_the_era_of_the_client(first: str) -> None:
    async with publishing() as (url, _, _):
        ask = {"old": said_to_old, "new": said_to_new}
        for face in (first, "new" if first == "old" else "old"):  # from now on both are known
            await ask[face](f"{url}/mcp", "up__same")
        said = {face: await ask[face](f"{url}/mcp") for face in ask}
        assert "extensions" not in said["old"]["capabilities"]
        assert said["new"]["capabilities"]["extensions"] == EXTENSIONS
        for face in ask:
            assert said[face]["listed"] == {"up__same", f"up__only-{face}", "work"}
            assert f"{face} words" in said[face]["instructions"]


@pytest.mark.requirement("F-345")
async def test_what_is_new_on_the_connection_of_one_era_is_listed_to_its_clients() -> None:
    async with publishing() as (url, bridge, server):
        await said_to_new(f"{url}/servers/up/mcp", "same")
        await said_to_old(f"{url}/servers/up/mcp", "same")
        [up] = [source for source in bridge.sources if source.name == "up"]
        server.more.append("grown")
        server.wires["old"].notify("notifications/tools/list_changed")

        def grown() -> bool:
            return all(
                "grown" in {tool["name"] for tool in up.features.for_era(modern=modern).tools}
                for modern in (True, False)
            )

        await until(grown)
        assert "grown" in (await said_to_old(f"{url}/servers/up/mcp"))["listed"]


@pytest.mark.requirement("F-345")
async def test_what_it_says_in_both_is_known_the_next_time(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    told: list[tuple[ServerFeatures, ServerFeatures]] = []
    for run in range(2):
        server = TwoFaced()
        transport: Any = ScriptedTransport(*[server] * 9)
        async with running(SPEC, PATIENT, transport=transport, cache=cache) as upstream:
            if run == 0:
                await upstream.call_tool("same", {}, FakeRequest(modern=True))
                await upstream.call_tool("same", {}, FakeRequest())
                await until(lambda: '"other": {' in next(tmp_path.glob("*.json")).read_text())
            else:
                assert upstream.status.state is SourceState.STOPPED
            new, old = (replace(upstream.features.for_era(modern=modern), other=None) for modern in (True, False))
            told.append((new, old))
    assert told[0] == told[1]
    assert (told[1][0].declared, told[1][1].declared) == (DECLARED["new"], DECLARED["old"])


class Lists:
    """A connection to a server that has some tools."""

    def __init__(self, *tools: str, version: str = "1") -> None:
        handshake = {"name": "up", "version": version}
        self.handshake = ServerHandshake("2026-07-28", True, handshake, {"tools": {}}, "New words.")
        self._tools = tools

    async def list_pages(self, kind: str) -> list[ReadPage]:
        return [ReadPage(None, [{"name": name, "inputSchema": {}} for name in self._tools], {})]


@pytest.mark.requirement("F-345", "F-287")
@pytest.mark.parametrize("version", ["1", "2"])
async def test_what_was_said_in_the_other_era_is_no_longer_listed_when_it_is_older_than_what_is_known(
    version: str,
) -> None:
    tracker = FeatureTracker(SPEC, UpstreamLimits(announce_interval=0), None)
    await tracker.read(cast(Connection, Lists("a")))
    tracker.connected()
    handshake = ServerHandshake(
        "2025-11-25", False, {"name": "up", "version": "1"}, {"tools": {}, "logging": {}}, "Old words."
    )
    old = replace(introduced("up", handshake), tools=({"name": "a", "inputSchema": {}},))
    tracker.overheard(Change(ChangeKind.INTRODUCTION), old)
    assert tracker.features.for_era(modern=False) == old
    await tracker.read(cast(Connection, Lists("a", "b", version=version)))
    tracker.connected()
    told = tracker.features.for_era(modern=False)
    assert [tool["name"] for tool in told.tools] == ["a", "b"]
    assert told.info.instructions == ("Old words." if version == "1" else "New words."), "it may be another server"
