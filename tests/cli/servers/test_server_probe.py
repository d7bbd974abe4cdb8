"""What the commands show about a server is what the server is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from gaia_bridge.bridge.chaining.agent_transport import AgentTransport
from gaia_bridge.settings import AgentLimits, UpstreamLimits
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.servers.common import Activity
from gaia_bridge_cli.servers.server_probe import AskedServer, UnknownNameError, call, probe
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

SCHEMA: JSON = {"type": "object", "properties": {"name": {"type": "string"}}}


class Greeter:
    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": "greet", "inputSchema": SCHEMA}, {"name": "fail", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        if tool_name == "fail":
            raise RuntimeError("no")
        return {"greeting": f"Hello, {arguments['name']}"}

    def get_mcp_prompts(self) -> list[JSON]:
        return [{"name": "hello"}]


@asynccontextmanager
async def greeter() -> AsyncGenerator[AgentTransport]:
    source = AgentSource(Greeter(), "greeter", AgentLimits())
    async with anyio.create_task_group() as tasks:
        await tasks.start(source.run)
        yield AgentTransport(source)
        tasks.cancel_scope.cancel()


async def test_a_probe_tells_who_the_server_is_and_everything_that_it_offers() -> None:
    with anyio.fail_after(PATIENCE):
        async with greeter() as server:
            found = await probe(server, UpstreamLimits(), Activity())
    assert [tool["name"] for tool in found.definitions["tool"]] == ["greet", "fail"]
    assert [prompt["name"] for prompt in found.definitions["prompt"]] == ["hello"]
    assert found.handshake.revision
    assert found.ping is not None
    assert found.problems == []


async def test_a_call_gives_the_schema_of_the_tool_to_whoever_makes_the_arguments() -> None:
    seen: list[JSON] = []

    async def arguments(schema: JSON) -> JSON:
        seen.append(schema)
        return {"name": "Ada"}

    async def nothing(_: JSON) -> JSON:
        return {}

    with anyio.fail_after(PATIENCE):
        async with greeter() as server:
            asked = AskedServer(server, UpstreamLimits(), Activity())
            answer = await call(asked, "greet", arguments)
            failed = await call(asked, "fail", nothing)
            with pytest.raises(UnknownNameError) as unknown:
                await call(asked, "gret", arguments)
    assert answer.result["structuredContent"] == {"greeting": "Hello, Ada"}
    assert seen[0]["properties"] == SCHEMA["properties"]
    assert not answer.failed
    assert failed.failed
    assert unknown.value.names == ["fail", "greet"]
