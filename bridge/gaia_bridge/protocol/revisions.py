"""The revisions of MCP, in two eras: the handshake era begins with `initialize`, the modern era has no handshake.

To add a revision, add an entry to `DRAFTS`, and later to `PUBLISHED`. All other code uses the messages of 2026-07-28;
for a revision whose messages differ, write a subclass of `Revision` here that translates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gaia_bridge.protocol.meta import PROTOCOL_VERSION_KEY
from gaia_bridge.text.json_types import JSON, is_object, value_at

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions of the handshake era, oldest first. The list is complete: 2026-07-28 removed the handshake."""
LATEST_HANDSHAKE: Final = HANDSHAKE_REVISIONS[-1]
UNSTATED_REVISION: Final = "2025-03-26"
"""The revision of HTTP requests without the header (2025-06-18, basic/transports, "Protocol Version Header")."""
UNDATED_REVISION: Final = HANDSHAKE_REVISIONS[0]
"""The revision assumed of a server that answers the handshake with something that is no date, such as "1.0.0": such
servers do nothing that the oldest revision does not have."""
BATCHING_REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26"})
"""The revisions with JSON-RPC batches: 2025-03-26 requires servers to accept them (basic, "Batching"), 2024-11-05 has
them as part of JSON-RPC 2.0, and 2025-06-18 removed them."""
RESUMABLE_REVISIONS: Final = frozenset({"2025-11-25"})
"""The revisions in which an event stream may begin with a priming event, which has no data and lets the client resume.
Clients of earlier revisions cannot parse it (2025-11-25, basic/transports, "Sending Messages to the Server")."""


_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Revision:
    """A revision of the modern era, by its name in `MCP-Protocol-Version`; its messages are those of 2026-07-28.

    A revision whose messages differ is a subclass that sets `differs` and overrides `read` and `written`. Both take
    whole JSON-RPC messages and must not change them in place; for a response, they take the method of its request.
    """

    differs = False
    """Whether any of its messages differs from 2026-07-28."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, message: JSON, method: str) -> JSON:
        """Translate a received message of this revision to 2026-07-28; a request's method is that of 2026-07-28."""
        return message

    def written(self, message: JSON, method: str) -> JSON:
        """Translate a message of 2026-07-28 to this revision, to be sent."""
        return message


class Revisions:
    """The supported revisions of the modern era, oldest first."""

    def __init__(self, entries: Iterable[Revision]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._differing = {name: entry for name, entry in self._entries.items() if entry.differs}
        self.differ = bool(self._differing)
        """Whether there are revisions whose messages have to be translated."""
        self.names = tuple(self._entries)
        """The names of the revisions, oldest first."""
        self.latest = self.names[-1]
        """The name of the newest revision."""

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def and_also(self, entries: Iterable[Revision]) -> Revisions:
        """Return these revisions, followed by newer ones."""
        return Revisions((*self._entries.values(), *entries))

    def translating(self, name: object) -> Revision | None:
        """Return the revision with a name, if its messages differ from 2026-07-28 and have to be translated."""
        return self._differing.get(name) if isinstance(name, str) else None

    def translating_of(self, message: Mapping[str, Any]) -> Revision | None:
        """Return the revision that a request states, if its messages have to be translated."""
        if not self._differing:
            return None
        return self.translating(value_at(message, "params", "_meta", PROTOCOL_VERSION_KEY))


PUBLISHED: Final = Revisions((Revision("2026-07-28"),))
"""The final revisions of the modern era."""
DRAFTS: Final[tuple[Revision, ...]] = ()
"""Draft revisions, oldest first; supported only with `--draft`. There is none at present."""


def is_modern(revision: str) -> bool:
    """Whether the revision has no handshake and no sessions: 2026-07-28 and later."""
    return revision not in HANDSHAKE_REVISIONS


def is_dated(revision: str) -> bool:
    """Whether a text has the form of a revision of MCP, `YYYY-MM-DD`, supported or not."""
    return _DATE.fullmatch(revision) is not None


def negotiated(params: object) -> str:
    """Choose the revision with which the server answers an `initialize` request."""
    requested = params.get("protocolVersion") if is_object(params) else None
    return requested if requested in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
