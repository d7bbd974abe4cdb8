"""Tools that the bridge lends to an agent for one turn, as entries like those of the agent's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import ToolEntry
from gaia.agents.chat.rendering import content_text
from gaia_bridge.calls.results.rendering import FAILED_SILENTLY
from gaia_bridge.chat_types import LentTool
from gaia_bridge.errors import ToolError
from gaia_bridge.runtime.agent_runner import LoopHandle
from gaia_bridge.text.json_types import JSON

__all__ = ["lent_entries"]


def lent_entries(tools: Iterable[LentTool], loop: LoopHandle) -> dict[str, ToolEntry]:
    """Describe lent tools as a registry describes its own.

    Args:
        tools: The tools.
        loop: Where they are run: that of whoever lends them.
    """
    return {str(tool.definition["name"]): _entry(tool, loop) for tool in tools}


def _entry(tool: LentTool, loop: LoopHandle) -> ToolEntry:
    definition = tool.definition
    schema: JSON = definition.get("inputSchema") or {"type": "object", "properties": {}}

    async def function(**arguments: Any) -> JSON:
        async def call() -> JSON:
            return await tool.call(arguments)

        result = await loop.wait(call)
        if result.get("isError") is True:
            raise ToolError(content_text(result.get("content") or []) or FAILED_SILENTLY)
        return result

    return {
        "name": definition["name"],
        "description": definition.get("description") or "",
        "parameters": flat_parameters(schema),
        "inputSchema": schema,
        "annotations": definition.get("annotations") or {},
        "function": function,
        "atomic": True,
    }
