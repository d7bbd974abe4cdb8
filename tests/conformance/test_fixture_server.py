"""The suite's counterpart that is written with the SDK offers what the agent does, to clients of the right era."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.fixture_agent import ConformanceAgent
from tests.support.on_demand import fixture_server, mcp, mcp_context, mcp_types

pytestmark = pytest.mark.anyio


async def _sample(
    context: mcp_context.ClientRequestContext, params: mcp_types.CreateMessageRequestParams
) -> mcp_types.CreateMessageResult:
    return mcp_types.CreateMessageResult(
        role="assistant", content=mcp_types.TextContent(type="text", text="Paris"), model="m"
    )


def connected(era: str, mode: Any) -> mcp.Client:
    return mcp.Client(fixture_server.make_server(era), mode=mode, sampling_callback=_sample)


def test_every_tool_that_talks_is_one_that_the_agent_offers() -> None:
    assert fixture_server.TOOLS.keys() < {tool["name"] for tool in ConformanceAgent().get_mcp_tool_definitions()}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_asks_in_the_way_of_the_era(mode: str) -> None:
    async with connected("dual", mode) as client:
        assert (client.protocol_version == "2026-07-28") == (mode == "auto")
        for name in ("test_sampling", "test_input_required_result_sampling"):
            result = await client.call_tool(name, {"prompt": "What is the capital of France?"})
            assert "Paris" in str(result.content)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_everything_is_listed_and_read_in_both_eras(mode: str) -> None:
    agent = ConformanceAgent()
    async with connected("dual", mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        resources = (await client.list_resources()).resources
        read = [(await client.read_resource(resource.uri)).contents[0] for resource in resources]
        with pytest.raises(mcp.MCPError, match="not found"):
            await client.read_resource("test://nonexistent")
    assert tools == [tool["name"] for tool in agent.get_mcp_tool_definitions()]
    assert prompts == [prompt["name"] for prompt in agent.get_mcp_prompts()]
    assert [item.mime_type for item in read] == [resource.mime_type for resource in resources]


@pytest.mark.parametrize(("era", "own", "other"), [("legacy", "legacy", "auto"), ("modern", "2026-07-28", "legacy")])
async def test_a_server_of_one_era_refuses_the_other(era: str, own: str, other: str) -> None:
    async with connected(era, own) as client:
        assert len((await client.list_tools()).tools) == 28
    with pytest.RaisesGroup(mcp.MCPError, flatten_subgroups=True):
        async with connected(era, other):
            pass
