"""Editor, bridge, agent, agent, external server: everything that one end offers is there for the other."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from gaia.agents.base import MCPAgent
from gaia.mcp import MCPClientMixin
from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from tests.interaction.connecting import AGENT_FILE, DEADLINE, ERAS, client_of, serving
from tests.interaction.results import call, wire
from tests.support.on_demand import mcp, mcp_stdio, mcp_types

pytestmark = pytest.mark.anyio

ARGUMENTS = ["-m", "gaia_bridge", "serve", f"{AGENT_FILE}:EverythingAgent", "--no-servers", "--stdio"]
FAR = {"command": sys.executable, "args": ARGUMENTS}
PREFIX = "mcp_back_mcp_far_"


class Office(MCPAgent, MCPClientMixin):
    """Publishes its servers' tools beside its own."""

    def __init__(self, **servers: Any) -> None:
        super().__init__(silent_mode=True, auto_load_config=False, republish_tools=True)
        for name, config in servers.items():
            assert self.connect_mcp_server(name, config)

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "greet", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return {"greeting": "Welcome!"}

    def close(self) -> None:
        for name in self.list_mcp_servers():
            self._mcp_manager.disconnect_server(name)


@asynccontextmanager
async def chain(era: str, **options: Any) -> AsyncGenerator[mcp.Client]:
    with anyio.fail_after(DEADLINE):
        back = await anyio.to_thread.run_sync(lambda: Office(far=FAR))
        front = await anyio.to_thread.run_sync(lambda: Office(back={"agent": back}))
        try:
            async with serving({"front": front}) as (url, _), client_of(f"{url}/mcp", era, **options) as client:
                yield client
        finally:
            await anyio.to_thread.run_sync(front.close)
            await anyio.to_thread.run_sync(back.close)


@pytest.mark.parametrize("era", ERAS)
async def test_progress_questions_and_cancellation_go_from_one_end_to_the_other(era: str) -> None:
    asked: list[str] = []

    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"word": "yes"})

    reported: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total, message))

    async with chain(era, elicitation_callback=answer) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"greet", "mcp_back_greet", f"{PREFIX}wait-for-cancel"} <= tools.keys()
        assert all(HOPS_META_KEY not in (tool.meta or {}) for tool in tools.values())

        await client.call_tool(f"{PREFIX}interview", {}, progress_callback=on_progress)
        assert asked == ["First?", "Second?"]
        assert reported[:2] == [(1, 3, "before the first question"), (2, 3, "between the questions")]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, f"{PREFIX}wait-for-cancel", {"key": "k"})
            assert (await call(client, f"{PREFIX}started", key="k"))["structuredContent"] == {"started": True}
            tasks.cancel_scope.cancel()
        ended = await call(client, f"{PREFIX}ended", key="k")
        assert ended["structuredContent"] == {"cancelled": True}


async def test_prompts_and_resources_are_republished_with_the_tools() -> None:
    async with chain("modern") as client, client_of(_far(), "modern") as direct:
        for kind in ("resources", "resource_templates"):
            there, here = [wire(await getattr(each, f"list_{kind}")()) for each in (direct, client)]
            field = {"resources": "resources", "resource_templates": "resourceTemplates"}[kind]
            assert here[field] == there[field]
        for resource in (await direct.list_resources()).resources:
            there, here = [wire(await each.read_resource(resource.uri))["contents"] for each in (direct, client)]
            assert here == there
        [prompts, republished] = [(await each.list_prompts()).prompts for each in (direct, client)]
        assert [prompt.name for prompt in republished] == [PREFIX + prompt.name for prompt in prompts]


def _far() -> Any:
    return mcp_stdio.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=ARGUMENTS))


async def test_an_agent_that_uses_the_bridge_it_is_published_by_does_not_publish_itself_again() -> None:
    agent = Office()
    with anyio.fail_after(DEADLINE):
        async with serving({"office": agent}) as (url, _):
            config = {"url": f"{url}/mcp"}
            assert await anyio.to_thread.run_sync(lambda: agent.connect_mcp_server("bridge", config))
            try:
                async with client_of(f"{url}/mcp", "modern") as client:
                    names = {"greet", "mcp_bridge_greet"}
                    while {tool.name for tool in (await client.list_tools()).tools} != names:
                        await anyio.lowlevel.checkpoint()
                    await anyio.to_thread.run_sync(lambda: agent.get_mcp_client("bridge").fetch_tools())  # type: ignore[union-attr]  # it is connected
                    assert {tool.name for tool in (await client.list_tools()).tools} == names
                    assert (await call(client, "mcp_bridge_greet"))["structuredContent"] == {"greeting": "Welcome!"}
            finally:
                await anyio.to_thread.run_sync(agent.close)
