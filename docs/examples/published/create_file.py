"""An agent that creates files for its clients, in the folder that it is started in.

    gaia-bridge serve docs/examples/published/create_file.py

It needs no model. Whoever may use the bridge may write files in that folder, and overwrite none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gaia.agents.base import Agent, MCPAgent


class CodeAgent(MCPAgent, Agent):
    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "create-file",
                "description": "Create a file",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "content": {"type": "string"},
                    },
                    "required": ["path", "content"],
                },
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool_name == "create-file":
            folder = Path.cwd().resolve()
            path = (folder / arguments["path"]).resolve()
            if not path.is_relative_to(folder):
                return {"error": f"{arguments['path']} is not in {folder}"}
            with path.open("x", encoding="utf-8") as file:
                file.write(arguments["content"])
            return {"status": "created", "path": str(path), "size": len(arguments["content"])}
        raise ValueError(f"Unknown tool: {tool_name}")
