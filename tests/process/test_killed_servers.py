"""Servers over HTTP that are killed with calls in flight, and come back at the same address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Literal

import anyio
import httpx2
import pytest

from benchmarks.soak import PATIENCE, Client
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import HttpServerSpec, ServerOptions
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import free_port
from tests.support.agents import one_tool
from tests.support.upstreams import until_ready

pytestmark = pytest.mark.anyio

ROOT: Final = Path(__file__).resolve().parents[2]
CALLS: Final = 20


class Mortal:
    """A server that can be killed and started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "tests.servers.mortal_http", f"{self.port}"], cwd=ROOT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def mortal() -> Generator[Mortal]:
    server = Mortal()
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def between(spec: HttpServerSpec) -> AsyncGenerator[str]:
    """The address of a bridge that publishes the server and an agent."""
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    async with Bridge() as bridge, anyio.create_task_group() as tasks:
        await bridge.add_agent(one_tool(lambda _: "calm"), "agent")
        await bridge.add_upstream(spec)
        await until_ready(*bridge.sources)
        server = HttpServer(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)), sockets=sockets)
        await tasks.start(server.run)
        yield f"http://127.0.0.1:{port}/mcp"
        server.stop()


@pytest.mark.thorough
@pytest.mark.timeout(120)
@pytest.mark.requirement("F-324")
@pytest.mark.parametrize("modern", [False, True], ids=["handshake client", "2026-07-28 client"])
@pytest.mark.parametrize(("path", "era"), [("mcp/", "handshake"), ("mcp/", "2026-07-28"), ("sse", "handshake")])
async def test_every_call_that_was_in_flight_is_told_what_happened_and_the_next_one_works(
    path: str, era: Literal["handshake", "2026-07-28"], modern: bool
) -> None:
    answers: list[JSON] = []
    with mortal() as server:
        options = ServerOptions(lazy=False, era=era)
        spec = HttpServerSpec("up", f"http://127.0.0.1:{server.port}/{path}", sse=path == "sse", options=options)
        async with between(spec) as url, httpx2.AsyncClient(timeout=PATIENCE) as http:
            client = Client(http, url, modern=modern)
            await client.greet()

            async def call(tool: str, **arguments: float) -> JSON:
                with anyio.fail_after(PATIENCE):
                    return await client.request("tools/call", {"name": tool, "arguments": arguments})

            async def hang() -> None:
                answers.append(await call("up__wait", seconds=3_600))

            assert "waited" in str(await call("up__wait", seconds=0))
            async with anyio.create_task_group() as tasks:
                for _ in range(CALLS):
                    tasks.start_soon(hang)
                assert "calm" in str(await call("work"))
                server.kill()
            server.start()
            for answer in answers:
                assert answer["result"]["isError"], answer
                assert "upstream 'up'" in answer["result"]["content"][0]["text"], answer
            assert len(answers) == CALLS
            with anyio.fail_after(PATIENCE):
                while "waited" not in str(await call("up__wait", seconds=0)):  # it says by itself when to come again
                    await anyio.lowlevel.checkpoint()
