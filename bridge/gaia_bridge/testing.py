"""For the tests of agent authors: a client that records what it hears, a user, and a model that says what it is told.

Installed with the bridge is a pytest plugin with the fixture `mcp_client`; see `gaia_bridge.bridge.testing.plugin`.
What is in here is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaia_bridge.version import import_member

if TYPE_CHECKING:
    from gaia_bridge.bridge.testing.doubles import FakeModel, FakeUser
    from gaia_bridge.bridge.testing.recording_client import RecordingClient, connected

__all__ = ["FakeModel", "FakeUser", "RecordingClient", "connected"]

_PLACES = ("gaia_bridge.bridge.testing.doubles", "gaia_bridge.bridge.testing.recording_client")


def __getattr__(name: str) -> object:
    return import_member(__name__, __all__, _PLACES, name)
