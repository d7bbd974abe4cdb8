"""How the endpoint of a server introduces itself when the server is another than it was."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.model import ChangeKind, ServerOptions, StdioServerSpec
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.bridge.sources.upstream.servant import MemoryCache, Servant
from tests.interaction.results import wire
from tests.support.bridges import RunningBridge, both_eras, running_bridge
from tests.support.upstreams import Heard, running
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

SPEC = StdioServerSpec("up", "none", options=ServerOptions(lazy=False))
LIMITS = UpstreamLimits(backoff_start=0.01, announce_interval=0)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def introduction(version: str) -> JSON:
    return {"serverInfo": {"name": "clock", "version": version}, "instructions": f"Use {version}."}


async def introduced(running: RunningBridge, mode: str) -> tuple[JSON, str | None, JSON]:
    async with running.client(mode, path="servers/up") as client:
        assert client.server_info is not None
        return wire(client.server_info), client.instructions, wire(client.server_capabilities)


@both_eras
@pytest.mark.requirement("F-287", "S1-16")
@pytest.mark.parametrize("capabilities", [{"tools": {"listChanged": True}}, {}])
async def test_a_server_that_was_upgraded_is_introduced_as_what_it_is_now(mode: str, capabilities: JSON) -> None:
    servant = Servant("echo", "crash")
    servant.capabilities, servant.introduction = capabilities, introduction("1.0")
    async with running_bridge(settings=Settings(upstream=LIMITS)) as bridge:
        await bridge.bridge.add_upstream(SPEC, servant)
        assert await introduced(bridge, mode) == (
            {"name": "clock", "version": "1.0"},
            "Use 1.0.",
            capabilities,
        )
        servant.capabilities = {**capabilities, "logging": {}}
        servant.introduction = introduction("2.0")
        [upstream] = bridge.bridge.sources
        assert isinstance(upstream, Upstream)
        heard = Heard(upstream)
        servant.wire.end("exited with status 5")
        await heard.until(ChangeKind.INTRODUCTION)
        assert await introduced(bridge, mode) == (
            {"name": "clock", "version": "2.0"},
            "Use 2.0.",
            {**capabilities, "logging": {}},
        )
        assert not {change.kind for change in heard.changes} & {ChangeKind.TOOLS, ChangeKind.PROMPTS}


@pytest.mark.requirement("F-287")
async def test_what_was_remembered_of_a_server_that_was_upgraded_is_replaced() -> None:
    servant, cache = Servant("echo"), MemoryCache()
    servant.introduction = introduction("1.0")
    async with running(SPEC, LIMITS, transport=servant, cache=cache) as upstream:
        assert upstream.features.info.version == "1.0"
    servant.introduction = introduction("2.0")
    async with running(SPEC, LIMITS, transport=servant, cache=cache) as upstream:
        assert upstream.features.info.version == "2.0"
    [remembered] = cache.entries.values()
    assert remembered.features.info.instructions == "Use 2.0."
