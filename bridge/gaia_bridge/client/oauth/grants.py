"""The ways to a token: which of the SDK's OAuth clients is used, and with what.

One SDK client is made for each attempt and given what the store knows. The SDK's clients are made to live as long as
the connection; but then they keep tokens that another process has replaced meanwhile, and forget when stored ones
expire and where they came from.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    issuers_match,
    validate_authorization_response_iss,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from gaia_bridge.client.oauth.errors import LoginRefusedError
from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.oauth.interaction import Login
from gaia_bridge.client.oauth.store import TokenStore
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.client.transports.http_values import named_status, url_for_log, usable_url
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line

SdkClient = OAuthClientProvider | IdentityAssertionOAuthProvider
"""An OAuth client of the SDK: an `httpx2.Auth` whose flow makes requests of its own."""

_AnySdkClient = TypeVar("_AnySdkClient", bound=OAuthClientProvider)

_OUR_NAME: Final = "gaia-mcp-bridge"
"""What an authorization server tells the user that is asking."""

_NOT_REGISTERED: Final = "it sends us to another authorization server than the one that knows the configured client id"


def sdk_client(url: str, store: TokenStore, options: OAuthOptions, login: Login | None, scope: str | None) -> SdkClient:
    """The SDK's OAuth client for one attempt at a token.

    Args:
        scope: What was asked for until now.
    """
    method = options.token_endpoint_auth_method
    if options.identity_assertion is not None:
        return IdentityAssertionOAuthProvider(
            url,
            store,
            options.client_id or "",
            options.client_secret or "",
            _Issuer(options.issuer or ""),
            options.identity_assertion,
            scope=scope,
            token_endpoint_auth_method=method or "client_secret_basic",
        )
    if options.client_assertion is not None:
        return _informed(
            _AssertingClient(
                url, store, options.client_id or "", options.client_assertion, scope=scope, issuer=options.issuer
            ),
            store,
        )
    if options.grant == "client_credentials":
        return _informed(
            _SecretClient(
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


def check_authorization_server(client: OAuthClientProvider, options: OAuthOptions, *, registers: bool = False) -> None:
    """Make sure that what an SDK client has found is what it was sent to, before it is told anything.

    The user may have named the authorization server; else the MCP server does. One that is named has metadata, for
    without them the SDK would take the MCP server itself instead, as was the rule for the MCP servers of 2025-03-26,
    which name none.

    Args:
        client: Has found the authorization server, and is about to send the user or a request there.
        registers: Whether we are about to be registered there.

    Raises:
        AuthorizationError: It is another one, does not say who it is, or cannot do what it must.
    """
    metadata = client.context.oauth_metadata
    expected = options.issuer or client.context.auth_server_url
    if client.context.client_info is None and options.client_id is not None:
        raise AuthorizationError(_NOT_REGISTERED)
    if metadata is None:
        if expected is not None:
            raise AuthorizationError(f"its authorization server {one_line(expected, 100)} has no metadata")
        return
    found = str(metadata.issuer)
    if client.context.client_info is None and registers and metadata.registration_endpoint is None:
        raise AuthorizationError(
            f"its authorization server {one_line(found, 100)} registers no clients by itself: register one there, and "
            "name its id in the entry as oauth.clientId (and its secret as oauth.clientSecret, if it has one)"
        )
    if expected is not None and not issuers_match(found, expected):
        raise AuthorizationError(
            f"it sends us to another authorization server, {one_line(found, 100)}, than {one_line(expected, 100)}"
        )
    if options.asks_user and "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise AuthorizationError(f"its authorization server {one_line(found, 100)} does not support PKCE with S256")


class _Issuer(str):
    """An issuer that is equal to itself with and without its last slash, if it has no path.

    Both name one server (RFC 3986, section 6.2.3), and servers differ in it from their authorization servers, among
    them Google's. The SDK compares them letter by letter (RFC 8414, section 3.3), as is done with all others here.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and issuers_match(str.__str__(self), str.__str__(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _KnowsIssuers(OAuthClientProvider):
    """Takes an issuer with and without its last slash for the same."""

    def _expected_issuer(self) -> str:
        return _Issuer(super()._expected_issuer())


class _SecretClient(_KnowsIssuers, ClientCredentialsOAuthProvider):
    """Has an id and a secret of its own."""


class _AssertingClient(_KnowsIssuers, PrivateKeyJWTOAuthProvider):
    """Has an id of its own, and signs who it is."""


class _UserClient(_KnowsIssuers):
    """Logs users in at the authorization server that they have named, if the MCP server accepts several."""

    issuer: str | None = None

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted = self.issuer
        matching = (server for server in advertised if wanted is not None and issuers_match(server, wanted))
        return next(matching, advertised[0])


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
        check_authorization_server(client, options)
        try:
            answers.append(await login.authorize(_with_one_query(address)))
        except LoginRefusedError as refusal:
            if refusal.issuer is not None:  # what somebody else said is not repeated (RFC 9207, section 2.4)
                validate_authorization_response_iss(refusal.issuer, client.context.oauth_metadata)
            raise

    async def callback() -> AuthorizationCodeResult:
        return answers.pop()

    storage = _Registered(store, options, redirect_uri, lambda: check_authorization_server(client, options))
    client = _UserClient(url, metadata, storage, redirect, callback, options.client_metadata_url)
    client.issuer = options.issuer
    return client


def _with_one_query(address: str) -> str:
    """The address of a login page that has a query of its own; the SDK puts another behind it (RFC 6749, 3.1)."""
    page, _, parameters = address.rpartition("?")
    return f"{page}&{parameters}" if "?" in page else address


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
        options: May name a client that is registered already.
        redirect_uri: Where this login comes back to; `None` if nobody logs in.
        check: Makes sure that it is the right authorization server.
    """

    def __init__(
        self, store: TokenStore, options: OAuthOptions, redirect_uri: AnyUrl | None, check: Callable[[], None]
    ) -> None:
        self._store = store
        self._options = options
        self._redirect_uri = redirect_uri
        self._check = check

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
        """Keep a new client, with where its logins come back to: what is registered and not repeated is as asked."""
        if self._options.client_id is not None:
            raise AuthorizationError(_NOT_REGISTERED)
        self._check()
        if self._redirect_uri is not None and not client_info.redirect_uris:
            client_info = client_info.model_copy(update={"redirect_uris": [self._redirect_uri]})
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
