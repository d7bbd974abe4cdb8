"""Configuration files: the upstream servers in them, and the user's approvals of a project's servers."""

from __future__ import annotations

from gaia_bridge.version import import_member

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from gaia_bridge.config.documents import is_disabled
    from gaia_bridge.config.entries import ParsedEntry, entry_of, parse_entry
    from gaia_bridge.config.fingerprints import fingerprint
    from gaia_bridge.config.layers import (
        Layer,
        LayerKind,
        LayerReport,
        LayerState,
        LoadReport,
        ServersConfig,
        SkippedServer,
    )
    from gaia_bridge.config.paths import current_folder, default_servers_path, local_servers_path
    from gaia_bridge.config.problems import EntryError, MissingReferenceError
    from gaia_bridge.config.trust import TrustStore

__all__ = [
    "EntryError", "Layer", "LayerKind", "LayerReport", "LayerState", "LoadReport", "MissingReferenceError",
    "ParsedEntry", "ServersConfig", "SkippedServer", "TrustStore", "current_folder", "default_servers_path", "entry_of",
    "fingerprint", "is_disabled", "local_servers_path", "parse_entry",
]  # fmt: skip

_PLACES = (".paths", ".problems", ".documents", ".fingerprints", ".entries", ".trust", ".layers")
"""The submodules of the names above. A program that only needs the place of a file imports the first alone."""


def __getattr__(name: str) -> object:
    return import_member(__name__, __all__, _PLACES, name)
