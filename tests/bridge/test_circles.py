"""Bridges that lead to one another over HTTP: none of them publishes itself again, and the rest is served."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.model import HttpServerSpec, SourceState
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import DEADLINE, client_of, serving
from tests.support.agents import one_tool
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.on_demand import mcp
from tests.support.upstreams import until_ready
from tests.support.waiting import until
from tests.translation.legacy_only import forget_discovery

pytestmark = pytest.mark.anyio

QUICK = Settings(upstream=UpstreamLimits(backoff_start=0.02, announce_interval=0, refresh_interval=0))


def source_of(bridge: Bridge, name: str) -> Upstream:
    [found] = [source for source in bridge.sources if source.name == name]
    assert isinstance(found, Upstream)
    return found


async def listed(url: str, era: str = "modern") -> list[JSON]:
    async with client_of(url, era) as client:
        return [item.model_dump(by_alias=True, exclude_none=True) for item in (await client.list_tools()).tools]


async def names(url: str, era: str = "modern") -> set[str]:
    return {item["name"] for item in await listed(url, era)}


@pytest.mark.requirement("F-110")
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/agents/own/mcp"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_bridge_that_is_its_own_upstream_says_so_and_serves_the_rest(path: str, era: str) -> None:
    with anyio.fail_after(DEADLINE):
        async with serving({"own": one_tool(lambda _: "ours", "hello")}, QUICK) as (url, bridge):
            if era == "legacy":
                forget_discovery(bridge)
            await bridge.add_upstream(HttpServerSpec("me", url + path, sse=path == "/sse"))
            await until(lambda: source_of(bridge, "me").status.state is SourceState.FAILED)
            assert "it does not publish itself again" in source_of(bridge, "me").status.reason
            assert source_of(bridge, "me").details["starts"] == 1
            assert await names(f"{url}/mcp", era) == {"hello"}


@asynccontextmanager
async def two_bridges() -> AsyncGenerator[tuple[str, Bridge, str, Bridge]]:
    """Each is an upstream of the other, and has an agent of its own."""
    with anyio.fail_after(DEADLINE):
        async with (
            serving({"own": one_tool(lambda _: "from a", "hello")}, QUICK) as (url_a, a),
            serving({"own": one_tool(lambda _: "from b", "hello")}, QUICK) as (url_b, b),
        ):
            await a.add_upstream(HttpServerSpec("b", f"{url_b}/mcp"))
            await b.add_upstream(HttpServerSpec("a", f"{url_a}/mcp"))
            for bridge, name in ((a, "b"), (b, "a")):
                await until_ready(source_of(bridge, name))
            yield url_a, a, url_b, b


async def test_two_bridges_that_are_each_others_upstream_leave_out_what_is_their_own() -> None:
    async with two_bridges() as (url_a, a, url_b, b):
        await until(lambda: bool(source_of(a, "b").features.left_out or source_of(b, "a").features.left_out))
        await until(lambda: len(source_of(a, "b").features.tools) == len(source_of(b, "a").features.tools) == 1)
        assert await names(f"{url_a}/mcp") == {"hello", "b__hello"}
        assert await names(f"{url_b}/mcp") == {"hello", "a__hello"}
        async with client_of(f"{url_a}/mcp", "modern") as client:
            assert text_of(await client.call_tool("b__hello", {})) == "from b"
        async with httpx2.AsyncClient() as http:
            status = [(await http.get(f"{url}/status")).json() for url in (url_a, url_b)]
        left_out = [item for part in status for source in part["sources"] for item in source["leftOut"]]
        assert {item["reason"] for item in left_out} == {"it came from this bridge itself"}
        assert {item["name"] for item in left_out} <= {"a__hello", "b__hello"}


async def test_nobody_but_a_bridge_is_shown_what_came_through_whom() -> None:
    async with two_bridges() as (url_a, a, _, _):
        assert all("_meta" not in item for item in await listed(f"{url_a}/mcp"))
        async with httpx2.AsyncClient() as http:
            assert HOPS_META_KEY not in (await http.get(f"{url_a}/tools")).text
        [definition] = [item for item in source_of(a, "b").features.tools if item["name"] == "hello"]
        assert len(definition["_meta"][HOPS_META_KEY]) == 1


@both_eras
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_a_request_that_was_here_before_is_refused_whatever_it_asks(method: str, mode: str) -> None:
    async with running_bridge(one_tool(lambda _: "x", "hello")) as running:
        own: str = running.bridge._id  # pyright: ignore[reportPrivateUsage]
        meta: Any = {HOPS_META_KEY: ["other", own]}
        async with running.client(mode) as client:
            with pytest.raises(mcp.MCPError, match="got it back directly"):
                if method == "tools/call":
                    await client.call_tool("hello", {}, meta=meta)
                else:
                    await client.list_tools(meta=meta)
            far: Any = {HOPS_META_KEY: [f"bridge {number}" for number in range(9)]}
            with pytest.raises(mcp.MCPError, match="has passed 9 bridges; more than 8"):
                await client.call_tool("hello", {}, meta=far)
            assert text_of(await client.call_tool("hello", {})) == "x"


async def test_an_agent_is_not_shown_the_key_and_knows_the_way_all_the_same() -> None:
    seen: list[Any] = []

    def work(_: JSON) -> str:
        context = get_request_context()
        seen.append((HOPS_META_KEY in context.meta, context.meta.get("kept"), context.hops))
        return "done"

    async with running_bridge(one_tool(work)) as running, running.client() as client:
        meta: Any = {HOPS_META_KEY: ["other"], "kept": 1}
        await client.call_tool("work", {}, meta=meta)
    assert seen == [(False, 1, ("other",))]
