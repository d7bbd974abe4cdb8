"""A bridge between every kind of client and every kind of server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp_types import METHOD_NOT_FOUND

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import HttpServerSpec, SourceState
from gaia_bridge.settings import AgentLimits, Settings, UpstreamLimits
from tests.interaction.connecting import DEADLINE, Connect, Link, client_of, serving
from tests.interaction.everything_agent import EverythingAgent
from tests.outbound_helpers import until

__all__ = ["ThroughLink", "forget_discovery"]

NAME = "up"
QUICK = Settings(upstream=UpstreamLimits(announce_interval=0, refresh_interval=0))


@dataclass(frozen=True)
class ThroughLink(Link):
    """A client's transport and era, and a server's; a bridge between them.

    Args:
        upstream: One of `HTTP_TRANSPORTS`.
        upstream_era: One of `ERAS`.
    """

    upstream: str = "http"
    upstream_era: str = "modern"

    @property
    def modern_throughout(self) -> bool:
        """Whether everything between the client and the agent speaks 2026-07-28."""
        return self.modern and self.upstream_era == "modern"

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Connect]:
        """The agent, served by one bridge and published again by another."""
        with anyio.fail_after(DEADLINE):
            inner_settings = Settings(agent=AgentLimits(definitions_max_age=0))
            async with (
                serving({"everything": EverythingAgent()}, inner_settings) as (inner_url, inner),
                serving({}, QUICK) as (url, bridge),
            ):
                if self.upstream_era == "legacy":
                    forget_discovery(inner)
                await bridge.add_upstream(
                    HttpServerSpec(NAME, inner_url + _PATHS[self.upstream], sse=self.upstream == "sse")
                )
                [source] = bridge.sources
                await until(lambda: source.status.state is SourceState.READY)
                target = f"{url}/servers/{NAME}{_PATHS[self.transport]}"
                yield lambda **options: client_of(target, self.era, **options)


_PATHS = {"http": "/mcp", "sse": "/sse"}


def forget_discovery(bridge: Bridge) -> None:
    """Make a bridge one of before 2026-07-28, which nothing but the handshake introduces."""

    async def refuse(ctx: Any, call_next: CallNext) -> HandlerResult:
        if ctx.method == "server/discover":
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        return await call_next(ctx)

    for endpoint in bridge._endpoints.values():  # pyright: ignore[reportPrivateUsage]
        endpoint.endpoint.server.middleware.insert(0, refuse)
