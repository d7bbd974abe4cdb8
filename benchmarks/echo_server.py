"""An MCP server that costs next to nothing: what is measured around it is the client.

    python -S echo_server.py [hang]

With `hang`, it never answers.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

INTRODUCTION: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echo", "version": "1"},
}
TOOLS = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}

if "hang" in sys.argv:
    time.sleep(3600)
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            answer["result"] = INTRODUCTION
        case "tools/list":
            answer["result"] = TOOLS
        case "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
        case _:
            answer["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
