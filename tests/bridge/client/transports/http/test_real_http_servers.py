"""Raw messages to servers as people run them: the SDK's and our own, over every HTTP transport and in both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.types import ASGIApp

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.client.transport import Link
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent
from tests.support.http_links import INITIALIZED, LEGACY, MODERN, Heard, initialize, linked, modern, request
from tests.support.on_demand import mcp_server
from tests.support.waiting import comes_true, wait_in_thread

pytestmark = pytest.mark.anyio

WAYS = ["modern", "legacy", "sse"]
"""An era over Streamable HTTP, or the older transport."""

every_way = pytest.mark.parametrize("way", WAYS)


class Agent(ScriptedAgent):
    """Works, reports, and waits to be cancelled."""

    def __init__(self) -> None:
        super().__init__(self.run, "echo", "report", "hang", "away")
        self.hanging = False
        self.cancelled = False

    def run(self, name: str, arguments: JSON) -> JSON:
        context = get_request_context()
        if name == "report":
            context.report_progress(1, 2)
        elif name == "hang":
            self.hanging = True
            self.cancelled = context.wait_cancelled(10)
        elif name == "away":
            context.close_stream()
            context.report_progress(1, 2)
        return {"did": name, **arguments}


@asynccontextmanager
async def served(app: ASGIApp, port: int, sockets: Any) -> AsyncGenerator[str]:
    http = HttpServer(app, sockets=sockets)
    async with anyio.create_task_group() as tasks:
        await tasks.start(http.run)
        yield f"http://127.0.0.1:{port}"
        http.stop()


@asynccontextmanager
async def bridge_with(agent: Agent) -> AsyncGenerator[tuple[str, Bridge]]:
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    async with Bridge() as bridge:
        await bridge.add_agent(agent, "agent")
        async with served(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)), port, sockets) as url:
            yield url, bridge


@asynccontextmanager
async def greeted(url: str, way: str, heard: Heard | None = None) -> AsyncGenerator[Link]:
    """A link after the handshake of an era."""
    async with linked(url + ("/sse" if way == "sse" else "/mcp"), heard, sse=way == "sse") as link:
        if way == "modern":
            assert MODERN in (await link.request(modern("server/discover", 100)))["result"]["supportedVersions"]
            link.agree(MODERN)
        else:
            assert (await link.request(initialize()))["result"]["protocolVersion"] == LEGACY
            link.agree(LEGACY)
            await link.notify(INITIALIZED)
        yield link


def call(way: str, name: str, request_id: int = 1, **arguments: Any) -> JSON:
    make = modern if way == "modern" else request
    message = make("tools/call", request_id, name=name, arguments=arguments)
    message["params"].setdefault("_meta", {})["progressToken"] = request_id
    return message


@every_way
async def test_our_own_bridge_is_asked_and_answers(way: str) -> None:
    heard = Heard()
    async with bridge_with(Agent()) as (url, _), greeted(url, way, heard) as link:
        result = (await link.request(call(way, "echo", text="né")))["result"]
        assert result["structuredContent"] == {"did": "echo", "text": "né"}
        unknown = modern("nope", 2) if way == "modern" else request("nope", 2)
        assert (await link.request(unknown))["error"]["code"] == -32601
        assert (await link.request(call(way, "report", 3)))["id"] == 3
        [(progress, during)] = heard.messages
        assert (progress["method"], during) == ("notifications/progress", None if way == "sse" else 3)


@every_way
@pytest.mark.requirement("S-9")
async def test_a_call_that_is_given_up_is_cancelled_in_our_own_bridge(way: str) -> None:
    agent = Agent()
    async with bridge_with(agent) as (url, _), greeted(url, way) as link:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.request, call(way, "hang"))
            await wait_in_thread(comes_true(lambda: agent.hanging))
            tasks.cancel_scope.cancel()
        await wait_in_thread(comes_true(lambda: agent.cancelled))
        assert (await link.request(call(way, "echo", 2)))["id"] == 2


@pytest.mark.parametrize("way", ["legacy", "sse"])
async def test_our_own_bridge_says_that_its_tools_have_changed(way: str) -> None:
    heard = Heard()
    async with bridge_with(Agent()) as (url, bridge), greeted(url, way, heard):
        await bridge.add_agent(Agent(), "another")
        await heard.until(lambda: bool(heard.messages))
        assert heard.messages[0] == ({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, None)


@pytest.mark.requirement("F-055")
async def test_an_answer_whose_stream_our_own_bridge_closes_is_taken_up_again() -> None:
    heard = Heard()
    async with bridge_with(Agent()) as (url, _), greeted(url, "legacy", heard) as link:
        result = (await link.request(call("legacy", "away")))["result"]
        assert result["structuredContent"] == {"did": "away"}


def sdk_server() -> mcp_server.MCPServer:
    server = mcp_server.MCPServer("sdk", log_level="ERROR")

    @server.tool()
    async def report(ctx: mcp_server.Context, text: str) -> str:  # pyright: ignore[reportUnusedFunction]
        await ctx.report_progress(1, 2)
        return text

    return server


@every_way
@pytest.mark.parametrize("json_response", [False, True])
async def test_a_server_of_the_sdk_is_asked_and_answers(way: str, json_response: bool) -> None:
    heard, server = Heard(), sdk_server()
    app = server.sse_app() if way == "sse" else server.streamable_http_app(json_response=json_response)
    sockets = bind("127.0.0.1", 0)
    async with served(app, sockets[0].getsockname()[1], sockets) as url, greeted(url, way, heard) as link:
        response = await link.request(call(way, "report", 5, text="né"))
        assert response["result"]["content"][0]["text"] == "né"
        silent = json_response and way != "sse"
        assert [during for _, during in heard.messages] == ([] if silent else [None if way == "sse" else 5])
