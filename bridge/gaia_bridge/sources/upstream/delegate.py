"""Acts as the client of an upstream server, on behalf of the client whose call is in flight."""

from __future__ import annotations

import logging
from typing import Final

from gaia_bridge.client import ClientDelegate
from gaia_bridge.client.transport import SessionExpiredError
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.protocol.vocabulary import LOG_MESSAGE
from gaia_bridge.sources.upstream.listing.features import FeatureTracker
from gaia_bridge.sources.upstream.relay import FOR_CLIENTS, Relays
from gaia_bridge.sources.upstream.relayed_request import ASKABLE
from gaia_bridge.sources.upstream.supervisor import Supervisor
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, MAX_NESTING, is_too_deep

logger = logging.getLogger(__name__)

_CARRIED: Final = (*ASKABLE, "extensions", "experimental")
"""Capabilities of a client that also work through the bridge."""
_APP: Final = "text/html;profile=mcp-app"
"""MCP Apps (SEP-1865): the content that hosts display. Declared to servers of the handshake era in advance."""


class UpstreamDelegate(ClientDelegate):
    """Acts as the client of one server, on behalf of the client whose call is in flight.

    A server of the handshake era learns the capabilities before there is any client, so all are declared. If the actual
    client lacks one, the server gets an error instead of an answer.
    """

    capabilities: JSON = {
        **ASKABLE,
        "roots": {"listChanged": True},
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [_APP]}},
    }

    def __init__(self, name: str, own: str, relays: Relays, tracker: FeatureTracker, supervisor: Supervisor) -> None:
        self.id = own
        self.server = f"upstream {name!r}"
        self._relays = relays
        self._tracker = tracker
        self._supervisor = supervisor

    def represent(self, request: ClientRequest) -> None:
        """Act as the client of a request on its private connection: use its name and its capabilities."""
        if request.client_info:
            self.info = dict(request.client_info)
        self.capabilities = {
            name: declared for name, declared in request.client_capabilities.items() if name in _CARRIED
        }

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Let the client answer whose call is in flight.

        Raises:
            ProtocolError: No client can answer, or the client refused.
        """
        if is_too_deep(params):
            raise ProtocolError(INVALID_PARAMS, f"{method} is nested deeper than {MAX_NESTING} levels")
        return await self._relays.answer(method, params, during)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Handle a notification about the server's offer, or for its clients."""
        if is_too_deep(params):
            logger.debug("%s: %s is dropped: too deep", self.server, printable(method))
        elif method not in FOR_CLIENTS:
            self._tracker.notified(method, params)
        elif method != LOG_MESSAGE or not self._relays.log(params, during):
            self._tracker.tell(method, params, self._relays.only_client(method, params))

    def ended(self, reason: str) -> None:
        """Handle the end of the connection."""
        # A link reports the reason only as text.
        self._supervisor.lost(reason, blameless=reason == str(SessionExpiredError()))

    def doubted(self, why: str) -> None:
        """Check whether the server is still there."""
        self._supervisor.doubt(why)
