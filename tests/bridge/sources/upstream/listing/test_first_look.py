"""What clients see of servers that are starting and of which nothing is known: all of it, if they start in time."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.bridge.sources.upstream.servant import MemoryCache, Servant
from tests.interaction.results import wire
from tests.support.bridges import RunningBridge, both_eras, running_bridge, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(connect_timeout=600, probe_timeout=600)
PATIENCE = LIMITS.first_look
PROMPTING: JSON = {"tools": {}, "prompts": {"listChanged": True}}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def slow(seconds: float, capabilities: JSON | None = None) -> Servant:
    """A server that takes so long to start."""
    servant = Servant("echo")
    servant.slow = seconds
    servant.capabilities = capabilities or servant.capabilities
    return servant


async def publish(running: RunningBridge, *servants: Servant) -> None:
    """Publish servers as `up0`, `up1` and so on, which begin to start."""
    for number, servant in enumerate(servants):
        await running.bridge.add_upstream(StdioServerSpec(f"up{number}", "none"), servant)


async def tools_of(client: mcp.Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def named(name: str) -> mcp_types.Implementation:
    """How a client of that name introduces itself."""
    return mcp_types.Implementation(name=name, version="1")


class Clock:
    """How long something took."""

    def __init__(self) -> None:
        self._since = anyio.current_time()

    @property
    def seconds(self) -> float:
        """Since the last time."""
        since, self._since = self._since, anyio.current_time()
        return round(self._since - since, 3)


@both_eras
@pytest.mark.requirement("F-285", "P-5", "P-10")
async def test_the_first_client_sees_all_that_starts_in_time(mode: str) -> None:
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(1.5), slow(0.5, PROMPTING))
        clock = Clock()
        async with running.client(mode) as client:
            told = wire(client.server_capabilities)
            assert {"tools", "prompts", "resources"} <= told.keys()
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == {"up0__echo", "up1__echo"}
            assert mode != "auto" or listed.ttl_ms == Settings().list_ttl
        assert clock.seconds == 1.5


@both_eras
@pytest.mark.requirement("F-285", "F-072")
async def test_a_server_that_hangs_costs_clients_that_list_again_a_short_wait_once(mode: str) -> None:
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(20), slow(1))
        clock = Clock()
        for expected in (PATIENCE, 0, 0):
            async with running.client(mode, client_info=named("claude-code")) as client:
                listed = await client.list_tools()
                assert {tool.name for tool in listed.tools} == {"up1__echo"}
                assert mode != "auto" or listed.ttl_ms == 0
                assert text_of(await client.call_tool("up1__echo", {})) == "echo"
            assert clock.seconds == expected


@pytest.mark.requirement("F-285", "P-5")
@both_eras
@pytest.mark.requirement("F-285", "F-072")
async def test_a_server_that_hangs_costs_all_clients_that_may_list_once_a_longer_wait_once(mode: str) -> None:
    """Each of their requests is held back for a bounded time, because some programs give up one after five seconds."""
    held = Settings().clients.first_request
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(20))
        clock = Clock()
        for expected in (held, LIMITS.first_list - 2 * held, 0):
            async with running.client(mode) as client:
                assert clock.seconds == expected
                assert await tools_of(client) == set()
            assert clock.seconds == (held if expected == held else 0)


@both_eras
async def test_who_may_list_once_sees_what_starts_within_two_of_its_requests(mode: str) -> None:
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(6))
        async with running.client(mode) as client:
            assert await tools_of(client) == {"up0__echo"}


@pytest.mark.parametrize("name", ["claude-code", "gemini-cli-mcp-client", "opencode", "Visual Studio Code"])
async def test_who_lists_again_waits_no_longer_than_for_a_first_look(name: str) -> None:
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(6))
        clock = Clock()
        async with running.client("legacy", client_info=named(name)) as client:
            assert await tools_of(client) == set()
        assert clock.seconds == PATIENCE


async def test_what_comes_too_late_for_the_first_list_is_announced_as_whatever_it_is() -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(type(message).__name__)

    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        await publish(running, slow(6, PROMPTING))
        async with running.client("legacy", message_handler=hear, client_info=named("claude-code")) as client:
            assert await tools_of(client) == set()
            await anyio.sleep(10)
            assert {"ToolListChangedNotification", "PromptListChangedNotification"} <= set(heard)
            assert await tools_of(client) == {"up0__echo"}


@pytest.mark.requirement("F-285", "P-10")
async def test_a_session_that_was_told_of_no_prompts_is_not_announced_any() -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(type(message).__name__)

    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        async with running.client("legacy", message_handler=hear) as client:
            assert wire(client.server_capabilities).keys() == {"tools"}
            await publish(running, slow(1, PROMPTING))
            await anyio.sleep(10)
            assert "ToolListChangedNotification" in heard
            assert "PromptListChangedNotification" not in heard
        async with running.client("legacy") as client:
            assert "prompts" in wire(client.server_capabilities)


@both_eras
@pytest.mark.requirement("F-285")
@pytest.mark.parametrize("path", ["", "servers/up0"])
async def test_a_call_waits_for_a_server_that_is_starting(mode: str, path: str) -> None:
    async with running_bridge(settings=Settings(upstream=LIMITS)) as running:
        async with running.client(mode) as client:
            await publish(running, slow(1))
            assert text_of(await client.call_tool("up0__echo", {})) == "echo"
        async with running.client(mode, path="servers/up0") as client:
            assert text_of(await client.call_tool("echo", {})) == "echo"


@pytest.mark.requirement("F-285")
async def test_what_is_learnt_of_a_server_is_stored_before_anybody_is_shown_it() -> None:
    cache = MemoryCache()
    upstream = Upstream(StdioServerSpec("up", "none"), LIMITS, transport=slow(1), cache=cache)
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        await upstream.settle()
        tasks.cancel_scope.cancel()  # whoever asked has gone
    [remembered] = cache.entries.values()
    assert [tool["name"] for tool in remembered.features.tools] == ["echo"]


@pytest.mark.requirement("F-285")
async def test_nobody_waits_for_a_server_that_is_known_or_starts_when_it_is_used() -> None:
    cache, spec = MemoryCache(), StdioServerSpec("up", "none", options=ServerOptions(lazy=False))
    for servant in (slow(1), slow(500)):
        upstream = Upstream(spec, LIMITS, transport=servant, cache=cache)
        async with anyio.create_task_group() as tasks:
            await tasks.start(upstream.run)
            clock = Clock()
            await upstream.settle()
            assert [tool["name"] for tool in upstream.features.tools] == ["echo"]
            assert clock.seconds == (1 if servant.slow == 1 else 0)
            tasks.cancel_scope.cancel()
