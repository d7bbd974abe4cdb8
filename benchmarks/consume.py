"""What using other servers costs: a call through the client API, and a start with fifty servers, many of them broken.

    python benchmarks/consume.py [--calls 3000] [--repeat 3] [--json]

The overhead of a call is its wall time less that of the same call over a bare pipe or socket, medians, best of
`--repeat` runs; the server is one that does next to nothing (`echo_server.py`, or `echo_agent.py` behind
`gaia-bridge serve` for HTTP).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from gaia.mcp import MCPClient

HERE = Path(__file__).parent
ECHO = [sys.executable, "-S", str(HERE / "echo_server.py")]
ARGUMENTS = {"text": "hello"}
OVERHEAD_AIM = 1.0
"""Milliseconds of a synchronous call over stdio."""
START_AIM = 1.0
"""Seconds until `serve` answers with fifty servers, of which ten hang and ten are missing."""

Call = Callable[[], object]


@contextmanager
def bare_pipe() -> Generator[Call]:
    """The call without anybody's client: a line out, a line in."""
    process = subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": ARGUMENTS}}
    stdin, stdout = process.stdin, process.stdout

    def call() -> object:
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()
        return json.loads(stdout.readline())["result"]

    yield call
    process.communicate(timeout=10)


@contextmanager
def client(config: dict[str, object]) -> Generator[Call]:
    """The call through the synchronous client of the specification."""
    with MCPClient.from_config("echo", config) as connected:
        yield lambda: connected.call_tool("echo", ARGUMENTS)


class EchoAgent:
    """The same as an agent of this process."""

    def get_mcp_tool_definitions(self) -> list[dict[str, object]]:
        """One tool."""
        return [{"name": "echo", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, object]) -> object:
        """Echo."""
        return arguments


def median(make: Callable[[], AbstractContextManager[Call]], calls: int) -> float:
    """Milliseconds of one call."""
    times: list[float] = []
    with make() as call:
        for _ in range(200):
            call()
        for _ in range(calls):
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
    return statistics.median(times) * 1_000


def start_with_many() -> float:
    """Seconds until a bridge answers with fifty servers."""
    servers: dict[str, object] = {}
    for number in range(30):
        servers[f"good{number}"] = {"command": ECHO[0], "args": ECHO[1:]}
    for number in range(10):
        servers[f"hangs{number}"] = {"command": ECHO[0], "args": [*ECHO[1:], "hang"]}
        servers[f"missing{number}"] = {"command": f"no-such-program-{number}"}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcp_servers.json"
        config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        command = [sys.executable, "-m", "gaia_bridge", "serve", str(HERE / "echo_agent.py"), "--config", str(config)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--port", "0"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        )
        try:
            assert process.stderr
            line = next(line for line in process.stderr if "http://127.0.0.1:" in line)
            port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
            while True:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/health") as response:
                        response.read()
                    return time.perf_counter() - started
                except URLError:
                    continue
        finally:
            process.terminate()
            process.communicate(timeout=30)


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure what using other servers costs.")
    parser.add_argument("--calls", type=int, default=3_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    def best(make: Callable[[], AbstractContextManager[Call]]) -> float:
        return min(median(make, options.calls) for _ in range(options.repeat))

    pipe = best(bare_pipe)
    results = {
        "bare_pipe_ms": pipe,
        "stdio_overhead_ms": best(lambda: client({"command": ECHO[0], "args": ECHO[1:]})) - pipe,
        "agent_in_process_ms": best(lambda: client({"agent": EchoAgent()})),
        "start_with_50_servers_s": min(start_with_many() for _ in range(options.repeat)),
    }
    if options.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return
    aims = {"stdio_overhead_ms": OVERHEAD_AIM, "start_with_50_servers_s": START_AIM}
    for name, value in results.items():
        aim = f"  (aim: under {aims[name]:g})" if name in aims else ""
        sys.stdout.write(f"{name:28}{value:8.3f}{aim}\n")


if __name__ == "__main__":
    main()
