"""One way to connect, whatever the transport and the era: what every test in this folder runs on."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.contract import AgentLike
from gaia_bridge.model import NamingPolicy, ToolSearchPolicy
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.interaction.everything_agent import EverythingAgent
from tests.support.on_demand import mcp, mcp_sse

__all__ = ["AGENT_FILE", "DEADLINE", "ERAS", "HTTP_TRANSPORTS", "TRANSPORTS", "Connect", "Link", "client_of", "serving"]

DEADLINE: Final = 20.0
"""Seconds for everything that one test does; only a broken bridge needs them."""
HTTP_TRANSPORTS: Final = ("sse", "http")
TRANSPORTS: Final = ("stdio", *HTTP_TRANSPORTS)
ERAS: Final = ("modern", "legacy")
HOST: Final = "127.0.0.1"
AGENT_FILE: Final = Path(__file__).with_name("everything_agent.py")
_MODES: Final = {"modern": "auto", "legacy": "legacy"}


class Connect(Protocol):
    """Opens one more connection to a server that runs."""

    def __call__(self, **options: Any) -> AbstractAsyncContextManager[mcp.Client]:
        """A connected client of the official kind, made with these options."""
        ...


@dataclass(frozen=True)
class Link:
    """A transport and an era.

    Args:
        transport: One of `TRANSPORTS`.
        era: One of `ERAS`.
        errors: A file for the standard error of server processes, open for reading too.
        searches: Whether clients are shown two tools that find and call the others.
    """

    transport: str
    era: str
    errors: TextIO = sys.stderr
    searches: bool = field(default=False, kw_only=True)

    @property
    def modern(self) -> bool:
        """Whether the client speaks 2026-07-28."""
        return self.era == "modern"

    @property
    def modern_throughout(self) -> bool:
        """Whether everything between the client and the agent speaks 2026-07-28."""
        return self.modern

    @property
    def alone(self) -> bool:
        """Whether the endpoint publishes the agent alone, and so speaks for it."""
        return True

    def own(self, definitions: Sequence[JSON]) -> list[JSON]:
        """Those of the agent, of what the endpoint lists."""
        return list(definitions)

    def address(self, uri: str) -> str:
        """What to say for a URI of the agent that it neither lists nor has a template for."""
        return uri

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Connect]:
        """The agent, served until the end. Over stdio each connection has a server process of its own."""
        with anyio.fail_after(DEADLINE):
            if self.transport == "stdio":
                yield lambda **options: client_of(self._stdio(), self.era, **options)
                return
            search = ToolSearchPolicy.ALWAYS if self.searches else ToolSearchPolicy.AUTO
            settings = Settings(agent=AgentLimits(definitions_max_age=0), tool_search=search)  # lists are read anew
            async with serving({"everything": EverythingAgent()}, settings) as (url, _):
                path = "/mcp" if self.transport == "http" else "/sse"
                yield lambda **options: client_of(url + path, self.era, **options)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[mcp.Client]:
        """The agent served, and one client connected to it.

        Args:
            options: Options of the client: callbacks.
        """
        async with self.serving() as connect, connect(**options) as client:
            yield client

    def take_errors(self) -> str:
        """What the server processes that have ended wrote to standard error; it is forgotten."""
        self.errors.seek(0)
        said = self.errors.read()
        self.errors.seek(0)
        self.errors.truncate()
        return said

    def _stdio(self) -> Any:
        command = ["-m", "gaia_bridge", "serve", f"{AGENT_FILE}:EverythingAgent", "--stdio"]
        command += ["--tool-search", "always"] if self.searches else []
        return mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=command), self.errors)


@asynccontextmanager
async def client_of(target: Any, era: str, **options: Any) -> AsyncGenerator[mcp.Client]:
    """A connected client.

    Args:
        target: A URL that ends in `/mcp` or `/sse`, or a transport.
        era: One of `ERAS`, which the connection must turn out to have.
        options: Options of the client.
    """
    transport = mcp_sse.sse_client(target) if isinstance(target, str) and target.endswith("/sse") else target
    async with mcp.Client(transport, mode=_MODES[era], cache=None, **options) as client:
        assert client.protocol_version == {"modern": "2026-07-28", "legacy": "2025-11-25"}[era]
        yield client


@asynccontextmanager
async def serving(
    agents: Mapping[str, AgentLike], settings: Settings | None = None, names: NamingPolicy = NamingPolicy.DEFAULT
) -> AsyncGenerator[tuple[str, Bridge]]:
    """A bridge in this process behind the real HTTP server; its URL and itself.

    Args:
        agents: What it publishes, by name.
        settings: Its limits.
        names: How it names tools where it publishes several.
    """
    async with Bridge(settings=settings, names=names) as bridge, anyio.create_task_group() as tasks:
        for name, agent in agents.items():
            await bridge.add_agent(agent, name)
        sockets = bind(HOST, 0)
        port: int = sockets[0].getsockname()[1]
        app = bridge.asgi(AccessPolicy.for_address(HOST, port))
        server = HttpServer(app, sockets=sockets, limits=bridge.settings.http, on_shutdown=[bridge.close_streams])
        await tasks.start(server.run)
        yield f"http://{HOST}:{port}", bridge
        server.stop()
