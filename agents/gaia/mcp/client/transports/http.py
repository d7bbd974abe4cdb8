"""MCP servers that are reached over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.model import HttpServerSpec, OAuthOptions, ServerOptions
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.client.transport import Transport

__all__ = ["HTTPTransport"]


class HTTPTransport(ConnectionTransport):
    """Reaches a server over Streamable HTTP, or over the older HTTP+SSE.

    Args:
        url: Where the server is, such as `http://127.0.0.1:8000/mcp`.
        timeout: Seconds for the connection, and for each request.
        debug: Whether requests are logged at level DEBUG.
        headers: Sent with every request, such as `{"Authorization": "Bearer ..."}`.
        sse: Whether the server speaks HTTP+SSE (MCP 2024-11-05).
    """

    def __init__(
        self,
        url: str,
        timeout: float = 30,
        debug: bool = False,
        headers: Mapping[str, str] | None = None,
        sse: bool = False,
    ) -> None:
        super().__init__("the server", timeout, debug)
        self.url = url
        self.headers = dict(headers or {})
        self.sse = sse
        self.oauth: OAuthOptions | None = OAuthOptions()
        """How to log in if the server asks for that; not at all if `None`."""
        self.proxy: str | Literal[False] | None = None
        """The HTTP proxy that leads to it; `False`: none; as `HTTPS_PROXY` and the others say if `None`."""
        self._options = ServerOptions()

    @classmethod
    def from_spec(cls, spec: HttpServerSpec, timeout: float = 30, debug: bool = False) -> Self:
        """Return a transport to a configured server.

        Args:
            spec: Where it is.
            timeout: Seconds for the connection, and for each request.
            debug: Whether requests are logged at level DEBUG.
        """
        transport = cls(spec.url, timeout, debug, spec.headers, spec.sse)
        transport.name, transport.oauth, transport._options = spec.name, spec.oauth, spec.options
        transport.proxy = spec.proxy
        return transport

    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        from gaia_bridge.client.transport_factory import transport_for

        return transport_for(self._server(), limits)

    def _server(self) -> HttpServerSpec:
        return HttpServerSpec(self.name, self.url, self.headers, self.sse, self._options, self.oauth, self.proxy)
