"""Agents of this process as servers: reached like any other, without a socket."""

from gaia_bridge.chaining.local import LocalTransport
from gaia_bridge.chaining.published import PublishedAgent, agent_named

__all__ = ["LocalTransport", "PublishedAgent", "agent_named"]
