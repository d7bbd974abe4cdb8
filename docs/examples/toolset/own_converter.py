"""A rule of one's own for how the schemas of tools are written, for a model that stumbles over `minItems`.

    MCP_FETCH=True python docs/examples/toolset/own_converter.py

It needs `uvx`, a part of uv, which fetches the MCP server when it is first used; and no model.
"""

from __future__ import annotations

from typing import Any

from gaia.mcp.toolset import MCPSchemaConverter, create_mcp_tools


class MySchemaConverter(MCPSchemaConverter):
    """Leaves out `minItems`, at every depth."""

    @classmethod
    def _normalize_property(cls, prop: dict[str, Any]) -> dict[str, Any]:
        prop = super()._normalize_property(prop)
        # Add custom normalization
        if prop.get("type") == "array" and "minItems" in prop:
            del prop["minItems"]  # Remove if your LLM doesn't support it
        return prop


if __name__ == "__main__":
    for tool in create_mcp_tools(converter=MySchemaConverter):
        print(f"{tool.name}: {tool.parameters}")
