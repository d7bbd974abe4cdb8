"""A transport of one's own: MCP over HTTP with nothing but the standard library.

    gaia-bridge serve &
    python docs/examples/client/custom_transport.py

It needs a server at the URL in its first argument, or a bridge at its usual place. It is as small as a transport can
be; the one that `MCPClient.from_config("name", {"url": ...})` has knows streams, logins, questions and every revision.
"""

from __future__ import annotations

import itertools
import json
import sys
import urllib.error
import urllib.request
from typing import Any

from gaia.mcp.client import MCPClient
from gaia.mcp.client.transports.base import MCPTransport


class HttpTransport(MCPTransport):
    def __init__(self, url: str, timeout: int = 30) -> None:
        self.url = url
        self.timeout = timeout
        self._connected = False
        self._ids = itertools.count(1)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def connect(self) -> bool:
        # There is nothing to establish: each request is an exchange of its own
        self._connected = True
        return True

    def disconnect(self) -> None:
        self._connected = False

    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        if not self._connected:
            raise RuntimeError(f"Not connected to {self.url}")
        answer = self._post({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}})
        events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: {")]
        response: dict[str, Any] = json.loads(events[-1] if events else answer)  # as a stream, or at once
        return response

    def send_notification(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._post({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def is_connected(self) -> bool:
        return self._connected

    def _post(self, message: dict[str, Any]) -> str:
        request = urllib.request.Request(self.url, json.dumps(message).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self._headers["Mcp-Session-Id"] = session
                text: str = response.read().decode()
                return text
        except urllib.error.URLError as error:
            raise RuntimeError(f"{self.url} does not answer: {error}") from error


if __name__ == "__main__":
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8765/mcp"
    with MCPClient("remote", HttpTransport(url)) as client:
        print(f"Connected to {client.server_info['name']}")
        for tool in client.list_tools():
            print(f"- {tool.name}: {tool.description}")
