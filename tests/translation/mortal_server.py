"""A server that works until something happens to it: `python mortal_server.py ERA VERSION_FILE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio

from gaia.agents.base import MCPAgent, get_request_context
from gaia_bridge.bridge import Bridge
from gaia_bridge.text.json_types import JSON
from tests.translation.legacy_only import forget_discovery

VERSION = Path(sys.argv[2])


class MortalAgent(MCPAgent):
    """Tells who it is, waits, asks, and has a resource that changes."""

    def __init__(self) -> None:
        super().__init__(silent_mode=True)
        self._version = VERSION.read_text("utf-8")
        self._publisher: Any = None

    def get_mcp_tool_definitions(self) -> list[JSON]:
        names = ("who", "wait", "ask", "touch", f"only-in-{self._version}")
        return [{"name": name, "description": name} for name in names]

    def get_mcp_resources(self) -> list[JSON]:
        return [{"uri": "state:1", "name": "state"}]

    def read_mcp_resource(self, uri: str) -> str:
        return self._version

    def on_mcp_published(self, publisher: Any) -> None:
        self._publisher = publisher

    async def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        request = get_request_context()
        match tool_name:
            case "who":
                return {"pid": os.getpid(), "version": self._version}
            case "wait":
                request.report_progress(1)
                await anyio.sleep(60)
            case "ask":
                return {"answer": (await request.aelicit("Sure?", {"sure": {"type": "boolean"}})).action}
            case "touch":
                self._publisher.resource_updated("state:1")
            case _:
                pass
        return {}


async def main() -> None:
    async with Bridge() as bridge:
        await bridge.add_agent(MortalAgent(), "mortal")
        if sys.argv[1] == "legacy":
            forget_discovery(bridge)
        await bridge.serve_stdio()


if __name__ == "__main__":
    anyio.run(main)
