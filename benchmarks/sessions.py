"""What an idle session of the handshake era costs, and how quickly `/health` is answered beside many.

    python -m benchmarks.sessions [--sessions 10000]

A bridge with a trivial agent in a process of its own; sessions are opened one after the other and left alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
import psutil

from benchmarks.echo_agent import EchoAgent
from benchmarks.load import LEGACY, HttpClient, free_port
from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import HttpLimits, Settings

AIM_KIB: Final = 12.0
"""For one session."""
WARM_UP: Final = 200
"""Sessions before anything is measured."""
HOST: Final = "127.0.0.1"


async def serve(port: int, sessions: int) -> None:
    """Serve the agent until ended.

    Args:
        port: Where.
        sessions: How many may be open.
    """
    sockets = bind(HOST, port)
    async with Bridge(settings=Settings(http=HttpLimits(sessions=sessions))) as bridge:
        await bridge.add_agent(EchoAgent(), "agent")
        await HttpServer(bridge.asgi(AccessPolicy.for_address(HOST, port)), sockets=sockets).run()


@contextmanager
def serving(port: int, sessions: int) -> Generator[psutil.Process]:
    """The server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sessions", "--sessions", str(sessions), "--serve", str(port)]
    with subprocess.Popen(command) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


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
        anyio.run(serve, options.serve, options.sessions, backend_options={"use_uvloop": True})
        return
    port = free_port()
    with serving(port, options.sessions + 2 * WARM_UP) as process:
        open_sessions(port, WARM_UP)
        before, began = process.memory_info().rss, time.perf_counter()
        open_sessions(port, options.sessions)
        took = time.perf_counter() - began
        each = (process.memory_info().rss - before) / 1024 / options.sessions
        ask_health(port)  # the first time, a router is loaded
        health = ask_health(port)
    sys.stdout.write(
        f"{options.sessions:,} sessions in {took:.1f} s, {each:.1f} KiB each (aim: {AIM_KIB:g}); "
        f"/health after {health * 1000:.1f} ms\n"
    )


if __name__ == "__main__":
    main()
