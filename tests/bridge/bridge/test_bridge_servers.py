"""Upstream servers on a bridge, as its clients see them: they come, change and fail, and nobody else is delayed."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.bridge.chaining.agent_transport import AgentTransport
from gaia_bridge.errors import PublishError
from gaia_bridge.model import HttpServerSpec, ServerOptions, ServerSpec, SourceState, StdioServerSpec, ToolTransform
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.upstream.source import Upstream
from tests.bridge.sources.upstream.servant import Servant
from tests.interaction.connecting import serving
from tests.servers.raw_server import BOUNDLESS
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge, subscribe, text_of, unsubscribe
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types
from tests.support.upstreams import FakeRequest, raw_server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

QUICK = Settings(upstream=UpstreamLimits(backoff_start=0.02, stop_grace=0.1, announce_interval=0))


def named(name: str, mode: str = "", **options: Any) -> StdioServerSpec:
    return replace(raw_server(mode), name=name, options=ServerOptions(**options))


def upstream(bridge: Bridge, name: str) -> Upstream:
    [found] = [source for source in bridge.sources if source.name == name]
    assert isinstance(found, Upstream)
    return found


async def in_state(bridge: Bridge, name: str, state: SourceState) -> None:
    await until(lambda: upstream(bridge, name).status.state is state)


async def tool_names(running: RunningBridge) -> set[str]:
    async with running.client() as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def say(running: RunningBridge, tool: str) -> str:
    async with running.client() as client:
        return text_of(await client.call_tool(tool, {}))


@pytest.mark.requirement("S-27")
async def test_two_servers_that_call_themselves_and_their_tools_the_same_are_told_apart_by_their_entries() -> None:
    async with running_bridge(one_tool(lambda _: "ours", "pid"), settings=QUICK) as running:
        for name in ("one", "two"):
            await running.bridge.add_upstream(named(name))
            await upstream(running.bridge, name).wait_settled()
        assert {"pid", "one__pid", "two__pid"} <= await tool_names(running)
        assert {upstream(running.bridge, name).features.info.name for name in ("one", "two")} == {"raw"}
        answers = [await say(running, tool) for tool in ("pid", "one__pid", "two__pid")]
        assert (answers[0], len(set(answers))) == ("ours", 3)


@both_eras
@pytest.mark.requirement("P-5")
async def test_a_server_that_changes_its_tools_changes_them_for_connected_clients(mode: str) -> None:
    told = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_upstream(named("up"))
        await in_state(running.bridge, "up", SourceState.READY)
        async with running.client(mode, message_handler=hear) as client:
            assert "up__new-0" not in {tool.name for tool in (await client.list_tools()).tools}
            if mode == "legacy":
                await client.call_tool("up__grow", {})
                await told.wait()
            else:
                async with client.listen(tools_list_changed=True) as subscription:
                    await client.call_tool("up__grow", {})
                    assert await anext(aiter(subscription)) == mcp_subscriptions.ToolsListChanged()
            assert "up__new-0" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.requirement("F-006", "F-072")
async def test_fifty_servers_that_are_not_there_or_hang_delay_nobody() -> None:
    """Beyond what the first client waits for them; see `test_first_look.py`."""
    settings = Settings(upstream=replace(QUICK.upstream, first_look=0.1, first_list=0.1))
    specs: list[ServerSpec] = [named(f"hanging{number}", "silent") for number in range(5)]
    specs += [StdioServerSpec(f"missing{number}", "no-such-program") for number in range(22)]
    specs += [HttpServerSpec(f"away{number}", "http://127.0.0.1:9/mcp") for number in range(22)]
    async with running_bridge(settings=settings) as running:
        with anyio.fail_after(5):
            for spec in (*specs, named("good")):
                await running.bridge.add_upstream(spec)
            assert running.bridge.readiness()["status"] == "ready"
            assert len(await tool_names(running)) <= 11
            await in_state(running.bridge, "good", SourceState.READY)
            assert int(await say(running, "good__pid")) > 0
        for number in range(22):
            await in_state(running.bridge, f"missing{number}", SourceState.FAILED)
        states = {source.status.state for source in running.bridge.sources if source.name.startswith("away")}
        assert states <= {SourceState.BACKOFF, SourceState.STARTING}


async def test_what_a_server_offers_is_known_before_it_is_started_again() -> None:
    for started in (1, 0):
        async with running_bridge(settings=QUICK) as running:
            await running.bridge.add_upstream(named("up"))
            source = upstream(running.bridge, "up")
            await source.wait_settled()
            assert "up__pid" in await tool_names(running)
            assert source.details["starts"] == started
            assert int(await say(running, "up__pid")) > 0
            assert source.details["starts"] == 1


async def test_a_server_that_failed_is_tried_again_when_somebody_asks() -> None:
    async with running_bridge(one_tool(lambda _: "ours"), settings=QUICK) as running:
        await running.bridge.add_upstream(StdioServerSpec("up", "no-such-program"))
        await in_state(running.bridge, "up", SourceState.FAILED)
        running.bridge.retry("up")
        assert upstream(running.bridge, "up").status.state is SourceState.STARTING
        await until(lambda: upstream(running.bridge, "up").details["starts"] == 2)
        for name in ("a0", "nobody"):
            with pytest.raises(PublishError, match="no server is published under that name"):
                running.bridge.retry(name)


async def test_the_tools_of_a_running_server_are_published_otherwise_when_the_configuration_says_so() -> None:
    servant = Servant("a", "b")
    async with running_bridge(one_tool(lambda _: "ours", "own"), settings=QUICK) as running:
        await running.bridge.add_upstream(named("up"), servant)
        await upstream(running.bridge, "up").wait_settled()
        running.bridge.adjust_upstream(named("up", tools={"a": ToolTransform(name="new")}, disabled_tools=("b",)))
        assert await tool_names(running) == {"own", "up__new"}
        assert await say(running, "up__new") == "a"
        assert len(servant.wires) == 1
        with pytest.raises(PublishError, match="no server is published under that name"):
            running.bridge.adjust_upstream(named("nobody"))


async def test_a_client_that_asks_for_a_tool_of_a_failed_server_learns_why_there_is_none() -> None:
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_upstream(StdioServerSpec("up", "no-such-program"))
        await in_state(running.bridge, "up", SourceState.FAILED)
        async with running.client() as client:
            with pytest.raises(mcp.MCPError, match="server 'up' is not ready: it cannot be started: 'no-such-program'"):
                await client.call_tool("up__pid", {})


@pytest.mark.requirement("S-36")
async def test_the_status_says_how_a_server_is_and_nothing_that_is_secret() -> None:
    secret = "s3cr3t-canary-value"
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_upstream(
            replace(named("up"), env={"TOKEN": secret}, args=(*raw_server().args, secret))
        )
        await in_state(running.bridge, "up", SourceState.READY)
        await upstream(running.bridge, "up").call_tool("noise", {}, FakeRequest())
        report = running.bridge.status()
        [source] = report["sources"]
        assert (source["state"], source["reason"]) == ("ready", "")
        assert source["connection"] == {
            "transport": "stdio",
            "protocolVersion": "2025-11-25",
            "starts": 1,
            "retryIn": 0,
            "requests": 0,
            "subscriptions": 0,
            "era": "auto",
            "otherEras": [],
            "errorLines": 2,
            "lastErrorLines": source["connection"]["lastErrorLines"],
            "cause": None,
            "garbageLines": 5,
            "firstGarbage": source["connection"]["firstGarbage"],
        }
        assert secret not in json.dumps(report)
        assert running.bridge.readiness()["sources"] == {"up": "ready"}


async def test_what_children_write_to_their_error_output_is_passed_on_with_their_names() -> None:
    lines: list[tuple[str, str]] = []
    async with Bridge(settings=QUICK, on_error_line=lambda server, line: lines.append((server, line))) as bridge:
        await bridge.add_upstream(named("up", "exit"))
        await until(lambda: bool(lines))
    assert lines[0] == ("up", "ModuleNotFoundError: No module named 'x'")


@pytest.mark.parametrize("sse", [False, True])
async def test_a_bridge_can_be_the_upstream_of_another_over_http(sse: bool) -> None:
    agent = one_tool(lambda arguments: f"hello {arguments['who']}")
    async with serving({"inner": agent}) as (url, _), running_bridge(settings=QUICK) as running:
        await running.bridge.add_upstream(HttpServerSpec("up", f"{url}/{'sse' if sse else 'mcp'}", sse=sse))
        await in_state(running.bridge, "up", SourceState.READY)
        async with running.client() as client:
            assert text_of(await client.call_tool("up__work", {"who": "you"})) == "hello you"
        assert upstream(running.bridge, "up").details["transport"] == ("sse" if sse else "http")
        await running.bridge.remove("up")


async def publish_watched(running: RunningBridge) -> Servant:
    servant = Servant()
    servant.resources = [{"uri": "a:b", "name": "b"}]
    await running.bridge.add_upstream(StdioServerSpec("up", "scripted"), servant)
    await in_state(running.bridge, "up", SourceState.READY)
    return servant


@pytest.mark.requirement("P-5")
async def test_a_server_tells_of_a_resource_as_long_as_a_legacy_client_is_subscribed_to_it() -> None:
    async with running_bridge(settings=QUICK) as running:
        servant = await publish_watched(running)
        async with running.client("legacy") as first:
            async with running.client("legacy", "servers/up") as second:
                for client in (first, first, second):
                    await subscribe(client, "a:b")
                await unsubscribe(first, "a:b")
                await unsubscribe(first, "a:b")
                await anyio.wait_all_tasks_blocked()
                assert "-a:b" not in servant.subscribed
            await until(lambda: servant.subscribed[-1] == "-a:b")
            await subscribe(first, "a:b")
            assert servant.subscribed[-1] == "a:b"
        await until(lambda: servant.subscribed[-1] == "-a:b")


@pytest.mark.requirement("P-5")
async def test_a_server_tells_of_a_resource_as_long_as_a_modern_client_listens_to_it() -> None:
    async with running_bridge(settings=QUICK) as running, running.client() as client:
        servant = await publish_watched(running)
        async with client.listen(resource_subscriptions=["a:b", "nobody:has-it"]) as subscription:
            assert sorted(servant.subscribed) == ["a:b", "nobody:has-it"], "the only server there is may know it"
            servant.wire.notify("notifications/resources/updated", {"uri": "a:b"})
            assert await anext(aiter(subscription)) == mcp_subscriptions.ResourceUpdated("a:b")
        await until(lambda: "-a:b" in servant.subscribed)


async def test_an_agent_of_this_process_can_be_an_upstream() -> None:
    agent = AgentSource(one_tool(lambda arguments: f"hello {arguments['who']}"), "inner", QUICK.agent)
    async with running_bridge(settings=QUICK) as running, anyio.create_task_group() as tasks:
        await tasks.start(agent.run)
        await running.bridge.add_upstream(StdioServerSpec("up", "in process"), AgentTransport(agent))
        await in_state(running.bridge, "up", SourceState.READY)
        async with running.client() as client:
            assert text_of(await client.call_tool("up__work", {"who": "you"})) == "hello you"
        await running.bridge.remove("up")
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-039")
@pytest.mark.parametrize("path", ["/", "/mcp"])
async def test_a_number_that_nobody_can_read_is_null_on_the_wire(path: str) -> None:
    result: Any = {"content": [], "structuredContent": {"largest": BOUNDLESS}}
    params = {"name": "up__anything", "arguments": result}
    call: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with serving({}, QUICK) as (url, bridge), httpx2.AsyncClient(base_url=url) as http:
        await bridge.add_upstream(named("up", "promises"))
        await in_state(bridge, "up", SourceState.READY)
        headers = {"accept": "application/json, text/event-stream"}
        if path == "/mcp":
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            greeted = await http.post(path, json={**call, "method": "initialize", "params": hello}, headers=headers)
            headers |= {"mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        answered = await http.post(path, json=call, headers=headers)
    assert answered.status_code == 200
    assert '"structuredContent":{"largest":null}' in answered.text
