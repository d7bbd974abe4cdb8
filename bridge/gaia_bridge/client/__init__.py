"""A connection to one upstream server, whatever its era and whatever carries its messages."""

from __future__ import annotations

from gaia_bridge.client.connection import Connection, connect
from gaia_bridge.client.negotiation import EraRefusedError
from gaia_bridge.client.types import (
    ClientRole,
    Deadline,
    Era,
    Greeting,
    OnProgress,
    RequestTimeoutError,
)

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
