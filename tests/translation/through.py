"""A bridge between every kind of client and every kind of server."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import anyio
from msgspec.structs import replace

from gaia_bridge.client import Era
from gaia_bridge.config import fingerprint
from gaia_bridge.model import HttpServerSpec, NamingPolicy, ServerOptions, ServerSpec, StdioServerSpec, ToolSearchPolicy
from gaia_bridge.settings import AgentLimits, Settings, UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Remembered
from gaia_bridge.sources.upstream.listing.feature_lists import no_features
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import DEADLINE, Connect, Link, client_of, serving
from tests.interaction.everything_agent import EverythingAgent
from tests.support.configured import load_servers
from tests.support.on_demand import mcp, mcp_sse, mcp_streamable_http
from tests.support.upstreams import until_ready
from tests.translation.legacy_only import forget_discovery
from tests.translation.neighbours import add_neighbours, neighbour_servers, without_neighbours
from tests.translation.wiretap import Introduced
from tests.upstreams.servers import entry_of

__all__ = ["ThroughLink", "published", "stdio_bridge", "transport_to"]

NAME = "up"
# Questions are tried right after a cancellation, which a server may not have heard of: see `given_up_grace`.
QUICK = Settings(upstream=UpstreamLimits(announce_interval=0, refresh_interval=0, probe_timeout=20, given_up_grace=0))
AT_ONCE = ServerOptions(lazy=False)
PATHS: Final = {"http": "/mcp", "sse": "/sse"}
HERE: Final = Path(__file__).parent

_UPSTREAM: Final = """\
import sys
sys.path.insert(0, sys.argv[1])
from tests.translation.upstream_server import run
run(sys.argv[2])
"""

Reach = Callable[[], Any]
"""Makes one more transport of the official client."""


@dataclass(frozen=True)
class ThroughLink(Link):
    """A client's transport and era, and a server's; a bridge between them.

    Args:
        upstream: One of `TRANSPORTS`.
        upstream_era: One of `ERAS`.
        merged: Whether the client sees the server on one endpoint with an agent and a server of each era.
    """

    upstream: str = "http"
    upstream_era: str = "modern"
    merged: bool = False

    @property
    def alone(self) -> bool:
        """Whether the endpoint publishes the server alone."""
        return not self.merged

    def own(self, definitions: Sequence[JSON]) -> list[JSON]:
        """Those of the server, of what the endpoint lists."""
        if self.alone:
            return list(definitions)
        listed: list[JSON] = json.loads(json.dumps(definitions).replace(f"ui://{NAME}/", "ui://"))
        return without_neighbours(listed)

    def address(self, uri: str) -> str:
        """A URI of the server, which nothing else leads to: with its name where there are several."""
        return uri if self.alone else f"mcp://{NAME}/{uri}"

    @property
    def modern_throughout(self) -> bool:
        """Whether everything between the client and the agent speaks 2026-07-28."""
        return self.modern and self.upstream_era == "modern"

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Connect]:
        """The agent, served by one bridge and published again by another."""
        with anyio.fail_after(DEADLINE):
            async with self.reachable() as reach:
                yield lambda **options: client_of(reach(), self.era, **options)

    @asynccontextmanager
    async def reachable(self) -> AsyncGenerator[Reach]:
        """The same, for whoever wants to see the transport."""
        async with self.server() as spec:
            if self.transport == "stdio":
                async with stdio_bridge(spec, self.upstream_era, self.errors, self.searches) as reach:
                    yield reach
            else:
                async with AsyncExitStack() as stack:
                    near = await stack.enter_async_context(neighbour_servers()) if self.merged else None
                    yield await stack.enter_async_context(
                        published(spec, self.transport, self.upstream_era, near, searches=self.searches)
                    )

    @property
    def _options(self) -> ServerOptions:
        """Of the server. What is tried out as a modern one has both eras; a client of the other would not notice it."""
        return AT_ONCE if self.upstream_era == "legacy" else replace(AT_ONCE, era="2026-07-28")

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[ServerSpec]:
        """The agent as a server; over stdio each connection has a process of its own."""
        if self.upstream == "stdio":
            arguments = ("-c", _UPSTREAM, str(HERE.parents[1]), self.upstream_era)
            yield StdioServerSpec(NAME, sys.executable, arguments, options=self._options)
            return
        settings = Settings(agent=AgentLimits(definitions_max_age=0))
        async with serving({"everything": EverythingAgent()}, settings) as (url, bridge):
            if self.upstream_era == "legacy":
                forget_discovery(bridge)
            yield HttpServerSpec(NAME, url + PATHS[self.upstream], sse=self.upstream == "sse", options=self._options)


@asynccontextmanager
async def published(
    spec: ServerSpec,
    transport: str,
    era: str,
    near: Sequence[HttpServerSpec] | None = None,
    *,
    searches: bool = False,
) -> AsyncGenerator[Reach]:
    """A server, published by a bridge in this process.

    Args:
        spec: The server.
        transport: One of `HTTP_TRANSPORTS`.
        era: One of `ERAS`, which the bridge's connection to the server must turn out to have.
        near: Servers that are published on the same endpoint, with an agent; if `None`, the server has one for itself.
        searches: Whether clients are shown two tools that find and call the others.
    """
    search = ToolSearchPolicy.ALWAYS if searches else ToolSearchPolicy.AUTO
    async with serving({}, replace(QUICK, tool_search=search), NamingPolicy.BARE) as (url, bridge):
        if near is not None:
            await add_neighbours(bridge, near)
        await bridge.add_upstream(spec)
        servers = [source for source in bridge.sources if isinstance(source, Upstream)]
        for server in servers:
            await until_ready(server)
        assert (servers[-1].details["protocolVersion"] == "2026-07-28") == (era == "modern")
        endpoint = f"/servers/{spec.name}" if near is None else ""
        yield lambda: transport_to(f"{url}{endpoint}{PATHS[transport]}")


@asynccontextmanager
async def stdio_bridge(spec: ServerSpec, era: str, errors: TextIO, searches: bool = False) -> AsyncGenerator[Reach]:
    """`gaia-bridge serve --stdio` for a server: a process for each connection.

    Args:
        spec: The server.
        era: One of `ERAS`. The bridge remembers it from last time, so that the one of a server that is slow to start
            on a busy machine is not in doubt.
        errors: A file for the standard error of the processes.
        searches: Whether clients are shown two tools that find and call the others.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "servers.json"
        entry = {**entry_of(spec), "lazy": False, "era": spec.options.era}
        config.write_text(json.dumps({"mcpServers": {spec.name: entry}}), "utf-8")
        [loaded] = load_servers(config).servers
        remembered = Remembered(no_features(spec.name), Era(era))
        await FeatureCache(Path(folder) / ".gaia" / "cache").store(fingerprint(loaded), remembered)
        agent = f"{HERE / 'silent_agent.py'}:SilentAgent"
        command = ["-m", "gaia_bridge", "serve", "--stdio", "--names", "bare", "--config", str(config), agent]
        command += ["--tool-search", "always"] if searches else []
        parameters = mcp.StdioServerParameters(command=sys.executable, args=command, env={"HOME": folder})
        yield lambda: Introduced(mcp.stdio_client(parameters, errors), "prompts")


def transport_to(url: str) -> Any:
    """The official client's transport to a URL that ends in `/mcp` or `/sse`."""
    return mcp_sse.sse_client(url) if url.endswith("/sse") else mcp_streamable_http.streamable_http_client(url)
