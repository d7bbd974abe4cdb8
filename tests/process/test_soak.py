"""The short form of `benchmarks/soak.py`: every answer is right, nobody waits, and nothing grows, tasks included."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
import httpx2
import psutil
import pytest

from benchmarks.soak import PATIENCE, PAUSE, STALL, Client
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import free_port
from tests.support.agents import one_tool
from tests.support.upstreams import until_ready

pytestmark = pytest.mark.anyio

ECHO: Final = Path(__file__).resolve().parents[2] / "benchmarks" / "echo_server.py"
TOOLS: Final = ("work", "old__echo", "new__echo", "far__echo")
CALLS: Final = 3_000
CLIENTS: Final = 6
"""At once; every other one speaks 2026-07-28."""
WARM: Final = CALLS // 4
GROWTH: Final = 16 * 1024 * 1024


@contextmanager
def echoing() -> Generator[str]:
    """The address of a server of 2026-07-28, in a process of its own."""
    port = free_port()
    server = subprocess.Popen([sys.executable, ECHO, "http", f"{port}", "modern"])
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(PATIENCE)


@asynccontextmanager
async def three_servers_and_an_agent() -> AsyncGenerator[str]:
    """The address of a bridge that publishes them on one endpoint."""
    specs: list[ServerSpec] = [
        StdioServerSpec("old", sys.executable, ("-S", str(ECHO))),
        StdioServerSpec("new", sys.executable, ("-S", str(ECHO), "modern")),
    ]
    sockets = bind("127.0.0.1", 0)
    own: int = sockets[0].getsockname()[1]
    with echoing() as far:
        async with Bridge() as bridge, anyio.create_task_group() as tasks:
            await bridge.add_agent(one_tool(lambda arguments: arguments["text"]), "agent")
            for spec in (*specs, HttpServerSpec("far", far)):
                await bridge.add_upstream(spec)
            await until_ready(*bridge.sources)
            server = HttpServer(bridge.asgi(AccessPolicy.for_address("127.0.0.1", own)), sockets=sockets)
            await tasks.start(server.run)
            yield f"http://127.0.0.1:{own}"
            server.stop()


def held() -> tuple[int, int, int, int]:
    """Bytes of memory, descriptors, threads and tasks of this process."""
    process = psutil.Process()
    return process.memory_info().rss, process.num_fds(), process.num_threads(), len(asyncio.all_tasks())


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.requirement("F-323")
async def test_thousands_of_calls_of_both_eras_are_answered_rightly_while_nobody_waits_and_nothing_grows() -> None:
    numbers, wrong = itertools.count(), list[str]()
    early, late = list[tuple[int, int, int, int]](), list[tuple[int, int, int, int]]()
    slowest = 0.0

    async def work(base: str, modern: bool) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            client = Client(http, f"{base}/mcp", modern=modern)
            await client.greet()
            while (number := next(numbers)) < CALLS:
                text, tool = f"call {number}", TOOLS[number % len(TOOLS)]
                answer: JSON = await client.request("tools/call", {"name": tool, "arguments": {"text": text}})
                if answer.get("result", {}).get("content") != [{"type": "text", "text": text}]:
                    wrong.append(f"{tool}: {answer}")
                if number == WARM:
                    early.append(held())

    async def watch(base: str) -> None:
        nonlocal slowest
        async with httpx2.AsyncClient(base_url=base, timeout=PATIENCE) as http:
            while True:
                began = anyio.current_time()
                (await http.get("/health")).raise_for_status()
                slowest = max(slowest, anyio.current_time() - began)
                await anyio.sleep(PAUSE)

    async with three_servers_and_an_agent() as base, anyio.create_task_group() as watching:
        watching.start_soon(watch, base)
        async with anyio.create_task_group() as tasks:
            for client in range(CLIENTS):
                tasks.start_soon(work, base, client % 2 == 1)
        late.append(held())
        watching.cancel_scope.cancel()
    assert wrong == []
    assert slowest < STALL
    [before], [after] = early, late
    grown = [then - now for then, now in zip(after, before, strict=True)]
    assert all(more <= most for more, most in zip(grown, (GROWTH, 8, 4, 4), strict=True)), (before, after)
