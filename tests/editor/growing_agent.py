"""An agent with a prompt, a resource, and one more tool as soon as a file of that name lies beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from gaia.agents.base import MCPAgent, prompt, resource, tool

_MORE = Path(__file__).with_name("one-more-tool")


class GrowingAgent(MCPAgent):
    """Grows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        never = threading.Event()
        while not _MORE.exists():
            never.wait(0.05)
        self.notify_mcp_tools_changed()

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        """One tool by hand, which comes and goes."""
        return (
            [{"name": "dance", "description": "Dance.", "inputSchema": {"type": "object", "properties": {}}}]
            if _MORE.exists()
            else []
        )

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Dance."""
        return "la la"

    @tool
    def greet(self, name: str) -> str:
        """Greet somebody by name."""
        return f"Hello, {name}!"

    @tool
    def part(self, name: str) -> str:
        """Say goodbye to somebody."""
        return f"Goodbye, {name}!"

    @prompt
    def poem(self, about: str) -> str:
        """Write a poem."""
        return f"Write a poem about {about}."

    @resource("growing://state")
    def state(self) -> str:
        """How large it is."""
        return "large" if _MORE.exists() else "small"
