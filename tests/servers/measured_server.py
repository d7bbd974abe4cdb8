"""An MCP server that finds out what a client takes: `python -S measured_server.py LOG [TOOLS]`.

Its instructions and the description of its first tool are numbered words, so that a model can tell how many of them it
was given. Once its tools were listed it says that they changed. LOG gets a line of JSON for each request.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

LOG, TOOLS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
UNITS = 12_000


def numbered(mark: str) -> str:
    """Words of eight characters, the blank behind them included."""
    return "".join(f"{mark}{number:06d} " for number in range(UNITS // 8))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        told = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}}
        return {**told, "serverInfo": {"name": "measured", "version": "1"}, "instructions": numbered("i")}
    if method == "tools/list":
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        first: dict[str, Any] = {"name": "described", "description": numbered("d"), "inputSchema": schema}
        more = [
            {"name": f"more_{number}", "description": "One more.", "inputSchema": schema} for number in range(TOOLS)
        ]
        return {"tools": [first, *more]}
    return {} if method == "ping" else None


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


said = False
for line in sys.stdin:
    request: dict[str, Any] = json.loads(line)
    method = request.get("method", "")
    params: dict[str, Any] = request.get("params") or {}
    with open(LOG, "a", encoding="utf-8") as log:
        log.write(json.dumps({"method": method, "client": params.get("clientInfo")}) + "\n")
    if "id" not in request or not method:
        continue
    result = answer(method, params)
    if result is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        send({"id": request["id"], "result": result})
    if method == "tools/list" and not said:
        said = True  # later than its client may still be making itself ready to hear
        threading.Timer(2, send, ({"method": "notifications/tools/list_changed"},)).start()
