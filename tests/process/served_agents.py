"""Two agents in one file, for `gaia-bridge serve`: one whose tools never end by themselves, and one that is calm."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

released = threading.Event()
"""Ends every `hold`; the agents share it because they share this module."""


def say(text: str) -> None:
    """Tell the test, which reads standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


class StuckAgent:
    """Blocks, in one way or another."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {}} for name in ("hang", "hang-async", "hold", "nap")]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        match tool_name:
            case "hang":
                say("hanging")
                threading.Event().wait()
            case "hang-async":
                return self._hang()
            case "hold":
                released.wait()
            case _:
                say("napping")
                time.sleep(0.2)
        return {"from": tool_name}

    async def _hang(self) -> None:
        say("hanging")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            say("cancelled")
            raise


class CalmAgent:
    """Answers at once."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {}} for name in ("calm", "release")]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "release":
            released.set()
        return {"from": tool_name, **arguments}
