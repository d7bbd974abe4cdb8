"""An agent and the bridge that publishes it use one process of each server that both are configured for."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest

from gaia.agents.base import MCPAgent
from gaia.mcp import MCPClient, MCPClientMixin
from gaia.mcp.client import StdioTransport
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import ChangeKind, SourceState
from gaia_bridge.sources.upstream.source import Upstream
from tests.servers.http_upstream import served
from tests.support.bridges import RunningBridge, both_eras, text_of
from tests.support.bystanders import Holdings
from tests.support.gaia_clients import TESTS, raw_server
from tests.support.on_demand import mcp, mcp_types
from tests.support.processes import command_of
from tests.support.upstreams import Heard
from tests.support.waiting import PATIENCE, after_collection, until

pytestmark = pytest.mark.anyio

NAMES = ("one", "two", "three")
THREE = {name: raw_server(WHO=name) for name in NAMES}
ONE = {"one": THREE["one"]}


class Desk(MCPAgent, MCPClientMixin):
    """Uses its servers for whoever calls it."""

    def __init__(self, servers: dict[str, Any], **options: Any) -> None:
        super().__init__(silent_mode=True, auto_load_config=False, **options)
        for name, entry in servers.items():
            assert self.connect_mcp_server(name, entry)

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "use", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return self.client(arguments["server"]).call_tool(arguments["tool"], arguments.get("arguments", {}))

    def client(self, server: str) -> MCPClient:
        client = self.get_mcp_client(server)
        assert client is not None
        return client

    def close(self) -> None:
        self._mcp_manager.disconnect_all()


async def apart(function: Callable[[], Any]) -> Any:
    """In a thread, as agents are used."""
    return await anyio.to_thread.run_sync(function)


def processes() -> set[int]:
    """The servers that run, whoever started them."""
    return {child.pid for child in psutil.Process().children() if "_server.py" in command_of(child)}


def of_agent(desk: Desk) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in desk.list_mcp_servers():
        transport = desk.client(name).transport
        assert isinstance(transport, StdioTransport)
        process = transport._process  # pyright: ignore[reportPrivateUsage]  # specified
        found[name] = None if process is None else process.pid
    return found


def of_bridge(bridge: Bridge) -> dict[str, int | None]:
    return {server.name: server.lending.pid for server in bridge.sources if isinstance(server, Upstream)}


def server_of(bridge: Bridge) -> Upstream:
    [server] = [source for source in bridge.sources if isinstance(source, Upstream)]
    return server


@asynccontextmanager
async def shared(
    there: Desk | None = None, servers: dict[str, Any] | None = None, **entries: Any
) -> AsyncGenerator[tuple[Desk, RunningBridge]]:
    """An agent, and a bridge that publishes it and the same servers, once they share them.

    Args:
        there: The agent, if it was there before.
        servers: The agent's servers.
        entries: Those of the bridge, if they are others.
    """
    servers = ONE if servers is None else servers
    with anyio.fail_after(PATIENCE * 3):
        desk: Desk = there or await apart(lambda: Desk(servers))
        async with Bridge(desk, servers=entries or servers) as bridge:
            try:
                await until(lambda: None not in of_agent(desk).values() and of_agent(desk) == of_bridge(bridge))
                await until(lambda: len(processes()) == len(servers))
                yield desk, RunningBridge(bridge)
            finally:
                await apart(desk.close)


async def pid(client: mcp.Client, tool: str = "one__pid", **arguments: Any) -> int:
    return int(text_of(await client.call_tool(tool, arguments)))


@pytest.fixture(scope="module", autouse=True)
def guardian() -> None:
    """What watches over child processes is there from the first of them on, and has pipes."""
    with MCPClient.from_config("first", ONE["one"]):
        pass


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncGenerator[None]:
    assert not processes()
    before = Holdings.now()
    yield
    await before.nothing_more()


@both_eras
async def test_an_agent_that_was_there_first_and_the_bridge_have_three_processes_for_three_servers(mode: str) -> None:
    desk = await apart(lambda: Desk(THREE))
    before = processes()
    assert len(before) == 3
    async with shared(desk, THREE) as (_, running), running.client(mode) as client:
        assert not before & processes()  # those had been told that nobody can be asked
        for name in NAMES:
            through_agent = await client.call_tool("use", {"server": name, "tool": "pid"})
            assert {await pid(client, f"{name}__pid")} == {int(text_of(through_agent))} < processes()
        assert len(processes()) == 3


async def test_an_agent_that_connects_later_uses_what_the_bridge_runs_already() -> None:
    async with Bridge(servers=ONE) as bridge:
        await until(lambda: None not in of_bridge(bridge).values())
        desk = await apart(lambda: Desk(ONE))
        assert of_agent(desk) == of_bridge(bridge)
        await until(lambda: len(processes()) == 1)
        await apart(desk.close)


@pytest.mark.parametrize("server", ["", "both", "modern-only"])
async def test_a_server_of_any_era_serves_both_over_one_connection(server: str) -> None:
    entries = {"one": raw_server(server)}
    async with shared(servers=entries) as (desk, running), running.client("auto") as client:
        assert "grow" in [tool.name for tool in await apart(desk.client("one").list_tools)]
        assert text_of(await client.call_tool("one__meta", {}))
        answer = await apart(lambda: desk.client("one").call_tool("pid", {}))
        assert int(answer["content"][0]["text"]) == await pid(client)
        assert len(processes()) == 1


async def test_what_the_bridge_makes_of_tools_does_not_concern_the_agent() -> None:
    entry = {**ONE["one"], "allowed_tools": ["pid"], "tools": {"pid": {"name": "number"}}}
    async with shared(one=entry) as (desk, running), running.client() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["use", "one__number"]
        assert {"pid", "env", "odd"} < {tool.name for tool in await apart(desk.client("one").list_tools)}
        answer = await apart(lambda: desk.client("one").call_tool("odd", {}))
        assert answer["structuredContent"]["x-extra"] == ""


async def test_the_process_sees_the_variables_that_the_agent_passes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_USER", "seen")
    async with shared() as (_, running), running.client() as client:
        assert '"OF_THE_USER": "seen"' in text_of(await client.call_tool("one__env", {}))


async def test_servers_that_differ_in_anything_but_their_names_have_processes_of_their_own(tmp_path: Path) -> None:
    entry = ONE["one"]
    others = [
        {**entry, "env": {"WHO": "another"}},
        {**entry, "args": [*entry["args"], "more"]},
        {**entry, "cwd": str(tmp_path)},
        {**entry, "isolation": "session"},
        {**entry, "era": "handshake"},
        {**entry, "inherit_env": True},  # the agent asks for less
    ]
    desk = await apart(lambda: Desk({"one": {**entry, "inherit_env": False}}))
    async with Bridge(desk, servers={f"other{number}": other for number, other in enumerate(others)}) as bridge:
        await until(lambda: len(processes()) == 1 + len(others))
        [own] = of_agent(desk).values()
        assert own in processes() - set(of_bridge(bridge).values())
        answer = await apart(lambda: desk.client("one").call_tool("pid", {}))
        assert answer["content"][0]["text"] == str(own)
        await apart(desk.close)


async def test_a_server_on_the_network_is_shared_by_those_who_send_the_same_headers() -> None:
    seen: list[str] = []
    with served(seen=seen) as url:
        entry = {"url": f"{url}/mcp/", "headers": {"Authorization": "Bearer one"}}
        desk = await apart(lambda: Desk({"one": entry}))
        async with Bridge(desk, servers={"other": {**entry, "headers": {"Authorization": "Bearer two"}}}) as bridge:
            await until(lambda: server_of(bridge).status.state is SourceState.READY)
            assert not server_of(bridge).lending.is_used
        async with Bridge(desk, servers={"one": entry}) as bridge:
            await until(lambda: server_of(bridge).lending.is_used)
            answer = await apart(lambda: desk.client("one").call_tool("add", {"a": 1, "b": 2}))
            assert answer["structuredContent"] == {"sum": 3}
            await apart(desk.close)
            await until(lambda: not server_of(bridge).lending.is_used)
    assert set(seen) == {"Bearer one", "Bearer two"}


async def test_a_server_that_clients_use_already_is_not_started_again_with_other_variables() -> None:
    async with Bridge(servers=ONE) as bridge, RunningBridge(bridge).client() as client:
        its = await pid(client)
        desk = await apart(lambda: Desk(ONE))
        assert its == await pid(client)
        assert its not in of_agent(desk).values()
        alike = await apart(lambda: Desk({"one": {**ONE["one"], "inherit_env": False}}))
        assert of_agent(alike) == {"one": its}
        assert len(processes()) == 2
        await apart(desk.close)
        await apart(alike.close)


async def test_two_agents_share_with_the_bridge_whatever_they_call_the_server() -> None:
    async with shared() as (first, running):
        second = await apart(lambda: Desk({"other": ONE["one"]}))
        assert of_agent(second) == {"other": of_agent(first)["one"]}
        await running.bridge.add_agent(second, "second")
        assert len(processes()) == 1
        await apart(second.close)


async def test_a_connection_that_was_used_keeps_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_USER", "seen")
    desk = await apart(lambda: Desk(ONE))
    answer = await apart(lambda: desk.client("one").call_tool("pid", {}))
    async with Bridge(desk, servers=ONE) as bridge:
        await until(lambda: None not in of_bridge(bridge).values())
        assert of_agent(desk) == {"one": int(answer["content"][0]["text"])}
        assert len(processes()) == 2
        async with RunningBridge(bridge).client() as client:
            assert "OF_THE_USER" not in text_of(await client.call_tool("one__env", {}))
        await apart(desk.close)


@both_eras
async def test_questions_reach_the_client_whose_call_they_belong_to(mode: str) -> None:
    script = str(TESTS / "servers" / "asking_server.py")
    servers = {"one": {"command": sys.executable, "args": ["-S", script]}}
    asked: list[str] = []

    def answering(who: str) -> Any:
        async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
            asked.append(who)
            return mcp_types.ElicitResult(action="accept", content={"who": who})

        return answer

    async with (
        shared(servers=servers) as (desk, running),
        running.client(mode, elicitation_callback=answering("first")) as first,
        running.client(mode, elicitation_callback=answering("second")) as second,
    ):
        through_bridge = await first.call_tool("one__agree", {})
        through_agent = await second.call_tool("use", {"server": "one", "tool": "agree"})
        assert asked == ["first", "second"]
        assert '"first"' in text_of(through_bridge)
        assert '"second"' in text_of(through_agent)
        nobody = await apart(lambda: desk.client("one").call_tool("agree", {}))
        assert nobody["isError"]
        assert asked == ["first", "second"]


@both_eras
async def test_clients_do_not_take_turns_with_calls_of_the_agent_that_nobody_is_behind(mode: str) -> None:
    question: dict[str, Any] = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}

    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="decline")

    def hang() -> None:
        with pytest.raises(RuntimeError):
            desk.client("one").call_tool("hang", {})

    async with (
        shared() as (desk, running),
        running.client(mode, "servers/one", elicitation_callback=answer) as client,
        anyio.create_task_group() as tasks,
    ):
        asked = await client.call_tool("ask", {"method": "elicitation/create", "params": question})
        assert "decline" in text_of(asked)
        news = Heard(server_of(running.bridge))
        tasks.start_soon(apart, hang)
        await news.until(ChangeKind.RESOURCE_UPDATED, "hanging://")
        assert await pid(client, "pid") == of_bridge(running.bridge)["one"]
        await apart(desk.close)  # which ends the call


@both_eras
async def test_changes_of_lists_reach_both(mode: str) -> None:
    async with shared() as (desk, running), running.client(mode) as client:
        await client.call_tool("one__grow", {})
        await until(lambda: "mcp_one_new-0" in desk.tool_registry.snapshot())
        assert "one__new-0" in [tool.name for tool in (await client.list_tools()).tools]


@both_eras
async def test_progress_and_cancellation_are_those_of_each_call(mode: str) -> None:
    reported: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    desk = await apart(lambda: Desk(ONE, republish_tools=True))
    async with shared(desk) as (_, running), running.client(mode) as client:
        await client.list_tools()
        await client.call_tool("mcp_one_progress", {}, progress_callback=on_progress)
        assert reported == [1, 2, 3]
        news = Heard(server_of(running.bridge))
        async with anyio.create_task_group() as tasks:
            for name in ("mcp_one_hang", "one__hang"):
                tasks.start_soon(client.call_tool, name, {"name": name})
                await news.until(ChangeKind.RESOURCE_UPDATED, f"hanging://{name}")
            tasks.cancel_scope.cancel()
        for name in ("mcp_one_hang", "one__hang"):
            await news.until(ChangeKind.RESOURCE_UPDATED, f"cancelled://{name}")
        news.stop()
        assert await pid(client) == await pid(client, "mcp_one_pid")


async def test_who_disconnects_leaves_the_server_to_the_other() -> None:
    async with shared() as (desk, running), running.client() as client:
        its = await pid(client)
        await apart(lambda: desk.disconnect_mcp_server("one"))
        assert await pid(client) == its

    async with shared() as (desk, running):
        shares = of_bridge(running.bridge)["one"]
        await running.bridge.remove("one")
        answer = await apart(lambda: desk.client("one").call_tool("pid", {}))
        assert answer["content"][0]["text"] == str(shares)
        await apart(lambda: desk.disconnect_mcp_server("one"))
        await until(lambda: not processes())


async def test_a_connection_that_is_forgotten_gives_the_server_back() -> None:
    async with Bridge(servers=ONE) as bridge:
        await until(lambda: None not in of_bridge(bridge).values())
        client = MCPClient.from_config("one", ONE["one"])
        assert isinstance(client.transport, StdioTransport)
        client.transport.shares = True
        assert await apart(client.connect)
        assert server_of(bridge).lending.is_used
        del client
        await until(after_collection(lambda: not server_of(bridge).lending.is_used))
        assert len(processes()) == 1


async def test_a_server_that_the_configuration_brings_later_is_shared_as_well(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {}}', "utf-8")
    async with Bridge(config=file) as bridge:
        desk = await apart(lambda: Desk({}, config_file=str(file)))
        assert await apart(lambda: desk.connect_mcp_server("one", ONE["one"]))
        await until(lambda: None not in of_bridge(bridge).values() and of_bridge(bridge) == of_agent(desk))
        await until(lambda: len(processes()) == 1)
        await apart(desk.close)


async def test_an_agent_that_outlives_the_bridge_starts_a_server_of_its_own() -> None:
    desk = await apart(lambda: Desk(ONE))
    async with Bridge(desk, servers=ONE) as bridge:
        await until(lambda: len(processes()) == 1 and of_agent(desk) == of_bridge(bridge))
    assert desk.list_mcp_servers() == []
    assert not processes()
    answer = await apart(lambda: desk.tool_registry["mcp_one_pid"]["function"]())
    assert answer["status"] == "success"
    assert set(of_agent(desk).values()) == processes()
    await apart(desk.close)


async def test_after_a_crash_there_is_one_process_again() -> None:
    async with shared() as (desk, running), running.client() as client:
        before = await pid(client)
        crashed = await apart(lambda: desk.client("one").call_tool("crash", {}))
        assert crashed["isError"]
        answer = await apart(lambda: desk.tool_registry["mcp_one_pid"]["function"]())
        after = await pid(client)
        assert after != before
        assert answer["data"]["content"][0]["text"] == str(after)
        assert processes() == {after}


async def test_a_killed_process_is_started_again_once_for_both() -> None:
    async with shared() as (desk, running), running.client() as client:
        before = await pid(client)
        os.kill(before, 9)
        await until(lambda: of_bridge(running.bridge)["one"] != before)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(apart, lambda: desk.tool_registry["mcp_one_pid"]["function"]())
            tasks.start_soon(pid, client)
        assert of_agent(desk) == of_bridge(running.bridge)
        assert processes() == set(of_agent(desk).values())


async def test_who_calls_from_the_event_loop_of_the_bridge_has_a_process_of_its_own() -> None:
    async with shared() as (desk, running):
        answer = desk.client("one").call_tool("pid", {})
        assert int(answer["content"][0]["text"]) not in of_bridge(running.bridge).values()
        there = Desk({"two": ONE["one"]})
        assert there.client("two").call_tool("pid", {})["content"]
        there.close()
