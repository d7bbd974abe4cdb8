"""The revisions of MCP, and the two eras that they fall into: with a handshake, and without.

A further revision is one entry of `DRAFTS`, and of `PUBLISHED` once it is that. Everything else is written in the terms
of 2026-07-28: where a revision says something in another way, a module of its own derives from `Revision`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.protocol.meta import PROTOCOL_VERSION_KEY

__all__ = [
    "BATCHING_REVISIONS",
    "DRAFTS",
    "HANDSHAKE_REVISIONS",
    "LATEST_HANDSHAKE",
    "PUBLISHED",
    "UNSTATED_REVISION",
    "Revision",
    "Revisions",
    "is_modern",
    "is_resumable",
    "negotiated",
]

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Those that begin with `initialize`, oldest first. There will be no other: 2026-07-28 took the handshake out."""

LATEST_HANDSHAKE: Final = HANDSHAKE_REVISIONS[-1]

UNSTATED_REVISION: Final = "2025-03-26"
"""What an HTTP request speaks that says nothing (2025-06-18, basic/transports, "Protocol Version Header")."""

BATCHING_REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26"})
"""The revisions whose clients may batch: 2025-03-26 demands it of servers (basic, "Batching"), the one before it is
JSON-RPC 2.0 with all that belongs to it; 2025-06-18 took it out again."""


class Revision:
    """A revision in which each request stands alone. This one says everything as 2026-07-28 does.

    One that differs overrides both methods and says so with `differs`. They are given whole JSON-RPC messages, must not
    change them in place, and get the method of the request with a response.

    Args:
        name: What `MCP-Protocol-Version` says.
    """

    differs = False
    """Whether any of its messages is not as in 2026-07-28."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, message: JSON, method: str) -> JSON:
        """A message of this revision that came, in the terms of 2026-07-28.

        Args:
            message: A request, a notification or a response.
            method: Its method; of a response, that of its request as 2026-07-28 names it.
        """
        del method
        return message

    def written(self, message: JSON, method: str) -> JSON:
        """A message in the terms of 2026-07-28, as this revision says it.

        Args:
            message: A request, a notification or a response.
            method: Its method; of a response, that of its request; both as 2026-07-28 names them.
        """
        del method
        return message


class Revisions:
    """The revisions without a handshake that are spoken, oldest first.

    Args:
        entries: Them.
    """

    def __init__(self, entries: Iterable[Revision]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._differing = {name: entry for name, entry in self._entries.items() if entry.differs}
        self.names = tuple(self._entries)
        """What each is called."""
        self.latest = self.names[-1]
        """The newest."""

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def and_also(self, entries: Iterable[Revision]) -> Revisions:
        """These, and newer ones."""
        return Revisions((*self._entries.values(), *entries))

    def translating(self, name: object) -> Revision | None:
        """The revision of a name, if its messages are others than those of 2026-07-28."""
        return self._differing.get(name) if isinstance(name, str) else None

    def translating_of(self, message: Mapping[str, Any]) -> Revision | None:
        """The same for the revision that a request names."""
        if not self._differing:
            return None
        params = message.get("params")
        told = params.get("_meta") if is_object(params) else None
        return self.translating(told.get(PROTOCOL_VERSION_KEY)) if is_object(told) else None


PUBLISHED: Final = Revisions((Revision("2026-07-28"),))
"""Those that are final."""

DRAFTS: Final[tuple[Revision, ...]] = ()
"""Those that are not, oldest first: spoken on demand. There is none at present."""


def is_modern(revision: str) -> bool:
    """Whether the revision has no handshake and no sessions: 2026-07-28 and later."""
    return revision not in HANDSHAKE_REVISIONS


def is_resumable(revision: str) -> bool:
    """Whether clients of a revision expect the event, without data, that begins a stream they can resume.

    Earlier ones cannot read it (2025-11-25, basic/transports, "Sending Messages to the Server").
    """
    return revision in HANDSHAKE_REVISIONS[HANDSHAKE_REVISIONS.index("2025-11-25") :]


def negotiated(params: object) -> str:
    """The revision that an `initialize` request leads to."""
    requested = params.get("protocolVersion") if is_object(params) else None
    return requested if requested in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
