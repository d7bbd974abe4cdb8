"""An agent that tells one window of an editor from another."""

from __future__ import annotations

import os
import threading
from typing import Any

from gaia.agents.base import MCPAgent, get_request_context


class WindowAgent(MCPAgent):
    """Says what it knows of who asks."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        self._begun: list[str] = []
        self._given_up: list[str] = []

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        names = ("process", "hang", "wait-for", "ask", "roots", "narrate", "touch", "large", "steps", "given-up")
        return [{"name": name, "inputSchema": {"type": "object"}} for name in names]

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        return [{"uri": "note://seen", "name": "seen"}]

    def read_mcp_resource(self, uri: str) -> Any:
        return str(self._seen)

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "steps":
            for step in range(1, 4):
                get_request_context().report_progress(step, 3, arguments["name"])
            return arguments["name"]
        if tool_name == "large":
            return str(arguments["letter"]) * arguments["size"]
        if tool_name == "given-up":
            return {"begun": self._begun, "names": self._given_up}
        return self._about_windows(tool_name, arguments)

    def _about_windows(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        request = get_request_context()
        match tool_name:
            case "process":
                return {"pid": os.getpid()}
            case "hang":
                self._begun.append(arguments.get("name", ""))
                cancelled = request.wait_cancelled(600)
                self._given_up.append(arguments.get("name", ""))
                return {"cancelled": cancelled}
            case "wait-for":
                open(arguments["begun"], "w", encoding="utf-8").close()
                pause = threading.Event()
                while not os.path.exists(arguments["path"]):
                    pause.wait(0.01)
                return {"pid": os.getpid()}
            case "ask":
                answer = request.elicit(f"Who are you, {arguments['name']}?", {"name": {"type": "string"}})
                return {"name": answer.content["name"]}
            case "roots":
                return {"roots": request.list_roots()}
            case "narrate":
                request.log("something", level="info")
                return "done"
            case _:
                self._seen += 1
                self.notify_mcp_resource_updated("note://seen")
                return "touched"
