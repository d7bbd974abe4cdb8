"""Prompts, resources and completions."""

from __future__ import annotations

import base64
import json

import pytest

from tests.interaction.connecting import Link
from tests.interaction.everything_agent import PNG
from tests.interaction.results import wire
from tests.support.on_demand import mcp, mcp_types

pytestmark = pytest.mark.anyio

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
LEGACY_RESOURCE_NOT_FOUND = -32002
PICTURE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}


@pytest.mark.requirement("S1-14", "P-11", "P-12")
async def test_prompts_are_filled_in_and_their_arguments_completed(link: Link) -> None:
    async with link.client() as client:
        letter = wire(await client.get_prompt("write-letter", {"to": "Ada", "tone": "briefly"}))
        assert letter["description"] == "A letter to someone"
        assert letter["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "Write to Ada, briefly."}},
            {"role": "assistant", "content": PICTURE},
        ]
        plain = wire(await client.get_prompt("no-arguments"))
        assert plain["messages"] == [{"role": "user", "content": {"type": "text", "text": "Just write."}}]

        with pytest.raises(mcp.MCPError, match="needs the arguments: to") as missing:
            await client.get_prompt("write-letter", {"tone": "briefly"})
        assert missing.value.code == INVALID_PARAMS
        with pytest.raises(mcp.MCPError, match="Unknown prompt: nothing") as unknown:
            await client.get_prompt("nothing")
        assert unknown.value.code == INVALID_PARAMS

        cities = await client.complete(mcp_types.PromptReference(name="write-letter"), {"name": "to", "value": "Pa"})
        assert (cities.completion.values, cities.completion.total) == (["Paris", "Parma"], 2)
        template = mcp_types.ResourceTemplateReference(uri="note://{number}/{part}")
        known = await client.complete(template, {"name": "part", "value": "he"}, {"number": "1"})
        assert known.completion.values == ["part=he", "number=1"]


@pytest.mark.requirement("S1-15", "S1-13", "F-100", "P-12")
async def test_resources_are_read_by_uri_and_by_template(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    async with link.client() as client:
        for uri, content in {
            "note://1": {"mimeType": "text/plain", "text": "1 was updated 0 times"},
            "note://1/head": {"mimeType": "text/plain", "text": "1/head was updated 0 times"},
            "blob://1": {"mimeType": "image/png", "blob": PICTURE["data"]},
        }.items():
            assert wire(await client.read_resource(uri))["contents"] == [{"uri": uri, **content}]
        [data] = wire(await client.read_resource("data://1"))["contents"]
        assert (data["mimeType"], json.loads(data["text"])) == ("application/json", {"numbers": [1, 2, 3]})

        with pytest.raises(mcp.MCPError) as absent:
            await client.read_resource("nowhere://1")
        assert absent.value.code == (INVALID_PARAMS if link.modern else LEGACY_RESOURCE_NOT_FOUND)
        assert absent.value.data == {"uri": "nowhere://1"}
        with pytest.raises(mcp.MCPError, match="failed with RuntimeError") as broken:
            await client.read_resource(link.address("broken://1"))
        assert broken.value.code == INTERNAL_ERROR
        assert "hunter2" not in broken.value.message

    assert "hunter2" in (link.take_errors() if link.transport == "stdio" else caplog.text)
