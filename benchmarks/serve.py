"""What serving costs: start, memory, and CPU time for each `tools/call`, on stdio and HTTP, in both eras.

    python benchmarks/serve.py [--calls 2000] [--repeat 3] [--json]

CPU time of the server process is what counts: wall time on a shared machine is noise. The client is this process and
is not counted. Each figure is the best of `--repeat` runs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

AGENT = f"{Path(__file__).parent / 'echo_agent.py'}:EchoAgent"
COMMAND = [sys.executable, "-m", "gaia_bridge", "serve", AGENT]
AIMS = {"stdio": 0.5, "http": 1.0}
"""CPU milliseconds for one call."""
MEMORY_AIM = 75.0
"""MiB."""
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}

Message = dict[str, Any]


class StdioServer:
    """A server over pipes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, message: Message) -> Message:
        """Send a request and return the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: Message = json.loads(self.process.stdout.readline())
        return answer

    def tell(self, message: Message) -> None:
        """Send a notification."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """End the server."""
        self.process.communicate(timeout=10)


class HttpServer:
    """A server over Streamable HTTP, on one connection."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr
        line = next(line for line in self.process.stderr if "http://127.0.0.1:" in line)
        port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._session: dict[str, str] = {}

    def ask(self, message: Message) -> Message:
        """Send a request and return the answer, from JSON or from an event stream."""
        response = self._post(message)
        body = response.read()
        if session := response.getheader("mcp-session-id"):
            self._session = {"mcp-session-id": session}
        if response.getheader("content-type", "").startswith("text/event-stream"):
            body = next(line[6:] for line in body.splitlines() if line.startswith(b"data: {"))
        answer: Message = json.loads(body)
        return answer

    def tell(self, message: Message) -> None:
        """Send a notification."""
        self._post(message).read()

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.communicate(timeout=20)

    def _post(self, message: Message) -> http.client.HTTPResponse:
        modern = META.keys() <= message.get("params", {}).get("_meta", {}).keys()
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        headers |= {"mcp-protocol-version": MODERN if modern else LEGACY} | ({} if modern else self._session)
        if modern:
            headers["mcp-method"] = message["method"]
            if "name" in message["params"]:
                headers["mcp-name"] = message["params"]["name"]
        self._connection.request("POST", "/mcp", json.dumps(message), headers)
        return self._connection.getresponse()


Server = StdioServer | HttpServer


@contextmanager
def running(make: Callable[[], Server]) -> Generator[tuple[Server, float]]:
    """A server, and when it was launched."""
    launched = time.perf_counter()
    server = make()
    try:
        yield server, launched
    finally:
        server.close()


def call(number: int, era: str) -> Message:
    """One `tools/call` request."""
    params: Message = {"name": "echo", "arguments": {"text": "hello"}}
    if era == MODERN:
        params["_meta"] = META
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def measure(make: Callable[[], Server], era: str, calls: int) -> dict[str, float]:
    """Start a server, call it, and return seconds to the first answer, MiB, and CPU milliseconds for one call."""
    with running(make) as (server, launched):
        if era == LEGACY:
            server.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
            server.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            answer = server.ask({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": META}})
            assert "result" in answer, answer
        first = time.perf_counter() - launched
        for number in range(1, 101):
            answer = server.ask(call(number, era))
            assert answer["result"]["structuredContent"] == {"text": "hello"}, answer
        process = psutil.Process(server.process.pid)
        before, started = sum(process.cpu_times()[:2]), time.perf_counter()
        for number in range(1_000, 1_000 + calls):
            server.ask(call(number, era))
        cpu, wall = sum(process.cpu_times()[:2]) - before, time.perf_counter() - started
        return {
            "first_answer_s": first,
            "rss_mib": process.memory_info().rss / 2**20,
            "cpu_ms_per_call": cpu / calls * 1_000,
            "wall_ms_per_call": wall / calls * 1_000,
        }


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure what serving costs.")
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for transport, make in (("stdio", StdioServer), ("http", HttpServer)):
        for era in (LEGACY, MODERN):
            runs = [measure(make, era, options.calls) for _ in range(options.repeat)]
            results[f"{transport} {era}"] = {key: min(run[key] for run in runs) for key in runs[0]}
    if options.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return
    rows = [f"{'':18}{'first answer':>14}{'RSS':>12}{'CPU/call':>12}{'wall/call':>12}{'aim':>10}"]
    for name, row in results.items():
        aim = AIMS[name.partition(" ")[0]]
        rows.append(
            f"{name:18}{row['first_answer_s']:12.2f} s{row['rss_mib']:8.1f} MiB{row['cpu_ms_per_call']:9.2f} ms"
            f"{row['wall_ms_per_call']:9.2f} ms{aim:7.1f} ms"
        )
    sys.stdout.write("\n".join([*rows, f"memory aim: {MEMORY_AIM:.0f} MiB"]) + "\n")


if __name__ == "__main__":
    main()
