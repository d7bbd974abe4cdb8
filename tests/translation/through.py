"""A bridge between every kind of client and every kind of server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from mcp_types import METHOD_NOT_FOUND

from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec, SourceState
from gaia_bridge.outbound.reaching import transport_for
from gaia_bridge.outbound.transport import Link as UpstreamLink
from gaia_bridge.outbound.transport import Receiver, Transport
from gaia_bridge.outbound.upstream import Upstream
from gaia_bridge.settings import AgentLimits, Settings, UpstreamLimits
from tests.interaction.connecting import AGENT_FILE, DEADLINE, Connect, Link, client_of, serving
from tests.interaction.everything_agent import EverythingAgent
from tests.outbound_helpers import until

__all__ = ["ThroughLink"]

_NAME = "up"


class OldServer:
    """A way to a server that does not know `server/discover`, as before 2026-07-28."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[UpstreamLink]:
        async with self._transport.connect(receiver) as link:
            yield _OldLink(link)


class _OldLink:
    def __init__(self, link: UpstreamLink) -> None:
        self._link = link
        self.notify = link.notify
        self.agree = link.agree

    @property
    def last_words(self) -> str:
        return self._link.last_words

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        if message["method"] == "server/discover":
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return await self._link.request(message, headers)


@dataclass(frozen=True)
class ThroughLink(Link):
    """A client's transport and era, and a server's.

    Args:
        upstream: One of `TRANSPORTS`.
        upstream_era: One of `ERAS`.
    """

    upstream: str = "http"
    upstream_era: str = "modern"

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Connect]:
        """The agent, served by one bridge and published again by another."""
        with anyio.fail_after(DEADLINE):
            inner = Settings(agent=AgentLimits(definitions_max_age=0))
            async with serving({"everything": EverythingAgent()}, inner) as (inner_url, _):
                settings = Settings(upstream=UpstreamLimits(announce_interval=0, refresh_interval=0))
                async with serving({}, settings) as (url, bridge):
                    spec = HttpServerSpec(_NAME, inner_url + ("/sse" if self.upstream == "sse" else "/mcp"), sse=self.upstream == "sse")
                    transport: Transport = transport_for(spec, settings.upstream)
                    await bridge.add_upstream(spec, transport if self.upstream_era == "modern" else OldServer(transport))
                    [source] = bridge.sources
                    await until(lambda: source.status.state is SourceState.READY)
                    path = f"/servers/{_NAME}/{'mcp' if self.transport == 'http' else 'sse'}"
                    yield lambda **options: client_of(url + path, self.era, **options)
