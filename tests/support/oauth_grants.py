"""Ways to a client's assertion, and to the accepted authorization servers, for tests with such grants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx2
from mcp.client.auth.extensions.client_credentials import SignedJWTParameters
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import ValidationError

from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.client.transports.http.http_values import named_status, url_for_log, usable_url
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits

__all__ = ["advertised_issuers", "identity_exchange", "signed_assertion"]


def signed_assertion(
    client_id: str, private_key: str, algorithm: str = "ES256", lifetime: int = 300
) -> Callable[[str], Awaitable[str]]:
    """Create a `client_assertion` that is signed here.

    Args:
        private_key: The key, in PEM.
        algorithm: A JWS algorithm that fits the key.
        lifetime: Seconds until an assertion expires.
    """
    return SignedJWTParameters(
        issuer=client_id,
        subject=client_id,
        signing_key=private_key,
        signing_algorithm=algorithm,
        lifetime_seconds=lifetime,
    ).create_assertion_provider()


def identity_exchange(
    token_endpoint: str, client_id: str, id_token: str, limits: UpstreamLimits | None = None
) -> Callable[[str, str], Awaitable[str]]:
    """Create an `identity_assertion` from a company's identity provider for its ID token (RFC 8693, SEP-990).

    Args:
        token_endpoint: The token endpoint of the identity provider, from the user's configuration.
    """
    fetcher = Fetcher(token_endpoint, limits or UpstreamLimits())

    async def exchange(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": id_token,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": client_id,
        }
        request = httpx2.Request("POST", token_endpoint, data=form)
        response = await fetcher.fetch(request)
        try:
            assertion = response.json()["access_token"] if response.is_success else None
        except (ValueError, TypeError, KeyError):
            assertion = None
        if not isinstance(assertion, str):
            raise AuthorizationError(
                f"the identity provider at {url_for_log(request.url)} gave no assertion "
                f"(HTTP {named_status(response.status_code)})"
            )
        return assertion

    return exchange


async def advertised_issuers(spec: HttpServerSpec) -> tuple[str, ...]:
    """Return the possible values of `OAuthOptions.issuer`, from the server's protected resource metadata (RFC 9728).

    Raises:
        AuthorizationError: The server does not publish them.
    """
    url = str(usable_url(spec.url).copy_with(userinfo=b"", query=None, fragment=None))
    fetcher = Fetcher(url, UpstreamLimits())
    for place in build_protected_resource_metadata_discovery_urls(None, url):
        response = await fetcher.fetch(httpx2.Request("GET", place))
        try:
            if response.status_code == 200:
                metadata = ProtectedResourceMetadata.model_validate_json(response.content)
                return tuple(map(str, metadata.authorization_servers))
        except ValidationError:
            continue
    raise AuthorizationError("it does not say which authorization servers it accepts")
