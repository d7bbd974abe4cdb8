"""What `relay.py` measures: the bridge in every way that a call can take through it, and the raw relay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import LEGACY, MODERN

HERE = Path(__file__).parent
ECHO_SERVER = HERE / "echo_server.py"

MakeCommand = Callable[[Path, int, list[str]], list[str]]
"""Gives the command line: an empty folder, the port to listen on, and what is behind it, a command or one URL."""


@dataclass(frozen=True)
class Subject:
    """One program under test, in one way."""

    name: str
    way: str
    """The client's transport, and the server's."""
    era: str
    """Of the client, and of the server."""
    command: MakeCommand
    tool: str = "echo"
    path: str = "/mcp"

    @property
    def line(self) -> str:
        """How it is called in the table."""
        return f"{self.name:22}{self.way:16}{self.era}"

    @property
    def near_http(self) -> bool:
        """Whether the client uses HTTP."""
        return self.way.startswith("HTTP")

    @property
    def far_http(self) -> bool:
        """Whether the server uses HTTP."""
        return self.way.endswith("HTTP")

    def far_command(self, port: int) -> list[str]:
        """How the server is launched, which speaks the same era; empty where there is none."""
        if self.way.endswith("agent"):
            return []
        modern = ["modern"] if self.era == MODERN else []
        if self.far_http:
            return [sys.executable, str(ECHO_SERVER), "http", str(port), *modern]
        return [sys.executable, "-S", str(ECHO_SERVER), *modern]


WAYS = ("stdio -> stdio", "HTTP -> stdio", "HTTP -> HTTP")
TO_AGENT = ("stdio -> agent", "HTTP -> agent")


def _bridge(way: str) -> MakeCommand:
    def command(folder: Path, port: int, far: list[str]) -> list[str]:
        servers: dict[str, object] = {}
        if way.endswith("stdio"):
            servers["far"] = {"command": far[0], "args": far[1:]}
        elif way.endswith("HTTP"):
            servers["far"] = {"url": far[0]}
        config = folder / "servers.json"
        config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        # As other bridges have none, there is an agent only where it is called.
        published = str(HERE / "echo_agent.py") if way in TO_AGENT else "--no-agents"
        serve = [sys.executable, "-m", "gaia_bridge", "serve", published, "--config", str(config)]
        return [*serve, *(["--port", str(port)] if way.startswith("HTTP") else ["--stdio"])]

    return command


def _raw(folder: Path, port: int, far: list[str]) -> list[str]:
    return [sys.executable, str(HERE / "raw_relay.py"), str(port), *far]


BRIDGE = [
    Subject("gaia-bridge", way, era, _bridge(way), "echo" if way in TO_AGENT else "far__echo")
    for way in (*WAYS, *TO_AGENT)
    for era in (LEGACY, MODERN)
]
RAW = [Subject("raw relay, no MCP", "HTTP -> stdio", LEGACY, _raw)]
