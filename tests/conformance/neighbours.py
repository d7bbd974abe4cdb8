"""What stands beside a fixture on an endpoint of three sources: an agent, and a server of the handshake era.

    python -S neighbours.py

Every definition has a description, since the suite looks at all that an endpoint lists.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["NeighbourAgent"]

JSON = dict[str, Any]


class NeighbourAgent:
    """An agent with one tool."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """The tool."""
        return [{"name": "neighbour_word", "description": "Say a word.", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> str:
        """Say it."""
        return "word"


_RESULTS: dict[str, JSON] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "neighbour", "version": "1"},
    },
    "ping": {},
    "tools/list": {
        "tools": [{"name": "neighbour_number", "description": "Say a number.", "inputSchema": {"type": "object"}}]
    },
    "tools/call": {"content": [{"type": "text", "text": "7"}]},
    "prompts/list": {"prompts": [{"name": "neighbour_prompt", "description": "Ask for a number."}]},
    "resources/list": {
        "resources": [
            {"uri": "neighbour://number", "name": "number", "description": "A number.", "mimeType": "text/plain"}
        ]
    },
    "resources/templates/list": {"resourceTemplates": []},
}


def main() -> None:
    """Answer line by line until the end of input."""
    for line in sys.stdin:
        message: JSON = json.loads(line)
        if "id" not in message:
            continue
        result = _RESULTS.get(message["method"])
        error = {"code": -32601, "message": f"Method not found: {message['method']}"}
        outcome = {"error": error} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
