"""Asking a server which authorization servers it accepts, without asking them for anything."""

from __future__ import annotations

import ssl

import httpx2
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import ValidationError

from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.client.transports.http_values import usable_url
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits


async def advertised_issuers(
    spec: HttpServerSpec, limits: UpstreamLimits | None = None, *, tls: ssl.SSLContext | None = None
) -> tuple[str, ...]:
    """What a user can choose `OAuthOptions.issuer` from: the server's protected resource metadata (RFC 9728).

    Args:
        tls: What servers are verified with; the system's authorities, if not given.

    Raises:
        AuthorizationError: The server does not say.
        UpstreamError: Its URL is none.
    """
    url = str(usable_url(spec.url).copy_with(userinfo=b"", query=None, fragment=None))
    fetcher = Fetcher(url, limits or UpstreamLimits(), tls=tls, proxy=spec.proxy)
    for place in build_protected_resource_metadata_discovery_urls(None, url):
        response = await fetcher.fetch(httpx2.Request("GET", place))
        try:
            if response.status_code == 200:
                metadata = ProtectedResourceMetadata.model_validate_json(response.content)
                return tuple(map(str, metadata.authorization_servers))
        except ValidationError:
            continue
    raise AuthorizationError("it does not say which authorization servers it accepts")
