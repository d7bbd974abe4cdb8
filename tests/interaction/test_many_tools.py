"""Thousands of tools behind two, for a client that does not take so many, on every transport and in both eras."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import DEADLINE, ERAS, TRANSPORTS, client_of, serving
from tests.interaction.many_tools_agent import TOOLS, ManyToolsAgent
from tests.interaction.results import call
from tests.interaction.test_talking import Person
from tests.support.on_demand import mcp, mcp_types

pytestmark = pytest.mark.anyio

VS_CODE: dict[str, Any] = {"name": "Visual Studio Code", "version": "1.138.0"}
AGENT_FILE = Path(__file__).with_name("many_tools_agent.py")
ways = pytest.mark.parametrize(("transport", "era"), list(product(TRANSPORTS, ERAS)))


async def answer(client: mcp.Client, **arguments: object) -> JSON:
    """What a search tells."""
    [block] = (await client.call_tool("tool_search", arguments)).content
    assert isinstance(block, mcp_types.TextContent)
    told: JSON = json.loads(block.text)
    return told


@asynccontextmanager
async def client_of_many(transport: str, era: str, errors: Any, **options: Any) -> AsyncGenerator[mcp.Client]:
    """A client of an agent with 2,000 tools."""
    with anyio.fail_after(DEADLINE):
        if transport == "stdio":
            command = ["-m", "gaia_bridge", "serve", f"{AGENT_FILE}:ManyToolsAgent", "--stdio"]
            target = mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=command), errors)
            async with client_of(target, era, **options) as client:
                yield client
        else:
            async with serving({"many": ManyToolsAgent()}) as (url, _):
                async with client_of(url + {"http": "/mcp", "sse": "/sse"}[transport], era, **options) as client:
                    yield client


@ways
async def test_vs_code_finds_and_calls_one_of_two_thousand_tools(transport: str, era: str, tmp_path: Path) -> None:
    person = Person()
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as errors:
        options: dict[str, Any] = {"client_info": mcp_types.Implementation(**VS_CODE), **person.callbacks}
        async with client_of_many(transport, era, errors, **options) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["tool_search", "call_tool"]
            assert listed.next_cursor is None

            found = await answer(client, query="convert kilometres to miles")
            best = found["tools"][0]
            assert (best["name"], best["inputSchema"]) == ("convert_distance", TOOLS["convert_distance"]["inputSchema"])
            result = await call(client, "call_tool", name=best["name"], arguments={"kilometres": 10})
            assert result["structuredContent"] == {"miles": 6.2}

            found = await answer(client, pattern="^tool_18[0-9]{2}$", limit=3)
            assert (found["total_matches"], [tool["name"] for tool in found["tools"]]) == (
                100,
                ["tool_1800", "tool_1801", "tool_1802"],
            )
            asked = await call(client, "call_tool", name="ask")
            assert asked["structuredContent"] == {"action": "accept", "size": 42}
        errors.seek(0)
        said = errors.read()
    assert [question["message"] for question in person.asked] == ["Which size?"]
    if transport == "stdio":
        assert "Visual Studio Code takes at most 128 tools" in said
        assert len(said.splitlines()) == 1


@ways
async def test_a_client_that_is_not_known_sees_every_tool(transport: str, era: str) -> None:
    async with client_of_many(transport, era, sys.stderr) as client:
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                break
        assert names == list(TOOLS)
