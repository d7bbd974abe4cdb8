"""An agent that offers nothing: for a `gaia-bridge` that has nothing but servers to publish."""

from __future__ import annotations

from gaia_bridge.text.json_types import JSON

__all__ = ["SilentAgent"]


class SilentAgent:
    """See the module."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """None."""
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> None:
        """Never called."""
