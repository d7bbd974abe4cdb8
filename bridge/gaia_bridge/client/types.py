"""Types of a connection: the client as the server sees it, the server as the client sees it, and request timeouts."""

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
"""The name under which we introduce ourselves to servers by default."""
OnProgress = Callable[[Progress], Awaitable[None]]
"""Receives progress. An exception that it raises ends the request."""


class Era(Enum):
    """The two families of protocol revisions. Remembered per server, so that the next connection need not probe."""

    LEGACY = "legacy"
    """2024-11-05 to 2025-11-25: a handshake opens the connection, and the server may send requests of its own."""
    MODERN = "modern"
    """2026-07-28 and later: every request is complete in itself, and the server asks questions in its results."""


class ServerHandshake(Struct, frozen=True):
    """The description that a server gave of itself when the connection was opened; overlong texts are cut."""

    revision: str
    """The protocol revision agreed on, such as `2025-11-25`."""
    modern: bool
    """Whether that is a revision without handshake."""
    info: JSON
    """Its `Implementation` as on the wire; empty if it sent none."""
    capabilities: JSON
    """The capabilities that it declared, as on the wire."""
    instructions: str | None
    """Its instructions for models."""
    also_modern: bool = False
    """Whether the server also speaks a revision without handshake, but answered too late for this connection."""

    @property
    def era(self) -> Era:
        """The era of the revision."""
        return Era.MODERN if self.modern else Era.LEGACY

    @property
    def next_era(self) -> Era:
        """The era to try first on the next connection."""
        return Era.MODERN if self.also_modern else self.era


class RequestTimeoutError(UpstreamError):
    """A request was not answered within some seconds. The server was notified that the request is cancelled."""

    too_late = True

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"did not answer {method} within {seconds:g} s")
        self.method = method
        self.seconds = seconds


class ClientDelegate:
    """The client's role towards a server, a base class. It declares nothing by itself, so it gets no questions."""

    info: JSON = {"name": CLIENT_NAME, "version": __version__}
    """The wire `Implementation` that we introduce ourselves with."""
    capabilities: JSON = {}
    """The declared capabilities, as on the wire: `{"elicitation": {}}`. Read once, when the connection is opened."""

    server: str = "the server"
    """The server's name in our log: the one that we gave it, not the one that it gives itself."""

    id: str = ""
    """The id that requests list among the bridges they passed (`bridge_hops`); if empty, nothing is added."""

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Answer the server's question. Called only for declared `capabilities`; `ping` is answered elsewhere.

        Cancelled when the server no longer waits. Several questions may be open at once.

        Args:
            method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
            during: The id of our request that the question belongs to, if the wire has it (see `Connection.new_id`).

        Returns:
            The wire result.

        Raises:
            ProtocolError: Becomes the JSON-RPC error that the server receives. Every other exception becomes a
                generic error.
        """
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Receive a notification: a changed list, an updated resource, a log message; not progress.

        Called on the event loop, in the order of arrival, perhaps before the connection is open; must not block.
        Changes of both eras have the form `notifications/tools/list_changed`, `notifications/resources/updated` etc.

        Args:
            method: Such as `notifications/message`.
            during: The id of our request that the notification belongs to, if the wire reports it.
        """

    def ended(self, reason: str) -> None:
        """Note that a connection ended and we did not close it; called before any request in flight fails.

        The reason continues a sentence that begins with the server's name.
        """

    def doubted(self, why: str) -> None:
        """Note that the server may be gone, although no request was made; `why` is a sentence without its full stop."""
