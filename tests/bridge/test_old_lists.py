"""Lists are read again when they are old, and when something beyond them is asked, whatever their server announces."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.sources.upstream.servant import Servant, tools_named
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.on_demand import mcp
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

SPEC = StdioServerSpec("up", "none", options=ServerOptions(lazy=False))
LIMITS = UpstreamLimits()
SETTINGS = Settings(upstream=LIMITS)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def silent(*, declares: bool = False, **more: Any) -> Servant:
    """A server that announces nothing, even if it declares that it does, with what else it says of its list."""
    servant = Servant("echo")
    servant.capabilities = {"tools": {"listChanged": True} if declares else {}}
    servant.more = more
    return servant


async def names(client: mcp.Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@both_eras
@pytest.mark.requirement("F-288", "P-5")
@pytest.mark.parametrize("path", ["", "servers/up"])
@pytest.mark.parametrize("declares", [False, True])
@pytest.mark.parametrize(("more", "age"), [({}, LIMITS.list_max_age), ({"ttlMs": 9000}, 9.0), ({"ttlMs": 0}, 1.0)])
async def test_a_list_is_read_again_when_it_is_as_old_as_the_server_says(
    mode: str, path: str, more: JSON, age: float, declares: bool
) -> None:
    servant = silent(declares=declares, **more)
    prefix = "" if path else "up__"
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        async with running.client(mode, path=path) as client:
            assert await names(client) == {f"{prefix}echo"}
            servant.tools += tools_named("new")
            await anyio.sleep(age / 2)
            assert await names(client) == {f"{prefix}echo"}
            await anyio.sleep(age / 2)
            assert await names(client) == {f"{prefix}echo", f"{prefix}new"}
            assert servant.asked.count("tools/list") == 2


@pytest.mark.requirement("F-288", "F-072")
async def test_a_slow_server_delays_no_list_and_what_it_has_new_is_announced() -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(type(message).__name__)

    servant, quick = silent(), Servant("echo")
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        await running.bridge.add_upstream(StdioServerSpec("quick", "none"), quick)
        async with running.client("legacy", message_handler=hear) as client:
            await names(client)
            heard.clear()
            servant.tools += tools_named("new")
            servant.list_delay = 4
            await anyio.sleep(LIMITS.list_max_age)
            began = anyio.current_time()
            assert await names(client) == {"up__echo", "quick__echo"}
            assert anyio.current_time() - began == pytest.approx(LIMITS.renewal)
            await anyio.sleep(5)
            assert heard == ["ToolListChangedNotification"]
            assert "up__new" in await names(client)


@both_eras
@pytest.mark.requirement("F-288")
async def test_a_new_tool_can_be_called_before_anybody_lists_it(mode: str) -> None:
    servant = silent(ttlMs=3_600_000)
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        async with running.client(mode) as client:
            await names(client)
            servant.tools += tools_named("new")
            await anyio.sleep(2)
            assert text_of(await client.call_tool("up__new", {})) == "new"


@pytest.mark.requirement("F-288", "F-035")
async def test_tools_that_do_not_exist_have_the_server_asked_once_a_second() -> None:
    servant = silent()
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        async with running.client() as client:
            await names(client)
            for _ in range(20):
                with pytest.raises(mcp.MCPError, match="Unknown tool"):
                    await client.call_tool("up__none", {})
                await anyio.sleep(0.1)
    assert servant.asked.count("tools/list") <= 4


@both_eras
@pytest.mark.requirement("F-288")
@pytest.mark.parametrize("path", ["", "servers/up"])
@pytest.mark.parametrize("ttl", [10**400, 2**53, -1, 1.5, "5", True, None])
async def test_a_list_is_there_whatever_its_server_says_of_how_long_it_holds(mode: str, path: str, ttl: object) -> None:
    servant = silent(ttlMs=ttl)
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        async with running.client(mode, path=path) as client:
            for _ in range(2):
                assert len(await names(client)) == 1
                await anyio.sleep(LIMITS.list_max_age)
