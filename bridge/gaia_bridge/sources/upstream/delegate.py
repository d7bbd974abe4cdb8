"""Acts as the client of an upstream server, on behalf of the client whose call is in flight."""

from __future__ import annotations

from typing import Final, Protocol

from gaia_bridge.client import ClientDelegate
from gaia_bridge.contract import ClientRequest
from gaia_bridge.sources.upstream.relayed_request import ASKABLE
from gaia_bridge.text.json_types import JSON

_CARRIED: Final = (*ASKABLE, "extensions", "experimental")
"""Capabilities of a client that also work through the bridge."""

_APP: Final = "text/html;profile=mcp-app"
"""MCP Apps (SEP-1865): the content that hosts display. Declared to servers of the handshake era in advance."""


class Told(Protocol):
    """Receives what the server sends; see `ClientDelegate`."""

    @property
    def name(self) -> str:
        """The name of the server in the configuration."""
        ...

    async def answer(self, method: str, params: JSON, during: int | None) -> JSON:
        """It asks something."""
        ...

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """A notification came."""
        ...

    def ended(self, reason: str) -> None:
        """The connection is over."""
        ...

    def doubted(self, why: str) -> None:
        """It may be gone."""
        ...


class UpstreamDelegate(ClientDelegate):
    """Acts as the client of one server, on behalf of the client whose call is in flight.

    A server of the handshake era learns the capabilities before there is any client, so all are declared. If the actual
    client lacks one, the server gets an error instead of an answer.

    Args:
        upstream: Handles what the server sends.
        own: Our id.
    """

    capabilities: JSON = {
        **ASKABLE,
        "roots": {"listChanged": True},
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [_APP]}},
    }

    def __init__(self, upstream: Told, own: str) -> None:
        self._upstream = upstream
        self.id = own
        self.server = f"upstream {upstream.name!r}"

    def represent(self, request: ClientRequest) -> None:
        """Act as the client of a request on its private connection: use its name and its capabilities."""
        if request.client_info:
            self.info = dict(request.client_info)
        self.capabilities = {
            name: declared for name, declared in request.client_capabilities.items() if name in _CARRIED
        }

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Let the client answer whose call is in flight."""
        return await self._upstream.answer(method, params, during)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Pass a notification on."""
        self._upstream.notified(method, params, during)

    def ended(self, reason: str) -> None:
        """Pass the end on."""
        self._upstream.ended(reason)

    def doubted(self, why: str) -> None:
        """Pass the doubt on."""
        self._upstream.doubted(why)
