"""Agents of this process as servers: no child process, no socket, no JSON text."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.contract import AgentLike
from gaia_bridge.settings import AgentLimits, UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.outbound.transport import Link, Receiver, Transport

__all__ = ["AgentTransport"]


class AgentTransport(ConnectionTransport):
    """Reaches an agent in this process, which is published while the transport is connected.

    Args:
        name: What the agent is called here.
        agent: An object with `get_mcp_tool_definitions` and `execute_mcp_tool`.
        timeout: Seconds for each request.
        debug: Whether requests are logged at level DEBUG.
    """

    def __init__(self, name: str, agent: AgentLike, timeout: float = 30, debug: bool = False) -> None:
        super().__init__(name, timeout, debug)
        self.agent = agent

    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        return _PublishedWhileConnected(self.name, self.agent)


class _PublishedWhileConnected:
    """Implements `gaia_bridge.outbound.transport.Transport`."""

    def __init__(self, name: str, agent: AgentLike) -> None:
        self._name = name
        self._agent = agent

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Publish the agent, and open a link to it."""
        from gaia_bridge.inbound.agent_source import AgentSource
        from gaia_bridge.outbound.transports.local import LocalTransport

        source = AgentSource(self._agent, self._name, AgentLimits())
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            await tasks.start(source.run)
            async with LocalTransport(source).connect(receiver) as link:
                try:
                    yield link
                except Exception as error:  # raised again, not in the task group, which would wrap it
                    failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
