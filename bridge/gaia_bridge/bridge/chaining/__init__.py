"""Agents of this process as servers: reached like any other, without a socket."""

from gaia_bridge.bridge.chaining.agent_transport import AgentTransport, DispatcherTransport
from gaia_bridge.bridge.chaining.bridge_transport import BridgeTransport
from gaia_bridge.bridge.chaining.published_agent import PublishedAgent, agent_named

__all__ = ["AgentTransport", "BridgeTransport", "DispatcherTransport", "PublishedAgent", "agent_named"]
