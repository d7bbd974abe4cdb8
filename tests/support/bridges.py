"""Bridges that run for the length of one test, and what their clients say."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import NamingPolicy
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import Settings
from tests.support.memory_transport import in_memory
from tests.support.on_demand import mcp, mcp_types
from tests.support.waiting import PATIENCE

__all__ = [
    "RunningBridge",
    "both_eras",
    "ping",
    "running_bridge",
    "set_level",
    "subscribe",
    "text_of",
    "unsubscribe",
]

both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""Run a test with a 2026-07-28 client and with one of the handshake revisions."""


class RunningBridge:
    """A bridge under test, and the in-process clients of its endpoints.

    Args:
        bridge: The bridge, entered.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge

    def endpoint(self, path: str = "") -> Dispatcher:
        """The endpoint of everything, or of one source: `agents/name`."""
        group, _, name = path.partition("/")
        return self.bridge._endpoints[group, name].dispatcher  # pyright: ignore[reportPrivateUsage]

    def client(self, mode: str = "auto", path: str = "", **options: Any) -> mcp.Client:
        """A client, to be entered: `auto` speaks 2026-07-28, `legacy` performs the handshake."""
        return mcp.Client(in_memory(self.endpoint(path)), mode=mode, cache=None, **options)


@asynccontextmanager
async def running_bridge(
    *agents: Any,
    settings: Settings | None = None,
    names: NamingPolicy = NamingPolicy.DEFAULT,
    named: Mapping[str, Any] | None = None,
) -> AsyncGenerator[RunningBridge]:
    """A bridge that publishes agents, until the end of the block.

    Args:
        agents: Published under names derived from their position: `a0`, `a1`.
        settings: Limits of the bridge.
        names: Its naming policy.
        named: Further agents, by the names they are published under.
    """
    async with Bridge(settings=settings, names=names) as bridge:
        for number, agent in enumerate(agents):
            await bridge.add_agent(agent, f"a{number}")
        for name, agent in (named or {}).items():
            await bridge.add_agent(agent, name)
        with anyio.fail_after(PATIENCE * 2):
            yield RunningBridge(bridge)


async def ping(client: mcp.Client) -> None:
    """Ask whether the server is there, as only legacy clients do."""
    await client.session.send_request(mcp_types.PingRequest(), mcp_types.EmptyResult)


async def subscribe(client: mcp.Client, uri: str) -> None:
    """Ask a legacy client's server to be told of updates of a resource."""
    await client.session.send_request(
        mcp_types.SubscribeRequest(params=mcp_types.SubscribeRequestParams(uri=uri)), mcp_types.EmptyResult
    )


async def unsubscribe(client: mcp.Client, uri: str) -> None:
    """Ask a legacy client's server not to be told any more."""
    await client.session.send_request(
        mcp_types.UnsubscribeRequest(params=mcp_types.UnsubscribeRequestParams(uri=uri)), mcp_types.EmptyResult
    )


async def set_level(client: mcp.Client, level: mcp_types.LoggingLevel) -> None:
    """Ask a legacy client's server for log messages of a level and above."""
    await client.session.send_request(
        mcp_types.SetLevelRequest(params=mcp_types.SetLevelRequestParams(level=level)), mcp_types.EmptyResult
    )


def text_of(result: mcp_types.CallToolResult) -> str:
    """The text of a result that is one block of text."""
    [block] = result.content
    assert isinstance(block, mcp_types.TextContent)
    return block.text
