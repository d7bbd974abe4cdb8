"""An MCP server as amd-gaia's own bridge is one (to 0.22): JSON-RPC over POST, and little else of MCP.

It answers "1.0.0" whatever revision it is asked for, has flags where capabilities have objects, knows no session, no
ping and no notification, and says so with HTTP 400.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gaia_bridge.text.json_types import JSON

__all__ = ["TOOL", "amd_bridge"]

TOOL: JSON = {
    "name": "gaia.query",
    "description": "Direct LLM queries (no conversation context)",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer: JSON = {"jsonrpc": "2.0", "id": asked.get("id")}
        match asked["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "1.0.0",
                    "serverInfo": {"name": "GAIA MCP Bridge", "version": "2.0.0"},
                    "capabilities": {"tools": True, "resources": True, "prompts": True},
                }
            case "tools/list":
                answer["result"] = {"tools": [TOOL]}
            case "tools/call":
                answer["result"] = {"content": [{"type": "text", "text": json.dumps(asked["params"]["arguments"])}]}
            case other:
                answer["error"] = {"code": -32601, "message": f"Method not found: {other}"}
        self._send(400 if "error" in answer else 200, answer)

    def do_GET(self) -> None:
        self._send(404, {"error": "Not found"})

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _send(self, status: int, body: JSON) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@contextmanager
def amd_bridge() -> Generator[str]:
    """One that listens; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
