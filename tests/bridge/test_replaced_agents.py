"""Another agent takes the place of one while clients are connected."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from gaia_bridge.errors import AgentLoadError, PublishError
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.on_demand import mcp_subscriptions
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio


@both_eras
@pytest.mark.parametrize("path", ["", "agents/one"])
async def test_a_connected_client_reaches_the_new_agent_in_the_place_of_the_old(mode: str, path: str) -> None:
    old, new = one_tool(lambda _: "old"), one_tool(lambda _: "new", "other")
    async with running_bridge(named={"one": old, "two": one_tool(lambda _: "", "last")}) as running:
        async with running.client(mode, path) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][0] == "work"
            await running.bridge.replace_agent("one", new)
            assert [tool.name for tool in (await client.list_tools()).tools][0] == "other"
            assert text_of(await client.call_tool("other", {})) == "new"
        assert [source.name for source in running.bridge.sources] == ["one", "two"]
        assert LOCAL_AGENTS.get("one") is new
    assert LOCAL_AGENTS.get("one") is None


async def test_clients_are_told_of_what_differs() -> None:
    async with running_bridge(named={"one": one_tool(str)}) as running, running.client() as client:
        async with client.listen(tools_list_changed=True) as subscription:
            await running.bridge.replace_agent("one", one_tool(str, "other"))
            assert await anext(aiter(subscription)) == mcp_subscriptions.ToolsListChanged()


async def test_a_call_in_flight_ends_with_the_old_agent_which_is_told_afterwards() -> None:
    begun, go, told = threading.Event(), threading.Event(), threading.Event()

    def work(_: Any) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        assert not told.is_set()
        return "old"

    def ignore(publisher: object) -> None: ...

    def leave(publisher: object) -> None:
        told.set()

    hooks: dict[str, Any] = {"on_mcp_published": ignore, "on_mcp_unpublished": leave}
    answers: list[str] = []
    async with running_bridge(named={"one": one_tool(work, **hooks)}) as running, running.client() as client:

        async def call() -> None:
            answers.append(text_of(await client.call_tool("work", {})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await wait_in_thread(begun.wait)
            await running.bridge.replace_agent("one", one_tool(lambda _: "new"))
            assert text_of(await client.call_tool("work", {})) == "new"
            go.set()
        await wait_in_thread(told.wait)
    assert answers == ["old"]


async def test_an_agent_whose_definitions_cannot_be_read_takes_no_place() -> None:
    broken = ScriptedAgent(lambda name, arguments: "", get_mcp_tool_definitions=lambda: 1 / 0)
    async with running_bridge(named={"one": one_tool(lambda _: "old")}) as running, running.client() as client:
        with pytest.raises(AgentLoadError, match="cannot be read"):
            await running.bridge.replace_agent("one", broken)
        assert text_of(await client.call_tool("work", {})) == "old"
        with pytest.raises(PublishError, match="no agent"):
            await running.bridge.replace_agent("two", broken)
