"""Authorisation for a server that may never demand it: OAuth is imported only on demand, or if a login is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gaia_bridge.client.oauth.kept import default_folder, prefix_of
from gaia_bridge.client.transports.http.http_values import usable_url
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    import httpx2

    from gaia_bridge.client.oauth.interaction import UserInteraction
    from gaia_bridge.client.oauth.provider import ServerAuthorization


class AuthorizationOnDemand:
    """The authorisation of requests to one server; see `provider.oauth_for`."""

    def __init__(
        self,
        spec: HttpServerSpec,
        limits: UpstreamLimits,
        interaction: UserInteraction | None = None,
        folder: Path | None = None,
    ) -> None:
        problem = "it is not to be logged in to" if spec.oauth is None else spec.oauth.problem
        if problem:
            raise ConfigError(f"server {spec.name!r}", f"OAuth: {problem}")
        self._spec = spec
        self._limits = limits
        self._interaction = interaction
        self._folder = folder or default_folder()
        self._prefix = prefix_of(usable_url(spec.url).host)
        self._made: ServerAuthorization | None = None
        self._has_none: bool | None = None  # `None` until the folder was searched

    def known_headers(self) -> Mapping[str, str] | None:
        """Return the headers of a request: none if no login is stored. See `Authorization.known_headers`."""
        if self._made is not None:
            return self._made.known_headers()
        if self._has_none is None:
            self._has_none = not any(self._folder.glob(f"{self._prefix}*.json"))
        return {} if self._has_none else None

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token; see `ServerAuthorization.async_auth_flow`."""
        if self._made is None:
            from gaia_bridge.client.oauth.provider import oauth_for

            self._made = oauth_for(self._spec, self._limits, interaction=self._interaction, folder=self._folder)
        return self._made.async_auth_flow(request)
