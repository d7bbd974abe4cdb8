"""Agents of this process as servers: reached like any other, without a socket."""

from gaia_bridge.bridge.chaining.agent_transport import (
    AgentTransport,
    BridgeTransport,
    DispatcherTransport,
    PublishedAgent,
    agent_named,
)

__all__ = ["AgentTransport", "BridgeTransport", "DispatcherTransport", "PublishedAgent", "agent_named"]
