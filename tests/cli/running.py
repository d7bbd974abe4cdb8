"""`gaia-bridge` as a process of its own, and agents for it to run."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["GLOBAL", "INITIALIZE", "Run", "Running", "entries", "request", "run", "running", "write_agent"]

GLOBAL = ".gaia/mcp_servers.json"
"""The user's own file of servers: a test runs in a home folder of its own."""

Run = Callable[..., tuple[int, str, str]]
"""What the fixture `run` gives: a command of this process; its exit code, what it printed and what it said."""

DEADLINE = 30.0
"""Seconds for anything that a test waits for; only a broken program needs them."""

AGENT = """
import sys, threading

class {name}:
    def get_mcp_tool_definitions(self):
        return [
            {{"name": "hello", "description": "Say hello", "inputSchema": {{}}}},
            {{"name": "hang", "description": "Never return", "inputSchema": {{}}}},
            {{"name": "broken", "inputSchema": {{"type": "string"}}}},
        ]

    def execute_mcp_tool(self, tool_name, arguments):
        if tool_name == "hang":
            print("hanging", file=sys.stderr, flush=True)
            threading.Event().wait()
        return {{"text": "hello"}}
"""

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def entries(file: str = GLOBAL) -> Any:
    """The servers that a file lists."""
    return json.loads(Path(file).read_text(encoding="utf-8"))["mcpServers"]


def write_agent(folder: Path, name: str = "DemoAgent", file: str = "demo.py", before: str = "") -> Path:
    """Write an agent with the tools `hello`, `hang` and one that MCP cannot carry."""
    path = folder / file
    path.write_text(textwrap.dedent(before) + AGENT.format(name=name), encoding="utf-8")
    return path


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `gaia-bridge` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "gaia_bridge", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        **options,
    )


class Running:
    """A `gaia-bridge` that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.errors = ""
        self._error_lines, reads_errors = _lines_of(process.stderr)
        self._output_lines, reads_output = _lines_of(process.stdout)
        self._readers = reads_errors, reads_output

    def send(self, *messages: dict[str, Any]) -> None:
        """Write JSON-RPC messages to its standard input."""
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next line of its standard output, which must be JSON."""
        line = self._output_lines.get(timeout=DEADLINE)
        assert line is not None, f"it ended; its errors were:\n{self.all_errors()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def close_input(self) -> None:
        """Go away, as an editor does."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def until_error(self, text: str) -> str:
        """Wait until a line with that text was written to standard error; returns the line."""
        while (line := self._error_lines.get(timeout=DEADLINE)) is not None:
            self.errors += line
            if text in line:
                return line
        raise AssertionError(f"it ended without {text!r}:\n{self.errors}")

    def all_errors(self) -> str:
        """Everything on standard error, once it has ended."""
        while (line := self._error_lines.get(timeout=DEADLINE)) is not None:
            self.errors += line
        return self.errors

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(DEADLINE)

    def read_to_the_end(self) -> None:
        """Wait until all that it wrote was read: only then may its pipes be closed."""
        for reader in self._readers:
            reader.join(DEADLINE)

    def rest_of_output(self) -> str:
        """What is left on standard output, once it has ended."""
        rest = ""
        while (line := self._output_lines.get(timeout=DEADLINE)) is not None:
            rest += line
        return rest


@contextmanager
def running(
    *arguments: str, cwd: Path, interpreter: str = sys.executable, env: Mapping[str, str] | None = None
) -> Generator[Running]:
    """Run `gaia-bridge` in a folder; it is killed in the end if it still runs.

    Args:
        arguments: Of its command line.
        cwd: The folder.
        interpreter: The Python that runs it.
        env: Variables besides those of this process.
    """
    process = subprocess.Popen(
        [interpreter, "-m", "gaia_bridge", *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
    )
    try:
        with process:
            bridge = Running(process)
            try:
                yield bridge
            finally:
                process.kill()
                bridge.read_to_the_end()
    except BrokenPipeError:  # what a test left unsent to a process that has gone
        pass


def _lines_of(stream: IO[str] | None) -> tuple[queue.SimpleQueue[str | None], threading.Thread]:
    """The lines of a stream, read as they come, and the thread that reads them; `None` is its end."""
    assert stream is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return lines, thread
