"""The ways to a token: which of the SDK's OAuth clients is used, and with what.

One SDK client is made for each attempt and given what the store knows. The SDK's clients are made to live as long as
the connection; but then they keep tokens that another process has replaced meanwhile, and forget when stored ones
expire and where they came from.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from gaia_bridge.errors import ConfigError
from gaia_bridge.outbound.oauth.errors import AuthorizationError
from gaia_bridge.outbound.oauth.fetching import Fetcher
from gaia_bridge.outbound.oauth.interaction import Login
from gaia_bridge.outbound.oauth.store import TokenStore
from gaia_bridge.outbound.transports.http_values import named_status, shown
from gaia_bridge.settings import UpstreamLimits

__all__ = ["OAuthOptions", "SdkClient", "identity_exchange", "sdk_client", "signed_assertion"]

SdkClient = OAuthClientProvider | IdentityAssertionOAuthProvider
"""An OAuth client of the SDK: an `httpx2.Auth` whose flow makes requests of its own."""

_AnySdkClient = TypeVar("_AnySdkClient", bound=OAuthClientProvider)

_OUR_NAME: Final = "gaia-mcp-bridge"
"""What an authorization server tells the user that is asking."""


@dataclass(frozen=True, slots=True)
class OAuthOptions:
    """What the user has arranged with an authorization server; mostly nothing.

    With nothing, the user logs in, as a client that registers itself. `client_id` is one that is registered already.
    With `grant="client_credentials"`, `client_assertion` or `identity_assertion` nobody logs in; these need `issuer`,
    because otherwise the MCP server would choose who gets to see the credentials.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    """Where a document about us is published (Client ID Metadata Document); used where it is understood."""
    issuer: str | None = None
    """The authorization server, by the name it gives itself. Credentials are never sent to another."""
    scope: str | None = None
    """What to ask for, separated by blanks, where the server does not say."""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] | None = None
    """How `client_secret` is sent; in the `Authorization` header, if `None`."""
    client_assertion: Callable[[str], Awaitable[str]] | None = field(default=None, repr=False)
    """Makes a signed JWT that says who we are, for an audience (RFC 7523, section 2.2); see `signed_assertion`."""
    identity_assertion: Callable[[str, str], Awaitable[str]] | None = field(default=None, repr=False)
    """Gets an identity assertion for an audience and a resource (SEP-990); see `identity_exchange`."""

    @property
    def asks_user(self) -> bool:
        """Whether somebody has to log in."""
        return self.grant == "authorization_code" and self.client_assertion is None and self.identity_assertion is None

    def check(self, place: str) -> None:
        """Make sure that nothing is missing.

        Args:
            place: The entry of the configuration, for the message.

        Raises:
            ConfigError: Something is.
        """
        if self.issuer is not None and urlsplit(self.issuer).scheme not in ("https", "http"):
            raise ConfigError(place, "the OAuth issuer is no URL", "it begins with https://")
        if self.asks_user:
            return
        needed = {"client_id": self.client_id, "issuer": self.issuer}
        if self.client_assertion is None:
            needed["client_secret"] = self.client_secret
        if missing := [name for name, value in needed.items() if not value]:
            raise ConfigError(place, f"OAuth without a login needs {' and '.join(missing)}")


def sdk_client(
    url: str, store: TokenStore, options: OAuthOptions, login: Login | None, requested: str | None = None
) -> SdkClient:
    """The SDK's OAuth client for one attempt at a token.

    Args:
        url: The MCP server.
        store: Has loaded what is known.
        options: What the user has arranged.
        login: Asks the user, where that is needed.
        requested: The scope that earlier attempts asked for.
    """
    method = options.token_endpoint_auth_method
    if options.identity_assertion is not None:
        return IdentityAssertionOAuthProvider(
            url,
            store,
            options.client_id or "",
            options.client_secret or "",
            options.issuer or "",
            options.identity_assertion,
            scope=options.scope,
            token_endpoint_auth_method=method or "client_secret_basic",
        )
    scope = requested or options.scope
    if options.client_assertion is not None:
        return _informed(
            PrivateKeyJWTOAuthProvider(
                url, store, options.client_id or "", options.client_assertion, scope=scope, issuer=options.issuer
            ),
            store,
        )
    if options.grant == "client_credentials":
        return _informed(
            ClientCredentialsOAuthProvider(
                url,
                store,
                options.client_id or "",
                options.client_secret or "",
                token_endpoint_auth_method=method or "client_secret_basic",
                scope=scope,
                issuer=options.issuer,
            ),
            store,
        )
    return _informed(_user_client(url, store, options, login, scope), store)


def _user_client(
    url: str, store: TokenStore, options: OAuthOptions, login: Login | None, scope: str | None
) -> OAuthClientProvider:
    redirect_uri = AnyUrl(login.redirect_uri) if login else None
    metadata = OAuthClientMetadata(
        client_name=_OUR_NAME, redirect_uris=[redirect_uri] if redirect_uri else None, scope=scope
    )
    answers: list[AuthorizationCodeResult] = []

    async def redirect(address: str) -> None:
        if login is None:  # a mere renewal; the driver stops it before this
            raise AuthorizationError("nobody can be asked to log in")
        answers.append(await login.authorize(address))

    async def callback() -> AuthorizationCodeResult:
        return answers.pop()

    storage = _Registered(store, options, redirect_uri)
    return OAuthClientProvider(url, metadata, storage, redirect, callback, options.client_metadata_url)


def _informed(client: _AnySdkClient, store: TokenStore) -> _AnySdkClient:
    """Give an SDK client what the store knows beyond tokens and registration."""
    known, context = store.login, client.context
    context.oauth_metadata = known.server
    context.protected_resource_metadata = known.protection
    if known.protection is not None and known.server is not None:
        context.auth_server_url = known.issuer
    return client


class _Registered:
    """The store, as an SDK client sees it that logs users in.

    Args:
        store: The store.
        options: May name a client that is registered already.
        redirect_uri: Where this login comes back to; `None` if nobody logs in.
    """

    def __init__(self, store: TokenStore, options: OAuthOptions, redirect_uri: AnyUrl | None) -> None:
        self._store = store
        self._options = options
        self._redirect_uri = redirect_uri

    async def get_tokens(self) -> OAuthToken | None:
        return await self._store.get_tokens()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._store.set_tokens(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the user has registered; else the one that we have, as long as it fits."""
        options = self._options
        if options.client_id is None:
            client = await self._store.get_client_info()
            return client if client is not None and self._fits(client) else None
        method = (options.token_endpoint_auth_method or "client_secret_basic") if options.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=options.client_id,
            client_secret=options.client_secret,
            redirect_uris=[self._redirect_uri] if self._redirect_uri else None,
            token_endpoint_auth_method=method,
            issuer=options.issuer or self._store.login.issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._options.client_id is not None:
            raise AuthorizationError(
                "it sends us to another authorization server than the one that knows the configured client_id"
            )
        await self._store.set_client_info(client_info)

    def _fits(self, client: OAuthClientInformationFull) -> bool:
        """Whether the authorization server still knows this client, and would send the user back to us."""
        if client.client_secret_expires_at and client.client_secret_expires_at <= time.time():
            return False
        if self._redirect_uri is None or client.client_id == self._options.client_metadata_url:
            return True
        return not client.redirect_uris or self._redirect_uri in client.redirect_uris


def signed_assertion(
    client_id: str, private_key: str, algorithm: str = "ES256", lifetime: int = 300
) -> Callable[[str], Awaitable[str]]:
    """A `client_assertion` that is signed here.

    Args:
        client_id: Who we are.
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
    """An `identity_assertion` that a company's identity provider gives for its ID token (RFC 8693, SEP-990).

    Args:
        token_endpoint: The identity provider's, as the user has configured it.
        client_id: Who we are to the identity provider.
        id_token: Says who the user is.
        limits: Bounds.
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
                f"the identity provider at {shown(request.url)} gave no assertion "
                f"(HTTP {named_status(response.status_code)})"
            )
        return assertion

    return exchange
