"""The grants for a token: creates the fitting OAuth client of the SDK from the options and the stored login.

Each attempt has a new SDK client with the data of the store. The SDK's clients are designed to live as long as the
connection; but then they keep tokens that another process has replaced meanwhile, and lose the expiry and the origin
of stored tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider, PrivateKeyJWTOAuthProvider
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import issuers_match, validate_authorization_response_iss
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from gaia_bridge.client.oauth.errors import LoginRefusedError
from gaia_bridge.client.oauth.interaction import Login
from gaia_bridge.client.oauth.store import TokenStore
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.model import OAuthOptions
from gaia_bridge.text.escaping import one_line

SdkClient = OAuthClientProvider | IdentityAssertionOAuthProvider
"""An OAuth client of the SDK: an `httpx2.Auth` whose flow makes requests of its own."""
_OUR_NAME: Final = "gaia-mcp-bridge"
"""The name of the client that an authorization server shows to the user."""
_NOT_REGISTERED: Final = "it sends us to another authorization server than the one that knows the configured client id"


def sdk_client(url: str, store: TokenStore, options: OAuthOptions, login: Login | None, scope: str | None) -> SdkClient:
    """Create the SDK's OAuth client for one attempt at a token; `scope` is the one that was requested until now."""
    method = options.token_endpoint_auth_method
    client_id, secret, issuer = options.client_id or "", options.client_secret or "", options.issuer
    if options.identity_assertion is not None:
        return IdentityAssertionOAuthProvider(
            url,
            store,
            client_id,
            secret,
            _Issuer(issuer or ""),
            options.identity_assertion,
            scope=scope,
            token_endpoint_auth_method=method or "client_secret_basic",
        )
    client: OAuthClientProvider
    if options.client_assertion is not None:
        client = _AssertingClient(url, store, client_id, options.client_assertion, scope=scope, issuer=issuer)
    elif options.grant == "client_credentials":
        client = _SecretClient(
            url, store, client_id, secret, method or "client_secret_basic", scope=scope, issuer=issuer
        )
    else:
        client = _user_client(url, store, options, login, scope)
    # The SDK's client itself reads only tokens and registration from the store.
    client.context.oauth_metadata = store.login.server
    client.context.protected_resource_metadata = store.login.protection
    if store.login.protection is not None and store.login.server is not None:
        client.context.auth_server_url = store.login.issuer
    return client


def check_authorization_server(client: OAuthClientProvider, options: OAuthOptions, *, registers: bool = False) -> None:
    """Check that an SDK client has discovered the expected authorization server, before anything is sent there.

    The user may have named the authorization server; else the MCP server does. A named one must have metadata:
    without them the SDK would use the MCP server itself instead, as was the rule for the MCP servers of 2025-03-26,
    which name none.

    Args:
        registers: Whether the client is about to register there.

    Raises:
        AuthorizationError: The server is another one, has no metadata, or lacks a required ability.
    """
    metadata = client.context.oauth_metadata
    expected = options.issuer or client.context.auth_server_url
    if client.context.client_info is None and options.client_id is not None:
        raise AuthorizationError(_NOT_REGISTERED)
    if metadata is None:
        if expected is not None:
            raise AuthorizationError(f"its authorization server {one_line(expected, 100)} has no metadata")
        return
    issuer = str(metadata.issuer)
    if client.context.client_info is None and registers and metadata.registration_endpoint is None:
        raise AuthorizationError(
            f"its authorization server {one_line(issuer, 100)} registers no clients by itself: register one there, and "
            "name its id in the entry as oauth.clientId (and its secret as oauth.clientSecret, if it has one)"
        )
    if expected is not None and not issuers_match(issuer, expected):
        raise AuthorizationError(
            f"it sends us to another authorization server, {one_line(issuer, 100)}, than {one_line(expected, 100)}"
        )
    if options.asks_user and "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise AuthorizationError(f"its authorization server {one_line(issuer, 100)} does not support PKCE with S256")


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
    """Treats an issuer with and without its last slash as the same."""

    def _expected_issuer(self) -> str:
        return _Issuer(super()._expected_issuer())


class _SecretClient(_KnowsIssuers, ClientCredentialsOAuthProvider):
    """A client with an id and a secret of its own."""


class _AssertingClient(_KnowsIssuers, PrivateKeyJWTOAuthProvider):
    """A client with an id of its own, which authenticates itself by signed assertions."""


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
            if refusal.issuer is not None:  # an error of another issuer is not shown (RFC 9207, section 2.4)
                validate_authorization_response_iss(refusal.issuer, client.context.oauth_metadata)
            raise

    async def callback() -> AuthorizationCodeResult:
        return answers.pop()

    storage = _ClientStorage(store, options, redirect_uri, lambda: check_authorization_server(client, options))
    client = _UserClient(url, metadata, storage, redirect, callback, options.client_metadata_url)
    client.issuer = options.issuer
    return client


def _with_one_query(address: str) -> str:
    """Merge the query of a login page with the second one that the SDK appends (RFC 6749, 3.1)."""
    page, _, parameters = address.rpartition("?")
    return f"{page}&{parameters}" if "?" in page else address


class _ClientStorage:
    """The storage interface for an SDK client that logs users in; the options may name a client that is registered."""

    def __init__(
        self, store: TokenStore, options: OAuthOptions, redirect_uri: AnyUrl | None, check: Callable[[], None]
    ) -> None:
        self._store = store
        self.get_tokens, self.set_tokens = store.get_tokens, store.set_tokens
        self._options = options
        self._redirect_uri = redirect_uri
        self._check = check

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that the user has registered; else the stored one, as long as it fits."""
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
        """Store a new client with its redirect URI: if the answer omits that, the URI is registered as requested."""
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
