"""The revisions of MCP, and the two eras that they fall into: with a handshake, and without."""

from __future__ import annotations

from typing import Final

from gaia_bridge.protocol.json_types import is_object

__all__ = [
    "BATCHING_REVISIONS",
    "HANDSHAKE_REVISIONS",
    "LATEST_HANDSHAKE",
    "LATEST_MODERN",
    "MODERN_REVISIONS",
    "UNSTATED_REVISION",
    "is_modern",
    "is_resumable",
    "negotiated",
]

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Those that begin with `initialize`, oldest first."""

MODERN_REVISIONS: Final = ("2026-07-28",)
"""Those in which each request stands alone, oldest first."""

LATEST_HANDSHAKE: Final = HANDSHAKE_REVISIONS[-1]
LATEST_MODERN: Final = MODERN_REVISIONS[-1]

UNSTATED_REVISION: Final = "2025-03-26"
"""What an HTTP request speaks that says nothing (2025-06-18, basic/transports, "Protocol Version Header")."""

BATCHING_REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26"})
"""The revisions whose clients may batch: 2025-03-26 demands it of servers (basic, "Batching"), the one before it is
JSON-RPC 2.0 with all that belongs to it; 2025-06-18 took it out again."""


def is_modern(revision: str) -> bool:
    """Whether the revision has no handshake and no sessions: 2026-07-28 and later."""
    return revision in MODERN_REVISIONS


def is_resumable(revision: str) -> bool:
    """Whether clients of a revision expect the event, without data, that begins a stream they can resume.

    Earlier ones cannot read it (2025-11-25, basic/transports, "Sending Messages to the Server").
    """
    return revision in HANDSHAKE_REVISIONS[HANDSHAKE_REVISIONS.index("2025-11-25") :]


def negotiated(params: object) -> str:
    """The revision that an `initialize` request leads to."""
    requested = params.get("protocolVersion") if is_object(params) else None
    return requested if requested in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
