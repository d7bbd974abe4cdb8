"""What a client received, as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp

__all__ = ["call", "older", "text_of", "wire", "wire_list"]

_ENVELOPE = ("resultType", "_meta", "ttlMs", "cacheScope")


def wire(item: BaseModel) -> JSON:
    """A definition or a result exactly as it came."""
    return item.model_dump(by_alias=True, mode="json", exclude_unset=True)


def wire_list(items: Iterable[BaseModel]) -> list[JSON]:
    """Definitions exactly as they came."""
    return [wire(item) for item in items]


async def call(client: mcp.Client, name: str, /, **arguments: object) -> JSON:
    """Call a tool; what came back, without what the eras wrap it in."""
    result = wire(await client.call_tool(name, arguments))
    return {key: value for key, value in result.items() if key not in _ENVELOPE}


def older(client: mcp.Client) -> Any:
    """The client, with the methods that only earlier revisions have and that the SDK therefore calls deprecated."""
    return client


def text_of(result: JSON) -> str:
    """The text of a result that is one block of text."""
    [block] = result["content"]
    text: str = block["text"]
    return text
