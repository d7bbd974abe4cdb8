"""What a client learns about an agent before it calls anything."""

from __future__ import annotations

import pytest

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import Link
from tests.interaction.everything_agent import INFO, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.interaction.results import wire, wire_list

pytestmark = pytest.mark.anyio


def seen(tool: JSON, *, modern: bool) -> JSON:
    """A tool as a client must see it.

    MCP demands an object schema for the input (S1-18), some clients one with properties (F-293), and earlier revisions
    one for the output, if there is any.
    """
    declared: JSON = tool.get("inputSchema") or {}
    missing: JSON = {} if "type" in declared else {"type": "object", "properties": {}}
    shown: JSON = {**tool, "inputSchema": {**missing, **declared}}
    if not modern and shown.get("outputSchema", {}).get("type") != "object":
        shown.pop("outputSchema", None)
    return shown


@pytest.mark.core
@pytest.mark.requirement("S1-16", "P-2", "P-10", "P-12")
async def test_an_agent_introduces_itself_in_its_own_words(link: Link) -> None:
    async with link.client() as client:
        assert client.server_info is not None
        if link.alone:
            assert wire(client.server_info) == {key: value for key, value in INFO.items() if key != "instructions"}
            assert client.instructions == INFO["instructions"]
        else:
            assert client.server_info.name == "gaia-mcp-bridge"
            assert INFO["instructions"] in (client.instructions or "")
        assert wire(client.server_capabilities) == {
            "completions": {},
            "logging": {},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "tools": {"listChanged": True},
        }


@pytest.mark.requirement("S1-5", "S1-10", "S1-14", "S1-15", "S1-18", "S1-19", "S1-22", "P-9", "P-12")
async def test_lists_are_exactly_what_the_agent_declared(link: Link) -> None:
    async with link.client() as client:
        tools = wire_list((await client.list_tools()).tools)
        assert link.own(tools) == [seen(tool, modern=link.modern_throughout) for tool in TOOLS]
        assert link.own(wire_list((await client.list_prompts()).prompts)) == PROMPTS
        assert link.own(wire_list((await client.list_resources()).resources)) == RESOURCES
        assert link.own(wire_list((await client.list_resource_templates()).resource_templates)) == TEMPLATES
