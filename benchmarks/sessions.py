"""What a session of the handshake era costs, idle and when there is no room for more, and `/health` beside many.

    python -m benchmarks.sessions [--sessions 10000]

A bridge with a trivial agent in a process of its own; sessions are opened one after the other and left alone.
"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request
from typing import Final

import psutil

from benchmarks.echo_agent import EchoAgent
from benchmarks.load import LEGACY, HttpClient, free_port
from benchmarks.observed import HOST, Looked, asked, run, serving
from gaia_bridge.bridge import Bridge
from gaia_bridge.settings import HttpLimits, Settings

AIM_KIB: Final = 12.0
"""For one session."""
AIM_FULL: Final = 1.2
"""Times the cost of a session below the limit that one at the limit may have, which ends another one."""
WARM_UP: Final = 200
"""Sessions before anything is measured."""
SOME: Final = 1_000
"""Sessions whose CPU time is measured."""


async def fill(bridge: Bridge) -> None:
    """Add the agent."""
    await bridge.add_agent(EchoAgent(), "agent")


def look() -> Looked:
    """What the process has used."""
    process = psutil.Process()
    return {"KiB": process.memory_info().rss / 1024, "cpu_ms": time.process_time() * 1_000}


def open_sessions(port: int, count: int) -> None:
    """Open some; each has told that it is ready, and made one call."""
    for _ in range(count):
        client = HttpClient(LEGACY, "echo", port, "/mcp")
        client.greet()
        client.close()


def ask_health(port: int) -> float:
    """Seconds until `/health` was answered."""
    began = time.perf_counter()
    urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=30).close()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        run(options.serve, fill, look, Settings(http=HttpLimits(sessions=options.sessions + WARM_UP)))
        return
    port = free_port()
    words = ("--sessions", str(options.sessions), "--serve", str(port))
    with serving("benchmarks.sessions", *words) as process:
        open_sessions(port, WARM_UP)
        before, began = asked(process), time.perf_counter()
        open_sessions(port, options.sessions - SOME)
        below = asked(process)
        open_sessions(port, SOME)
        full, took = asked(process), time.perf_counter() - began
        open_sessions(port, SOME)
        beyond = asked(process)
        ask_health(port)  # the first time, a router is loaded
        health = ask_health(port)
    each = (full["KiB"] - before["KiB"]) / options.sessions
    costs = [(later["cpu_ms"] - earlier["cpu_ms"]) / SOME for earlier, later in ((below, full), (full, beyond))]
    sys.stdout.write(
        f"{options.sessions:,} sessions in {took:.1f} s, {each:.1f} KiB each (aim: {AIM_KIB:g}); "
        f"CPU of the last ones before the limit {costs[0]:.2f} ms, of those that take the place of others "
        f"{costs[1]:.2f} ms (aim: x {AIM_FULL:g}, is x {costs[1] / costs[0]:.2f}); "
        f"/health after {health * 1000:.1f} ms\n"
    )


if __name__ == "__main__":
    main()
