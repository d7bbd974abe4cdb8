"""A client that drives the real command line by line, and requests over HTTP that are left open."""

from __future__ import annotations

import http.client
import itertools
import json
import re
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gaia_bridge.text.json_types import JSON
from tests.cli.running import DEADLINE, INITIALIZE, Running, running
from tests.support.on_demand import mcp_types

__all__ = ["AGENTS", "BOUND", "LEGACY", "MODERN", "LineClient", "OpenRequest", "initialized", "url_of"]

BOUND: Final = 5.0
"""Seconds in which a server that was told to end has ended; the specification of F-118 says two, on an idle machine."""
AGENTS: Final = Path(__file__).with_name("served_agents.py")
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


class LineClient:
    """Speaks MCP with a server over its standard streams. Every line that comes must be JSON-RPC.

    Args:
        bridge: The server.
    """

    def __init__(self, bridge: Running) -> None:
        self.bridge = bridge
        self.others: list[JSON] = []
        """What came in between."""
        self._ids = itertools.count(1)

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        stdin: Any = self.bridge.process.stdin
        stdin.buffer.write(data)
        stdin.buffer.flush()

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write(_line({"method": method, "params": params}))

    def send(self, method: str, *, modern: bool = False, **params: Any) -> int:
        """Send a request; returns its id."""
        number = next(self._ids)
        if modern:
            params["_meta"] = _META
        self.write(_line({"id": number, "method": method, "params": params}))
        return number

    def call(self, tool: str, **arguments: Any) -> int:
        """Call a tool, and do not wait; returns the id of the request."""
        return self.send("tools/call", name=tool, arguments=arguments)

    def next(self) -> JSON:
        """The next message."""
        message = self.bridge.receive()
        mcp_types.jsonrpc_message_adapter.validate_python(message)
        return message

    def answer(self, number: int | str) -> JSON:
        """The answer to a request, whatever comes before it."""
        return self.answer_to_any([number])

    def answer_to_any(self, numbers: Collection[int | str]) -> JSON:
        """The next answer to one of these requests."""
        for message in self.others:
            if message.get("id") in numbers:
                self.others.remove(message)
                return message
        while (message := self.next()).get("id") not in numbers:
            self.others.append(message)
        return message

    def result(self, method: str, *, modern: bool = False, **params: Any) -> JSON:
        """Send a request and wait for its result."""
        answer = self.answer(self.send(method, modern=modern, **params))
        assert "result" in answer, answer
        result: JSON = answer["result"]
        return result

    def call_result(self, tool: str, **arguments: Any) -> JSON:
        """Call a tool and wait for its result."""
        return self.result("tools/call", name=tool, arguments=arguments)

    def initialize(self) -> JSON:
        """Play the handshake; the server's greeting."""
        greeting = self.result("initialize", **INITIALIZE["params"])
        self.notify("notifications/initialized")
        return greeting

    def ended(self, seconds: float = BOUND) -> int:
        """Wait for the server's end; its exit code. What it still said was JSON-RPC."""
        code = self.bridge.process.wait(seconds)
        for line in self.bridge.rest_of_output().splitlines():
            mcp_types.jsonrpc_message_adapter.validate_json(line)
            self.others.append(json.loads(line))
        return code


@contextmanager
def initialized(*arguments: str, cwd: Path) -> Generator[LineClient]:
    """A server over stdio that has completed the handshake."""
    with running("serve", "--stdio", *arguments, cwd=cwd) as bridge:
        client = LineClient(bridge)
        client.initialize()
        yield client


class OpenRequest:
    """An HTTP request whose answer has not ended.

    Args:
        url: Where.
        message: What to post; without it, an event stream is asked for.
        headers: Further headers.
    """

    def __init__(self, url: str, message: JSON | None = None, headers: Mapping[str, str] | None = None) -> None:
        target = urlsplit(url)
        self._connection = http.client.HTTPConnection(target.netloc, timeout=DEADLINE)
        all_headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        all_headers.update(headers or {})
        body = None if message is None else json.dumps({"jsonrpc": "2.0", "id": 1, **message})
        self._connection.request("GET" if message is None else "POST", target.path, body, all_headers)
        self._response: http.client.HTTPResponse | None = None

    @classmethod
    def modern(cls, url: str, method: str, **params: Any) -> OpenRequest:
        """A request of 2026-07-28, with the headers that it has to have."""
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        return cls(url, {"method": method, "params": {**params, "_meta": _META}}, headers)

    @property
    def response(self) -> http.client.HTTPResponse:
        """The response; waits for its head."""
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    def first_event(self) -> bytes:
        """The data of the first event."""
        while not (line := self.response.readline()).startswith(b"data: {") and not line.startswith(b"data: /"):
            assert line, "the stream has ended"
        return line.removeprefix(b"data: ")

    def rest(self) -> bytes:
        """Everything up to the end of the response, which must be a proper one."""
        return self.response.read()

    def close(self) -> None:
        """Hang up."""
        if self._response is not None:
            self._response.close()
        self._connection.close()


def url_of(bridge: Running) -> str:
    """The base URL of a server over HTTP, once it is ready."""
    line = bridge.until_error("/mcp  everything")
    bridge.until_error("Access: ")
    found = re.search(r"http://[^/]+", line)
    assert found is not None
    return found[0]


def _line(message: JSON) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
