"""Limits and deadlines, each with its reason, in one frozen object; `constants` has values that cannot be set."""

from __future__ import annotations

from gaia_bridge.settings.bridge import AcpLimits, AgentLimits, BackgroundLimits, DoctorLimits, Settings
from gaia_bridge.settings.clients import (
    BacklogLimits,
    ChatEndpointLimits,
    ClientLimits,
    HttpLimits,
    PageLimits,
    SubscriptionLimits,
)
from gaia_bridge.settings.limits import Limits
from gaia_bridge.settings.upstream import OpenApiLimits, RegistryLimits, UpstreamLimits

__all__ = [
    "AcpLimits", "AgentLimits", "BackgroundLimits", "BacklogLimits", "ChatEndpointLimits", "ClientLimits",
    "DoctorLimits", "HttpLimits", "Limits", "OpenApiLimits", "PageLimits", "RegistryLimits", "Settings",
    "SubscriptionLimits", "UpstreamLimits",
]  # fmt: skip
