"""Agents of one process that use each other by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from gaia.agents.base import MCPAgent
from gaia.mcp import MCPClientMixin
from gaia_bridge.model import AgentServerSpec, SourceState
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge, text_of
from tests.support.upstreams import until_ready
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class UserAgent(MCPAgent, MCPClientMixin):
    """Uses other agents."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(silent_mode=True, auto_load_config=False, **kwargs)

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "own", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return {"from": type(self).__name__}


async def apart(function: Callable[[], Any]) -> Any:
    """In a thread, as agents are used."""
    return await anyio.to_thread.run_sync(function)


async def test_an_agent_uses_another_by_its_name() -> None:
    user = UserAgent()
    async with running_bridge() as running:
        await running.bridge.add_agent(one_tool(lambda _: "from code", "hello"), "code")
        assert await apart(lambda: user.connect_mcp_server("helper", {"agent": "code"}))
        try:
            entry = user.tool_registry.snapshot()["mcp_helper_hello"]
            answer = await apart(entry["function"])
            assert "from code" in json.dumps(answer)
        finally:
            await apart(lambda: user.disconnect_mcp_server("helper"))


async def test_an_agent_that_is_not_there_yet_is_connected_as_soon_as_it_is() -> None:
    user = UserAgent()
    assert not await apart(lambda: user.connect_mcp_server("helper", {"agent": "late"}))
    async with running_bridge() as running:
        await running.bridge.add_agent(one_tool(lambda _: "x", "hello"), "late")
        await until(lambda: user.list_mcp_servers() == ["helper"])
        await until(lambda: "mcp_helper_hello" in user.tool_registry.snapshot())
        await apart(lambda: user.disconnect_mcp_server("helper"))


async def test_the_configuration_file_names_agents_too(tmp_path: Path) -> None:
    file = tmp_path / "mcp_servers.json"
    file.write_text(json.dumps({"mcpServers": {"helper": {"agent": "code"}}}), encoding="utf-8")
    async with running_bridge() as running:
        await running.bridge.add_agent(one_tool(lambda _: "x", "hello"), "code")
        user = await apart(lambda: UserAgent(config_file=str(file)))
        assert user.list_mcp_servers() == ["helper"]
        await apart(lambda: user.disconnect_mcp_server("helper"))


async def test_an_agent_that_names_itself_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    user = UserAgent()
    async with running_bridge() as running:
        await running.bridge.add_agent(user, "me")
        assert not await apart(lambda: user.connect_mcp_server("again", {"agent": "me"}))
        assert not await apart(lambda: user.connect_mcp_server("again", {"agent": user}))
    assert "agent 'again' cannot be used here: it would use itself" in caplog.text


async def test_agents_that_name_each_other_are_refused_whichever_comes_last(caplog: pytest.LogCaptureFixture) -> None:
    one, two, three = UserAgent(), UserAgent(), UserAgent()
    async with running_bridge() as running:
        for name, agent in (("one", one), ("two", two), ("three", three)):
            await running.bridge.add_agent(agent, name)
        assert await apart(lambda: one.connect_mcp_server("two", {"agent": "two"}))
        assert await apart(lambda: two.connect_mcp_server("three", {"agent": "three"}))
        assert not await apart(lambda: three.connect_mcp_server("one", {"agent": "one"}))
        assert "agent 'one' cannot be used here: that agent uses this one already" in caplog.text
        await apart(lambda: two.disconnect_mcp_server("three"))
        assert await apart(lambda: three.connect_mcp_server("one", {"agent": "one"}))
        await apart(lambda: three.disconnect_mcp_server("one"))
        await apart(lambda: one.disconnect_mcp_server("two"))


async def test_an_entry_of_the_bridge_publishes_an_agent_under_another_name_with_the_options_of_a_server() -> None:
    async with running_bridge() as running:
        await running.bridge.add_agent(one_tool(lambda _: "from code", "hello"), "code")
        await running.bridge.add_upstream(AgentServerSpec("alias", "code"))
        [_, alias] = running.bridge.sources
        await until_ready(alias)
        async with running.client() as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["hello", "alias__hello"]
            assert text_of(await client.call_tool("alias__hello", {})) == "from code"


async def test_an_entry_for_an_agent_that_nobody_publishes_says_who_is_published() -> None:
    async with running_bridge() as running:
        await running.bridge.add_agent(one_tool(lambda _: "x"), "code")
        await running.bridge.add_upstream(AgentServerSpec("alias", "kode"))
        [_, alias] = running.bridge.sources
        await until(lambda: alias.status.state is SourceState.BACKOFF)
        assert "there is no agent 'kode' in this process; published are: code" in alias.status.reason
