"""The servers of an agent end with it: when another takes its place for good, and when nobody refers to it any more."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from gaia.agents.base import Agent, MCPAgent, tool
from gaia.mcp import MCPClientMixin
from gaia_bridge import Client
from gaia_bridge.bridge import Bridge
from tests.agents.mcp.test_shared_servers import ONE, THREE, Desk, apart, of_agent, processes
from tests.support.waiting import after_collection, eventually, until


class Thinker(Agent, MCPClientMixin):
    """An agent of the other kind."""

    def __init__(self, servers: dict[str, Any]) -> None:
        super().__init__(silent_mode=True, auto_load_config=False)
        for name, entry in servers.items():
            assert self.connect_mcp_server(name, entry)

    def _register_tools(self) -> None:
        """None."""


class Plain(MCPAgent):
    @tool
    def plain(self) -> str:
        return "plain"


@pytest.mark.parametrize("kind", [Desk, Thinker])
def test_an_agent_with_servers_is_freed_with_its_last_reference_and_its_servers_end(kind: Any) -> None:
    agent = kind(ONE)
    assert len(processes()) == 1
    known = weakref.ref(agent)
    del agent
    eventually(after_collection(lambda: known() is None))
    eventually(lambda: processes() == set())


@pytest.mark.anyio
async def test_an_agent_whose_place_is_taken_for_good_lets_its_servers_go_after_its_last_call() -> None:
    old = await apart(lambda: Desk(THREE))
    async with Bridge(old) as bridge, Client(bridge) as client:
        await bridge.replace_agent("desk", await apart(lambda: Desk(THREE)), for_good=True)
        await until(lambda: old.list_mcp_servers() == [])
        await until(lambda: len(processes()) == len(THREE))
        call = {"server": "one", "tool": "env"}
        assert "one" in (await client.call_tool("use", call)).text
        await bridge.replace_agent("desk", Plain(), for_good=True)
        await until(lambda: processes() == set())


@pytest.mark.anyio
async def test_an_agent_that_a_program_replaces_keeps_its_servers_for_the_program() -> None:
    desk = await apart(lambda: Desk(ONE))
    try:
        async with Bridge(desk) as bridge:
            await bridge.replace_agent("desk", Plain())
        assert None not in of_agent(desk).values()
        assert len(processes()) == 1
    finally:
        await apart(desk.close)
