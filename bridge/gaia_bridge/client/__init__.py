"""A connection to one upstream server, whatever its era and whatever carries its messages."""

from __future__ import annotations

from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.client.connection import Connection, connect
from gaia_bridge.client.negotiation import EraRefusedError
from gaia_bridge.client.types import ClientDelegate, Era, OnProgress, RequestTimeoutError, ServerHandshake

__all__ = [
    "ClientDelegate",
    "Connection",
    "Deadline",
    "Era",
    "EraRefusedError",
    "OnProgress",
    "RequestTimeoutError",
    "ServerHandshake",
    "connect",
]
