"""Agents of this process as servers: no child process, no socket, no JSON text."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.contract import AgentLike
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS, UsedInCircleError

if TYPE_CHECKING:
    from gaia_bridge.client.transport import Transport

__all__ = ["AgentTransport"]


class AgentTransport(ConnectionTransport):
    """Reaches an agent in this process, which is published while the transport is connected.

    Args:
        name: What the agent is called here.
        agent: An object with `get_mcp_tool_definitions` and `execute_mcp_tool`, or the name that a bridge of this
            process publishes it under.
        timeout: Seconds for each request.
        debug: Whether requests are logged at level DEBUG.
    """

    def __init__(self, name: str, agent: AgentLike | str, timeout: float = 30, debug: bool = False) -> None:
        super().__init__(name, timeout, debug)
        self.agent = agent
        self._user: Callable[[], object | None] = lambda: None
        self._stop_using: Callable[[], None] = lambda: None

    def used_by(self, user: object) -> None:
        """Say which agent uses the other one: neither of them may lead back to itself."""
        self._user = weakref.ref(user)

    def connect(self) -> bool:
        """Publish the agent and open a link to it. Says in `last_error` why it failed."""
        if self.is_connected():
            return True
        agent = LOCAL_AGENTS.get(self.agent) if isinstance(self.agent, str) else self.agent
        if agent is None:
            self.last_error = LOCAL_AGENTS.missing(str(self.agent))
            return False
        self._stop_using()
        if (user := self._user()) is not None:
            try:
                self._stop_using = LOCAL_AGENTS.use(user, self.name, agent)
            except UsedInCircleError as error:
                self.last_error = str(error)
                return False
        self._published_agent = agent
        connected = super().connect()
        if not connected:
            self._stop_using()
        return connected

    def disconnect(self) -> None:
        """Close the link."""
        self._stop_using()
        super().disconnect()

    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        from gaia_bridge.bridge.chaining import PublishedAgent

        agent = self._published_agent
        return PublishedAgent(self.name, lambda: agent)
