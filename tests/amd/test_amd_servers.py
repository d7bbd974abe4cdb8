"""AMD's own MCP servers are used like any other, by agents and through the bridge."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from gaia.mcp import MCPClient
from gaia_bridge.model import HttpServerSpec, SourceState
from tests.amd.amd_bridge import TOOL, amd_bridge
from tests.support.agents import one_tool
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.upstreams import until_ready


@pytest.fixture
def url() -> Generator[str]:
    with amd_bridge() as url:
        yield url


@pytest.mark.requirement("F-370")
def test_a_client_of_gaia_uses_the_bridge_of_amd(url: str) -> None:
    with MCPClient.from_config("amd", {"url": url}) as client:
        assert client.server_info == {"name": "GAIA MCP Bridge", "version": "2.0.0"}
        assert [tool.name for tool in client.list_tools()] == ["gaia.query"]
        assert json.loads(client.call_tool("gaia.query", {"query": "hi"})["content"][0]["text"]) == {"query": "hi"}


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("F-370")
async def test_the_bridge_of_amd_is_published_beside_others(mode: str, url: str) -> None:
    async with running_bridge(one_tool(lambda _: "ours")) as running:
        await running.bridge.add_upstream(HttpServerSpec("amd", url))
        [amd] = [source for source in running.bridge.sources if source.name == "amd"]
        await until_ready(amd)
        async with running.client(mode) as client:
            ours, theirs = (await client.list_tools()).tools
            answer = json.loads(text_of(await client.call_tool(theirs.name, {"query": "hi"})))
            assert (await client.list_resources()).resources == []
        assert (ours.name, theirs.input_schema, answer) == ("work", TOOL["inputSchema"], {"query": "hi"})
        assert amd.status.state is SourceState.READY
