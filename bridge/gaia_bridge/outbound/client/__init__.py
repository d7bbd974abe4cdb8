"""A connection to one upstream server, whatever its era and whatever carries its messages."""

from __future__ import annotations

from gaia_bridge.outbound.client.connection import Connection, connect
from gaia_bridge.outbound.client.facts import (
    ClientRole,
    Deadline,
    Era,
    Greeting,
    OnProgress,
    RequestTimeoutError,
)
from gaia_bridge.outbound.client.negotiation import EraRefusedError

__all__ = [
    "ClientRole",
    "Connection",
    "Deadline",
    "Era",
    "EraRefusedError",
    "Greeting",
    "OnProgress",
    "RequestTimeoutError",
    "connect",
]
