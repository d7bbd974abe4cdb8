"""The same server behind every transport that there is."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from gaia_bridge.bridge.chaining.agent_transport import AgentTransport
from gaia_bridge.client import ClientDelegate, Connection, Era, connect
from gaia_bridge.client.transport import Transport
from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.client.transports.http.sse import SseTransport
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec, StdioServerSpec
from gaia_bridge.settings import AgentLimits, Settings, UpstreamLimits
from gaia_bridge.sources.agent.source import AgentSource
from tests.interaction.connecting import AGENT_FILE, serving
from tests.interaction.everything_agent import EverythingAgent
from tests.support.upstreams import PATIENT

__all__ = ["TRANSPORTS", "Place"]

DEADLINE: Final = 20.0
"""Seconds for everything that one test does; nothing takes that long unless it is broken."""

NEVER_OLD: Final = AgentLimits(definitions_max_age=0)
"""Every list is read anew."""

Opening = Callable[[UpstreamLimits], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def local(limits: UpstreamLimits) -> AsyncGenerator[Transport]:
    """The agent itself."""
    async with anyio.create_task_group() as tasks:
        source = AgentSource(EverythingAgent(), "everything", NEVER_OLD)
        await tasks.start(source.run)
        yield AgentTransport(source)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def streamable_http(limits: UpstreamLimits) -> AsyncGenerator[Transport]:
    """The agent published over Streamable HTTP by the bridge, which is a server of the SDK."""
    async with serving({"everything": EverythingAgent()}, Settings(agent=NEVER_OLD)) as (url, _):
        yield StreamableHttpTransport(HttpServerSpec("everything", f"{url}/mcp"), limits)


@asynccontextmanager
async def sse(limits: UpstreamLimits) -> AsyncGenerator[Transport]:
    """The agent published over HTTP+SSE."""
    async with serving({"everything": EverythingAgent()}, Settings(agent=NEVER_OLD)) as (url, _):
        yield SseTransport(HttpServerSpec("everything", f"{url}/sse", sse=True), limits)


@asynccontextmanager
async def stdio(limits: UpstreamLimits) -> AsyncGenerator[Transport]:
    """The agent published by a bridge that is a child process."""
    command = ("-m", "gaia_bridge", "serve", f"{AGENT_FILE}:EverythingAgent", "--stdio")
    yield StdioTransport(StdioServerSpec("everything", sys.executable, command), limits)


TRANSPORTS: Final[dict[str, Opening]] = {"local": local, "stdio": stdio, "http": streamable_http, "sse": sse}
"""For each transport, an `EverythingAgent` that runs behind it."""


@dataclass(frozen=True)
class Place:
    """A transport and an era.

    Args:
        transport: A key of `TRANSPORTS`.
        era: Which era to speak.
    """

    transport: str
    era: Era

    @property
    def modern(self) -> bool:
        """Whether it is 2026-07-28."""
        return self.era is Era.MODERN

    @asynccontextmanager
    async def connected(
        self, delegate: ClientDelegate | None = None, limits: UpstreamLimits | None = None
    ) -> AsyncGenerator[Connection]:
        """A connection to an `EverythingAgent`. A modern one is found by the probe."""
        limits = limits or PATIENT
        known = None if self.modern else self.era
        with anyio.fail_after(DEADLINE):
            async with TRANSPORTS[self.transport](limits) as transport:
                async with connect(transport, delegate or ClientDelegate(), limits, era=known) as connection:
                    assert connection.handshake.era is self.era
                    yield connection
