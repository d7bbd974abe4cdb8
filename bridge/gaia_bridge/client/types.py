"""What a connection is made of: who we are to the server, who the server is to us, and how long a request may take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from msgspec import Struct

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.text.json_types import JSON
from gaia_bridge.version import __version__

CLIENT_NAME: Final = "gaia-mcp-bridge"
"""Who we say we are, where nobody says otherwise."""

OnProgress = Callable[[Progress], Awaitable[None]]
"""Receives progress. What it raises ends the request."""


class Era(Enum):
    """The two families of protocol revisions. Worth remembering per server: the next connection need not probe."""

    LEGACY = "legacy"
    """2024-11-05 to 2025-11-25: a handshake opens the connection, and the server may send requests of its own."""
    MODERN = "modern"
    """2026-07-28 and later: every request stands for itself, and the server asks by way of its results."""


class ServerHandshake(Struct, frozen=True):
    """What a server said about itself when the connection was opened; overlong texts are cut."""

    revision: str
    """The protocol revision agreed on, such as `2025-11-25`."""
    modern: bool
    """Whether that is a revision without handshake."""
    info: JSON
    """Its `Implementation` as on the wire; empty if it gave none."""
    capabilities: JSON
    """What it declared, as on the wire."""
    instructions: str | None
    """What it wants models to know."""
    also_modern: bool = False
    """Whether the server speaks a revision without handshake too, and said so too late for this connection."""

    @property
    def era(self) -> Era:
        """The era of the revision."""
        return Era.MODERN if self.modern else Era.LEGACY

    @property
    def next_era(self) -> Era:
        """The era to try first on the next connection."""
        return Era.MODERN if self.also_modern else self.era


class RequestTimeoutError(UpstreamError):
    """A request was not answered in time. The server was told that nobody waits for it any more.

    Args:
        seconds: How long it was waited for.
    """

    too_late = True

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"did not answer {method} within {seconds:g} s")
        self.method = method
        self.seconds = seconds


class ClientDelegate:
    """Who we are to a server. Derive from it; as it stands, it declares nothing, so that nothing is asked."""

    info: JSON = {"name": CLIENT_NAME, "version": __version__}
    """The wire `Implementation` that we introduce ourselves with."""
    capabilities: JSON = {}
    """What is declared, wire-shaped: `{"elicitation": {}}`. Read once, when the connection is opened."""

    server: str = "the server"
    """What our log calls the server: the name that we gave it, not the one that it gives itself."""

    id: str = ""
    """The id that requests say they have passed (`bridge_hops`); they say nothing if it is empty."""

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Answer the server's question. Only asked what `capabilities` declare; `ping` is answered elsewhere.

        Cancelled when the server waits no longer. Several questions may be open at once.

        Args:
            method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
            during: The id of our request that it belongs to, where the wire tells (see `Connection.new_id`).

        Returns:
            The wire result.

        Raises:
            ProtocolError: Becomes the JSON-RPC error that the server is given. Every other exception becomes a
                generic one.
        """
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """A notification came: a changed list, an updated resource, a log message; not progress.

        Called on the event loop, in the order of arrival, perhaps before the connection is open; must not block.
        Both eras' changes come as `notifications/tools/list_changed`, `notifications/resources/updated` and so on.

        Args:
            method: Such as `notifications/message`.
            during: The id of our request that it belongs to, where the wire tells.
        """

    def ended(self, reason: str) -> None:
        """An open connection is over, and that was not our doing. Called before any request in flight fails.

        Args:
            reason: How it ended; continues a sentence that begins with the server's name.
        """

    def doubted(self, why: str) -> None:
        """The server may be gone, although nothing has been asked of it meanwhile.

        Args:
            why: A sentence without its end.
        """
