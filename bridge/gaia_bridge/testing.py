"""For the tests of agent authors: a client that records what it hears, a user, and a model that says what it is told.

Installed with the bridge is a pytest plugin with the fixture `mcp_client`; see `gaia_bridge.bridge.testing.plugin`.
What is in here is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaia_bridge.bridge.testing.doubles import FakeModel, FakeUser
    from gaia_bridge.bridge.testing.recording_client import RecordingClient, connected

__all__ = ["FakeModel", "FakeUser", "RecordingClient", "connected"]


def __getattr__(name: str) -> object:
    for place in ("bridge.testing.doubles", "bridge.testing.recording_client") if name in __all__ else ():
        module = import_module(f"gaia_bridge.{place}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
