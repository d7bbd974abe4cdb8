"""A load client that is lean enough not to disturb what it measures, and what a tree of processes has used.

Messages are put together beforehand, and of an answer only the end is looked for and one word in it. Requests follow
one after the other, on one connection.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import psutil

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WORD = "hello"
PATIENCE = 15.0
"""Seconds for one answer, and for a server to come up."""

_CLIENT = {"name": "benchmark", "version": "1"}
_HELLO: dict[str, Any] = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}
_GAP = 0.0005
"""Seconds between a head and its body that are sent apart."""

_CALLS = 100_000
"""Ids that each connection of a client has for itself."""
_NUMBER = 1_000_000_000
"""The first id of a call: all have the same length, so that all messages have."""


def message(method: str, params: dict[str, Any], number: int | None = 0) -> bytes:
    """A request, or without a number a notification."""
    head: dict[str, Any] = {"jsonrpc": "2.0"} if number is None else {"jsonrpc": "2.0", "id": number}
    return json.dumps({**head, "method": method, "params": params}, separators=(",", ":")).encode()


class Client(ABC):
    """One client on one connection.

    Args:
        era: `LEGACY` or `MODERN`.
        tool: The name of the tool, as the server has it.
        more: Arguments of `echo_server.py`, such as its `delay` in milliseconds; none that are zero.
    """

    def __init__(self, era: str, tool: str, **more: int) -> None:
        self.era = era
        arguments = {"text": WORD, **{name: value for name, value in more.items() if value}}
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if era == MODERN:
            params["_meta"] = _META
        self._before, self._after = message("tools/call", params, _NUMBER).split(b"%d" % _NUMBER)
        self._number = _NUMBER
        self._expected = WORD.encode()
        self.first_answer = 0.0
        """When the first answer came, by `time.perf_counter`."""

    def greet(self) -> None:
        """Open the session, where the era has sessions, and see one call through to a result.

        What is behind a bridge may take its time to come up.
        """
        if self.era == LEGACY:
            answer = self.ask(message("initialize", _HELLO))
            self.first_answer = time.perf_counter()
            if b'"result"' not in answer:
                raise RuntimeError(f"no session: {answer[:300].decode(errors='replace')}")
            self.tell(message("notifications/initialized", {}, None))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.call()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                self.first_answer = self.first_answer or time.perf_counter()
                return

    def call(self) -> float:
        """Make one call; returns the seconds that it took."""
        request = self.next_request()
        started = time.perf_counter()
        answer = self.ask(request, "tools/call")
        took = time.perf_counter() - started
        self._check(answer)
        return took

    def next_request(self) -> bytes:
        """A call with an id of its own."""
        self._number += 1
        return self._before + b"%d" % self._number + self._after

    def _check(self, answer: bytes) -> None:
        if self._expected not in answer or b'"isError":true' in answer.replace(b" ", b""):
            raise RuntimeError(f"a call failed: {answer[-500:].decode(errors='replace')}")

    @abstractmethod
    def ask(self, request: bytes, method: str = "initialize") -> bytes:
        """Send a request and return whatever holds the answer."""

    @abstractmethod
    def tell(self, notification: bytes) -> None:
        """Send a notification."""

    @abstractmethod
    def close(self) -> None:
        """Leave."""


class PipeClient(Client):
    """A client of a server that is a child process."""

    def __init__(self, era: str, tool: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(era, tool)
        assert process.stdin and process.stdout
        self._stdin, self._stdout = process.stdin, process.stdout
        self._rest = b""

    def ask(self, request: bytes, method: str = "initialize") -> bytes:
        """Send a line, and read lines until one is an answer."""
        self.tell(request)
        while True:
            line = self.line()
            if b'"result"' in line or b'"error"' in line:
                return line

    def line(self) -> bytes:
        """The next line that comes."""
        while not (cut := self._rest.find(b"\n") + 1):
            if not select.select([self._stdout], [], [], PATIENCE)[0]:
                raise TimeoutError("no answer came")
            if not (chunk := os.read(self._stdout.fileno(), 65_536)):
                raise ConnectionError("it ended")
            self._rest += chunk
        line, self._rest = self._rest[:cut], self._rest[cut:]
        return line

    def tell(self, notification: bytes) -> None:
        """Send a line."""
        os.write(self._stdin.fileno(), notification + b"\n")

    def close(self) -> None:
        """Close its input, which ends a server."""
        self._stdin.close()


class HttpClient(Client):
    """A client of a server over Streamable HTTP, on one connection that is kept."""

    def __init__(self, era: str, tool: str, port: int, path: str, *, apart: bool = False, **more: int) -> None:
        """Connect.

        Args:
            era: The revision.
            tool: What is called.
            port: Of the server.
            path: Of the endpoint.
            apart: Whether head and body are sent apart, as proxies and most clients do.
            more: See `Client`.
        """
        super().__init__(era, tool, **more)
        self._port, self._path, self._apart = port, path, apart
        self._session = b""
        self._started = 0.0
        self._socket = self._connected()
        self._size = len(self._before) + len(self._after) + len(str(_NUMBER))
        named = f"mcp-method: tools/call\r\nmcp-name: {tool}\r\n".encode() if era == MODERN else b""
        self._call_headers = b"mcp-protocol-version: " + era.encode() + b"\r\n" + named

    def _connected(self) -> socket.socket:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connected = socket.create_connection(("127.0.0.1", self._port), PATIENCE)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connected

    def ask(self, request: bytes, method: str = "initialize") -> bytes:
        """POST a request; returns the body of the answer, as it came."""
        head, body = self._post(request, b"" if method == "initialize" else self._call_headers)
        if method == "initialize":
            session = _header(head, b"mcp-session-id")
            self._session = b"mcp-session-id: " + session + b"\r\n" if session else b""
        return body

    def tell(self, notification: bytes) -> None:
        """POST a notification."""
        self._post(notification, self._call_headers)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def reconnect(self) -> None:
        """Go on with the same session on another connection."""
        self._socket.close()
        self._socket = self._connected()

    def join(self, other: HttpClient) -> None:
        """Use the session of another client, which is the same one on another connection."""
        self._session = other._session
        self._number += _CALLS * (self.fileno() + 1)

    def fileno(self) -> int:
        """The descriptor of the connection, which can be read when an answer has come."""
        return self._socket.fileno()

    def begin_call(self) -> None:
        """Make one call, and do not wait for its answer."""
        self._started = time.perf_counter()
        self._send(self.next_request(), self._call_headers)

    def end_call(self) -> float:
        """Read the answer; returns the seconds since the beginning of the call."""
        _, answer = self._answer()
        took = time.perf_counter() - self._started
        self._check(answer)
        return took

    def _post(self, body: bytes, headers: bytes) -> tuple[bytes, bytes]:
        self._send(body, headers)
        return self._answer()

    def _send(self, body: bytes, headers: bytes) -> None:
        head = (
            b"POST %b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
            b"accept: application/json, text/event-stream\r\ncontent-length: %d\r\n%b%b\r\n"
        ) % (self._path.encode(), self._port, len(body), headers, self._session)
        if self._apart:
            self._socket.sendall(head)
            time.sleep(_GAP)
            head = b""
        self._socket.sendall(head + body)

    def _answer(self) -> tuple[bytes, bytes]:
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[: end + 2]
        if b"chunked" in _header(head, b"transfer-encoding"):
            while not data.endswith(b"\r\n0\r\n\r\n", end + 2):
                data += self._more()
        else:
            size = int(_header(head, b"content-length") or b"0")
            while len(data) < end + 4 + size:
                data += self._more()
        return head, data[end + 4 :]

    def _more(self) -> bytes:
        if not (data := self._socket.recv(65536)):
            raise ConnectionError("the server hung up")
        return data


def _header(head: bytes, name: bytes) -> bytes:
    """The value of a header in the head of a response; empty if there is none."""
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Usage:
    """What a process and its descendants have used.

    Args:
        process: The first of them.
        but: What is in the command line of the descendants that do not count: the server behind a proxy.
    """

    def __init__(self, process: subprocess.Popen[bytes], but: str) -> None:
        root = psutil.Process(process.pid)
        descendants = root.children(recursive=True)
        self._processes = [root, *(child for child in descendants if but not in " ".join(child.cmdline()))]

    def cpu(self) -> float:
        """Seconds of CPU time, user and system."""
        return sum(self._of_threads(process.pid) for process in self._processes) / 1e9

    @staticmethod
    def _of_threads(pid: int) -> int:
        """Nanoseconds; the clock of `psutil` ticks a hundred times a second."""
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in tasks)

    def memory(self) -> float:
        """MiB that are resident; what the processes share, above all the interpreter's own code, counts once."""
        each = [process.memory_full_info() for process in self._processes]
        return (sum(it.uss for it in each) + max(it.rss - it.uss for it in each)) / 2**20
