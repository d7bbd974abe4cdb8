"""Who the bridge is to an upstream server: whoever is the client of the call in flight."""

from __future__ import annotations

from typing import Final, Protocol

from gaia_bridge.client import ClientDelegate
from gaia_bridge.contract import ClientRequest
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.sources.upstream.relay import ASKABLE

__all__ = ["Told", "UpstreamDelegate"]

_CARRIED: Final = (*ASKABLE, "extensions", "experimental")
"""Capabilities of a client that it has through us as well."""

_APP: Final = "text/html;profile=mcp-app"
"""MCP Apps (SEP-1865): what a host shows. A server of the handshake era is told that somebody may."""


class Told(Protocol):
    """What is told of what the server says: see `ClientDelegate`."""

    @property
    def name(self) -> str:
        """What the server is called here."""
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
    """Who the bridge is to one server: whoever is the client of the call in flight.

    What a server of the handshake era may ask is declared before there is any client, so everything is; a client that
    lacks it is not asked, and the server is told so.

    Args:
        upstream: Does what is to be done.
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
        """Be the client of a request, on a connection that is its alone: say and declare what it does."""
        if request.client_info:
            self.info = dict(request.client_info)
        self.capabilities = {
            name: declared for name, declared in request.client_capabilities.items() if name in _CARRIED
        }

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Let the client answer that the call is for."""
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
