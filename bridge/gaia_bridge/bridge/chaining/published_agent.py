"""An agent as a server: published for as long as it is connected to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from gaia_bridge.bridge.chaining.agent_transport import AgentTransport
from gaia_bridge.client.transport import Link, Receiver, UpstreamError
from gaia_bridge.contract import AgentLike, Publishable
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from gaia_bridge.sources.agent.source import AgentSource


def agent_named(name: str) -> AgentLike:
    """The agent of this process that is published under a name.

    Raises:
        UpstreamError: There is none.
    """
    agent = LOCAL_AGENTS.get(name)
    if agent is None:
        raise UpstreamError(f"cannot be reached: {LOCAL_AGENTS.missing(name)}")
    return agent


class PublishedAgent:
    """Implements `gaia_bridge.client.transport.Transport`.

    Args:
        name: What the agent is called here.
        find: Says which agent it is, when it is connected to; may raise `UpstreamError`.
        limits: What it may use of the process.
    """

    def __init__(self, name: str, find: Callable[[], Publishable], limits: AgentLimits | None = None) -> None:
        self._name = name
        self._find = find
        self._limits = limits or AgentLimits()

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Publish the agent, and open a link to it."""
        source = AgentSource(self._find(), self._name, self._limits)
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            await tasks.start(source.run)
            async with AgentTransport(source, self._limits).connect(receiver) as link:
                try:
                    yield link
                except Exception as error:  # raised again, not in the task group, which would wrap it
                    failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
