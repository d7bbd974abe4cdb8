"""How long the event loop of a bridge is held, when nobody else is served: large results, many servers, many calls.

    python -m benchmarks.loop [--servers 1000] [--calls 1000] [--repeat 5]

CPU milliseconds of the loop's thread: those of one request, and those of the longest turn of the loop. Of several runs,
the least counts, since a busy machine only adds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import anyio

from benchmarks.in_flight import Crowd
from benchmarks.load import LEGACY, HttpClient, free_port, message
from benchmarks.observed import Loop, asked, run, serving
from benchmarks.relay import running
from benchmarks.subjects import BRIDGE, ECHO_SERVER
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import HttpServerSpec, StdioServerSpec

ROWS: Final = (1_000, 10_000, 100_000)
"""Of a structured result."""
AIM_TURN: Final = 50.0
"""Milliseconds for which the loop may be held; twice as much with a thousand calls at once."""
STARTED: Final = 120
"""Seconds for all servers to come up."""

Cost = tuple[float, float, float]
"""Milliseconds for one request, and of the longest turn: in the best run, and in the worst."""


def serve(port: int, servers: int, far: int) -> None:
    """Serve one server over stdio, or many over HTTP, which all are the same one.

    Args:
        port: Where.
        servers: How many.
        far: The port of the server over HTTP.
    """

    loops: list[Loop] = []

    async def fill(bridge: Bridge) -> None:
        loops.append(Loop())
        if servers == 1:
            await bridge.add_upstream(StdioServerSpec("far", sys.executable, ("-S", str(ECHO_SERVER))))
            return
        async with anyio.create_task_group() as tasks:
            for number in range(servers):
                tasks.start_soon(bridge.add_upstream, HttpServerSpec(f"s{number}", f"http://127.0.0.1:{far}/mcp"))

    run(port, fill, lambda: loops[0].look())


@contextmanager
def bridged(servers: int, far: int = 0) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A bridge in a process of its own, and its port."""
    port = free_port()
    words = ("--serve", str(port), "--servers", str(servers), "--far", str(far))
    with serving("benchmarks.loop", *words) as process:
        yield process, port


def least(process: subprocess.Popen[str], repeat: int, work: Callable[[], int]) -> Cost:
    """The least cost of some work, which says how many requests it has made."""
    costs: list[tuple[float, float]] = []
    work()
    for _ in range(repeat):
        before = asked(process)["cpu_ms"]
        number = work()
        after = asked(process)
        costs.append(((after["cpu_ms"] - before) / number, after["held_ms"]))
    held = [turn for _, turn in costs]
    return min(cost for cost, _ in costs), min(held), max(held)


def results(repeat: int) -> Generator[tuple[str, Cost]]:
    """Structured results."""
    with bridged(1) as (process, port):
        for rows in ROWS:
            client = HttpClient(LEGACY, "far__echo", port, "/mcp", rows=rows)
            client.greet()
            size = len(client.ask(client.next_request(), "tools/call"))

            def call(client: HttpClient = client) -> int:
                client.call()
                return 1

            yield f"rows {rows:,}: {size / 1_000:,.0f} KB", least(process, repeat, call)
            client.close()


def lists(repeat: int, servers: int) -> Generator[tuple[str, Cost]]:
    """The list of the tools of many servers, which is the same each time."""
    far = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ECHO_SERVER), "http", str(far)]
        with running(command, Path(folder)), bridged(servers, far) as (process, port):
            asked(process)  # which is answered when all are added
            client = HttpClient(LEGACY, f"s{servers - 1}__echo", port, "/mcp")
            client.greet()
            request = message("tools/list", {})

            def ask() -> int:
                return client.ask(request, "tools/list").count(b'__echo"') // servers

            deadline = time.monotonic() + STARTED
            while not ask():
                if time.monotonic() > deadline:
                    raise TimeoutError("some servers have not come up")
            yield f"list of {servers:,} servers", least(process, repeat, ask)
            client.close()


def crowds(repeat: int, count: int) -> Generator[tuple[str, Cost]]:
    """Many calls at once."""
    [subject] = [each for each in BRIDGE if each.way == "HTTP -> stdio" and each.era == LEGACY]
    for delay in (0, 100):
        with bridged(1) as (process, port), ExitStack() as stack:
            crowd = Crowd(subject, port, delay, count, stack)

            def call(crowd: Crowd = crowd) -> int:
                return len(crowd.call(2 * count))

            yield f"{count:,} calls at once, of {delay} ms", least(process, repeat, call)


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=1_000, help="at once")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--far", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.servers, options.far)
        return
    sys.stdout.write(f"| | one request | longest turn (aim: {AIM_TURN:g} ms) | in the worst run |\n|---|---|---|---|\n")
    measured = results(options.repeat), lists(options.repeat, options.servers), crowds(options.repeat, options.calls)
    for name, (cost, least_held, most_held) in chain(*measured):
        sys.stdout.write(f"| {name} | {cost:.2f} ms | {least_held:.1f} ms | {most_held:.1f} ms |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
