"""A server of the handshake era with one tool, `now`. Needs no package, and so runs in every environment."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

TOOL: Final = {"name": "now", "description": "Tell the time.", "inputSchema": {"type": "object"}}
RESULTS: Final[dict[str, dict[str, Any]]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "clock", "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "noon"}]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        unknown = {"error": {"code": -32601, "message": f"no method {message['method']}"}}
        result = RESULTS.get(message["method"])
        answer = unknown if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()
