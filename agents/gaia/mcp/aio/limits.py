"""Deadlines of the asynchronous manager, each with its reason."""

from __future__ import annotations

from gaia_bridge.settings import Limits, UpstreamLimits

__all__ = ["ManagerLimits"]


class ManagerLimits(Limits, frozen=True):
    """The limits of one manager's servers."""

    connect_wait: float = 10.0
    """Seconds that `connect_to_servers` waits. A server that takes longer goes on starting."""
    upstream: UpstreamLimits = UpstreamLimits()
    """Everything else: deadlines of calls, restarts. An entry may say otherwise for its own server."""
