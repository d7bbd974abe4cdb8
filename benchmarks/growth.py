"""Whether anything grows: memory, descriptors, threads and tasks after many calls and sessions, and after few.

    python -m benchmarks.growth [--calls 100000] [--sessions 5000]

One endpoint of three sources, an agent and a server of each era, in a process of its own. Clients of both eras call all
of them; sessions are opened and left, as editors that crash do, until they give way to new ones.

Exit status: 0 nothing has grown; 1 something has.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import threading
from typing import Final

import psutil

from benchmarks.echo_agent import EchoAgent
from benchmarks.load import LEGACY, MODERN, HttpClient, free_port
from benchmarks.observed import Looked, asked, run, serving
from benchmarks.subjects import ECHO_SERVER
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import HttpLimits, Settings

FEW: Final = 1_000
"""Calls, and sessions, before the first look."""
KEPT: Final = 500
"""Sessions that may be open."""
GROWTH_MIB: Final = 2.0
"""Of memory that is not given back to the system, whatever a program does."""
TOOLS: Final = ("echo", "old__echo", "new__echo")


async def fill(bridge: Bridge) -> None:
    """Add an agent, and a server of each era."""
    await bridge.add_agent(EchoAgent(), "near")
    for name, era in (("old", []), ("new", ["modern"])):
        await bridge.add_upstream(StdioServerSpec(name, sys.executable, ("-S", str(ECHO_SERVER), *era)))


def look() -> Looked:
    """What this process has."""
    gc.collect()
    process = psutil.Process()
    return {
        "MiB": process.memory_info().rss / 1024**2,
        "descriptors": process.num_fds(),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "objects": len(gc.get_objects()),
    }


def call(port: int, calls: int) -> None:
    """Call every tool in each era, that often in all."""
    kinds = [(era, tool) for era in (LEGACY, MODERN) for tool in TOOLS]
    for era, tool in kinds:
        client = HttpClient(era, tool, port, "/mcp")
        client.greet()
        for _ in range(calls // len(kinds)):
            client.call()
        client.close()


def open_sessions(port: int, count: int) -> None:
    """Open some, with a call of each, and leave them."""
    for number in range(count):
        client = HttpClient(LEGACY, TOOLS[number % len(TOOLS)], port, "/mcp")
        client.greet()
        client.close()


def main() -> None:
    """Call, look, and exit with the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        run(options.serve, fill, look, Settings(http=HttpLimits(sessions=KEPT)))
        return
    port = free_port()
    with serving("benchmarks.growth", "--serve", str(port)) as process:
        call(port, FEW)
        open_sessions(port, FEW)
        before = asked(process)
        call(port, options.calls)
        open_sessions(port, options.sessions)
        after = asked(process)
    grown = after["MiB"] - before["MiB"] > GROWTH_MIB or any(
        after[kind] > before[kind] for kind in ("descriptors", "threads", "tasks")
    )
    for said, found in ((f"{FEW:,} calls, {FEW:,} sessions", before), ("and many more", after)):
        sys.stdout.write(f"{said}: " + ", ".join(f"{value:,.5g} {kind}" for kind, value in found.items()) + "\n")
    sys.stdout.write(
        f"{options.calls:,} calls and {options.sessions:,} sessions: {'GROWN' if grown else 'nothing grew'}\n"
    )
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
