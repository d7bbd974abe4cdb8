"""An endpoint as a server of the SDK: with its middleware, its client in memory, and its HTTP application."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from gaia.agents.base.mcp_agent import MCPAgent
from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import PublishError
from gaia_bridge.text.json_types import JSON
from tests.support.bridges import both_eras, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from mcp.client.context import ClientRequestContext
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel import Server

pytestmark = pytest.mark.anyio


class TalkingAgent(MCPAgent):
    """Says how far it is, asks, and gets a tool more."""

    def __init__(self) -> None:
        self.more: list[JSON] = []

    def get_mcp_tool_definitions(self) -> list[JSON]:
        names = ("echo", "fail", "count", "ask")
        return [*({"name": name, "inputSchema": {"type": "object"}} for name in names), *self.more]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        match tool_name:
            case "fail":
                raise ValueError("it failed")
            case "count":
                for number in (1, 2):
                    get_request_context().report_progress(number, 2, f"step {number}")
                return "counted"
            case "ask":
                return get_request_context().elicit("Sure?", {"sure": {"type": "boolean"}}).action
            case _:
                return arguments.get("text", "nothing")

    def get_mcp_resources(self) -> list[JSON]:
        return [{"uri": "talk://one", "name": "one"}]

    def read_mcp_resource(self, uri: str) -> str | None:
        return "one" if uri == "talk://one" else None


@asynccontextmanager
async def published() -> AsyncGenerator[tuple[Server[Any], TalkingAgent, Bridge]]:
    agent = TalkingAgent()
    async with Bridge() as bridge:
        await bridge.add_agent(agent, "talking")
        with anyio.fail_after(PATIENCE):
            yield bridge.sdk_server(), agent, bridge


async def accepted(context: ClientRequestContext, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"sure": True})


@both_eras
async def test_a_client_in_memory_finds_what_the_bridge_publishes(mode: str) -> None:
    async with published() as (server, _, bridge), mcp.Client(server, mode=mode) as client:
        assert client.server_info is not None and client.server_info.name == bridge.sdk_server().name
        assert client.server_capabilities.tools is not None and client.server_capabilities.tools.list_changed
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "fail", "count", "ask"]
        assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"
        assert (await client.read_resource("talk://one")).contents[0].uri == "talk://one"


@both_eras
async def test_an_error_of_the_bridge_is_one_of_the_sdk(mode: str) -> None:
    async with published() as (server, _, _), mcp.Client(server, mode=mode) as client:
        assert (await client.call_tool("fail", {})).is_error
        with pytest.raises(mcp.MCPError) as refused:
            await client.call_tool("none", {})
        assert refused.value.code == -32602 and "none" in refused.value.message
        with pytest.raises(mcp.MCPError) as missing:
            await client.read_resource("talk://none")
        assert missing.value.code == (-32602 if mode == "auto" else -32002)


@both_eras
async def test_progress_arrives_before_the_result(mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with published() as (server, _, _), mcp.Client(server, mode=mode) as client:
        assert text_of(await client.call_tool("count", {}, progress_callback=hear)) == "counted"
        assert text_of(await client.call_tool("count", {})) == "counted"
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


@both_eras
async def test_a_question_of_an_agent_reaches_the_user(mode: str) -> None:
    async with published() as (server, _, _), mcp.Client(server, mode=mode, elicitation_callback=accepted) as client:
        assert text_of(await client.call_tool("ask", {})) == "accept"


@both_eras
async def test_a_question_that_cannot_be_asked_is_a_failure(mode: str) -> None:
    async with published() as (server, _, _), mcp.Client(server, mode=mode) as client:
        try:
            assert (await client.call_tool("ask", {})).is_error
        except mcp.MCPError as error:
            assert mode == "auto" and "elicitation" in error.message


async def test_a_client_of_the_handshake_era_is_told_that_the_tools_changed() -> None:
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    async with published() as (server, agent, _), mcp.Client(server, mode="legacy", message_handler=hear) as client:
        await client.list_tools()
        agent.more = [{"name": "more", "inputSchema": {"type": "object"}}]
        agent.notify_mcp_tools_changed()
        await told.wait()
        assert (await client.list_tools(cache_mode="bypass")).tools[-1].name == "more"


async def test_a_client_of_2026_is_told_that_the_tools_changed_when_it_listens() -> None:
    async with published() as (server, agent, _), mcp.Client(server, mode="auto") as client:
        async with client.listen(tools_list_changed=True) as events:
            agent.more = [{"name": "more", "inputSchema": {"type": "object"}}]
            agent.notify_mcp_tools_changed()
            async for event in events:
                assert "tools" in type(event).__name__.lower()
                break
        assert (await client.list_tools(cache_mode="bypass")).tools[-1].name == "more"


@both_eras
async def test_middleware_of_the_sdk_sees_every_request_and_may_change_it(mode: str) -> None:
    seen: list[str] = []

    async def louder(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        seen.append(ctx.method)
        params = ctx.params or {}
        if ctx.method == "tools/call":
            arguments = {"text": params["arguments"]["text"].upper()}
            ctx = replace(ctx, params={**params, "arguments": arguments})
        return await call_next(ctx)

    async with published() as (server, _, _):
        server.middleware.append(louder)
        async with mcp.Client(server, mode=mode) as client:
            assert text_of(await client.call_tool("echo", {"text": "hello"})) == "HELLO"
    assert "tools/call" in seen
    assert ("initialize" in seen) == (mode == "legacy")


@both_eras
async def test_middleware_of_the_sdk_may_answer_itself(mode: str) -> None:
    async def refuse(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            raise mcp.MCPError(-32000, "not today")
        return await call_next(ctx)

    async with published() as (server, _, _):
        server.middleware.append(refuse)
        async with mcp.Client(server, mode=mode) as client:
            with pytest.raises(mcp.MCPError, match="not today"):
                await client.call_tool("echo", {})


@both_eras
async def test_the_http_application_of_the_sdk_serves_it(mode: str) -> None:
    async with published() as (server, _, _):
        app = server.streamable_http_app()
        async with server.session_manager.run():
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "c", "version": "1"},
                }
                meta: JSON = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
                headers = {"accept": "application/json, text/event-stream"}
                if mode == "legacy":
                    asked: JSON = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
                else:
                    headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
                    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
                response = await http.post("/mcp", json=asked, headers=headers)
                assert response.status_code == 200
                assert ('"protocolVersion":"2025-11-25"' if mode == "legacy" else '"echo"') in response.text


async def test_one_source_can_be_served_alone() -> None:
    async with published() as (_, _, bridge), mcp.Client(bridge.sdk_server("talking"), mode="legacy") as client:
        assert text_of(await client.call_tool("echo", {"text": "x"})) == "x"
        with pytest.raises(PublishError):
            bridge.sdk_server("nobody")


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with published() as (server, _, _):
        for _ in range(3):
            async with mcp.Client(server, mode="legacy") as client:
                await client.call_tool("echo", {})
        handler: Any = server.get_request_handler("tools/call")
        gc.collect()
        connections = handler.handler.__self__._connections
        assert connections == {}


def test_nothing_of_the_sdk_is_imported_before_it_is_asked_for() -> None:
    code = "import sys; from gaia_bridge.bridge import Bridge; Bridge.sdk_server; print('mcp' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
