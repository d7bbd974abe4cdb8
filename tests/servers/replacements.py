"""In the place of MCP servers that the examples name and that tests cannot have: `replacements.py PACKAGE`.

They need an account, a device, or do not exist. What they do is said in their results; keys they were given, too.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PACKAGES: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "@modelcontextprotocol/server-github": {
        "create_issue": ("Create a new issue in a GitHub repository", {"title": "string", "body": "string"}),
    },
    "@myorg/mcp-server-weather": {
        "get_forecast": ("Tell the weather of the next days", {"city": "string", "days": "integer"}),
        "get_current": ("Tell the weather of now", {"city": "string"}),
        "report_weather": ("Tell others what the weather is", {"city": "string"}),
    },
    "mcp-server-zigbee": {
        "list_devices": ("List all devices", {}),
        "turn_on_light": ("Turn on a light", {"device": "string"}),
        "turn_off_light": ("Turn off a light", {"device": "string"}),
        "factory_reset": ("Forget all devices", {}),
    },
}
"""Tools by package: name, description, and the types of their arguments, all of them required."""


def definition(name: str, description: str, arguments: dict[str, str]) -> dict[str, Any]:
    properties = {argument: {"type": kind} for argument, kind in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": [*arguments]}
    return {"name": name, "description": description, "inputSchema": schema}


def result_of(package: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    tools = PACKAGES[package]
    match method:
        case "initialize":
            info = {"name": package, "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [definition(name, *facts) for name, facts in tools.items()]}
        case _:
            shown = [f"{name} {os.environ[name]}" for name in ("GITHUB_TOKEN", "API_KEY") if name in os.environ]
            text = " ".join([params["name"], *map(str, params["arguments"].values()), *shown])
            return {"content": [{"type": "text", "text": f"done: {text}"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = result_of(sys.argv[1], message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)  # noqa: T201
