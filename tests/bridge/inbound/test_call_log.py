"""One line for each call, of every kind and era, of agents and of servers, and nothing of what was said."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from mcp import MCPError

from gaia_bridge.jsontypes import JSON
from tests.helpers import running_bridge
from tests.outbound_helpers import raw_server, until_ready

LOGGER = "gaia_bridge.inbound.call_log"


class Told:
    """An agent with something of each kind."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in ("fine", "fails")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        if tool_name == "fails":
            raise ValueError("a secret reason")
        return "a secret result"

    def get_mcp_prompts(self) -> list[JSON]:
        return [{"name": "greet"}]

    def get_mcp_resource_definitions(self) -> list[JSON]:
        return [{"uri": "note://today", "name": "today"}]

    def get_mcp_resources(self) -> list[JSON]:
        return self.get_mcp_resource_definitions()

    def read_mcp_resource(self, uri: str) -> str:
        return "a secret note"


@pytest.mark.anyio
@pytest.mark.requirement("F-206")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_call_of_an_agent_and_of_a_server_leaves_one_line(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with running_bridge(named={"told": Told()}) as running:
        await running.bridge.add_upstream(raw_server())
        await until_ready(*running.bridge.sources)
        async with running.client(mode) as client:
            await client.call_tool("fine", {"word": "a secret argument"})
            await client.call_tool("fails", {})
            await client.call_tool("up__meta", {})
            await client.get_prompt("greet")
            await client.read_resource("note://today")
            with pytest.raises(MCPError):
                await client.call_tool("none", {})
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    shapes = [re.sub(r"[\d.e-]+ ms|\d+ B", "N", line.partition(" #")[2][5:]) for line in lines]
    assert shapes == [
        "tools/call fine of told: ok in N, N in, N out",
        "tools/call fails of told: tool error in N, N in, N out",
        "tools/call up__meta of up: ok in N, N in, N out",
        "prompts/get greet of told: ok in N, N in, N out",
        "resources/read note://today of told: ok in N, N in, N out",
        "tools/call none of -: error -32602 in N, N in, N out",
    ]
    assert not [line for line in lines if "secret" in line]
    assert {line.partition("/")[0] for line in lines} == {"mcp"}


@pytest.mark.anyio
@pytest.mark.requirement("F-206")
async def test_where_nobody_listens_nothing_is_measured(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    monkeypatch.setattr("gaia_bridge.inbound.call_log.to_json", None)
    async with running_bridge(Told()) as running, running.client("legacy") as client:
        await client.call_tool("fine", {})
    assert not [record for record in caplog.records if record.name == LOGGER]
