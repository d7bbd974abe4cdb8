"""Who sits in front of a client, and what a client was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio
from pydantic import FileUrl

from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp_types

__all__ = ["EVERYTHING", "FORM", "filled_in", "never", "opened", "shown", "thought_of"]


async def filled_in(context: Any, params: Any) -> mcp_types.ElicitResult:
    """A user who fills in every form with the same number."""
    return mcp_types.ElicitResult(action="accept", content={"n": 42})


async def thought_of(context: Any, params: Any) -> mcp_types.CreateMessageResult:
    """A model with one answer."""
    return mcp_types.CreateMessageResult(
        role="assistant", content=mcp_types.TextContent(type="text", text="because"), model="m"
    )


async def opened(context: Any) -> mcp_types.ListRootsResult:
    """A client with one folder."""
    return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=FileUrl("file:///project"))])


EVERYTHING: Mapping[str, Any] = {
    "elicitation_callback": filled_in,
    "sampling_callback": thought_of,
    "list_roots_callback": opened,
}
FORM = {"n": {"type": "integer"}}


async def never(context: Any, params: Any) -> mcp_types.ElicitResult:
    """A user who went home."""
    await anyio.sleep_forever()
    raise AssertionError


def shown(items: Iterable[Any]) -> list[JSON]:
    """Definitions exactly as they came."""
    return [item.model_dump(by_alias=True, mode="json", exclude_unset=True) for item in items]
