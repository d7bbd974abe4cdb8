"""The authorisation of requests to one MCP server: an `httpx2.Auth` around the SDK's OAuth clients.

The SDK's clients implement the protocol: discovery, registration, PKCE, resource indicators, issuer checks. By
themselves they send everything through the MCP server's own connections, wherever the server points; and while one
request waits for its answer, all others wait for it. So they do not handle requests, but only get tokens: when one is
missing, refused or expired, an SDK client is driven through its flow with the server's challenge, and all its requests
go through a guarded `Fetcher`. At most one such flow runs for a server, in all of our processes; requests that waited
for it share its outcome.
"""

from __future__ import annotations

import contextvars
import logging
import shlex
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import Final

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from msgspec import Struct

from gaia_bridge.client.oauth.answers import check_answer, grant_of, refused_renewal, without_scope
from gaia_bridge.client.oauth.callback import callback_url
from gaia_bridge.client.oauth.errors import LoginNotAcceptedError, LoginRequiredError, with_token
from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.oauth.grants import SdkClient, check_authorization_server, sdk_client
from gaia_bridge.client.oauth.interaction import Login, NoInteraction, UserInteraction
from gaia_bridge.client.oauth.store import StoredLogin, TokenStore
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.client.transports.http.http_values import origin, usable_url
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.web_addresses import is_loopback_host

_CHALLENGES: Final = 8
"""The most times that one request is sent. The rules below end sooner; this is a safeguard."""
_PAST: Final = 1.0
"""A time in the past; not 0, which means "never" to the SDK."""
_REVISION: Final = "mcp-protocol-version"
_NOT_ACCEPTED: Final = "it does not accept the token that the login gave"
_driving: contextvars.ContextVar[bool] = contextvars.ContextVar("driving", default=False)


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Filter out the SDK's logs of failures: their tracebacks repeat servers' data, and we report failures already."""
    return not (_driving.get() and record.exc_info)


logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_not_ours)


def oauth_for(
    spec: HttpServerSpec,
    limits: UpstreamLimits | None = None,
    *,
    interaction: UserInteraction | None = None,
    folder: Path | None = None,
) -> ServerAuthorization:
    """Create the authorisation for one server; the `auth=` of its transport. Does nothing until the server demands it.

    Args:
        interaction: Asks the user to log in; without it, a request that needs a login fails with the command to run.
        folder: The folder of logins; `~/.gaia/oauth`, if not given.

    Raises:
        ConfigError: The OAuth options are incomplete, or logins are switched off.
        UpstreamError: The URL is invalid, or there is no folder.
    """
    limits, options = limits or UpstreamLimits(), spec.oauth
    problem = "it is not to be logged in to" if options is None else options.problem
    if options is None or problem:
        raise ConfigError(f"server {spec.name!r}", f"OAuth: {problem}")
    # The query may be secret; the rest of the URL is sent to the authorization server.
    url = str(usable_url(spec.url).copy_with(userinfo=b"", query=None, fragment=None))
    return ServerAuthorization(
        url,
        limits,
        options,
        interaction or NoInteraction(f"gaia-bridge login {shlex.quote(spec.name)}"),
        TokenStore(url, options.client_id, options.issuer, folder),
        Fetcher(url, limits, issuer=options.issuer, proxy=spec.proxy),
        with_token(spec.name, url, " --force"),
    )


class _Attempt(Struct):
    """One request, and the steps that were taken for it."""

    request: httpx2.Request
    token: str | None
    renewed: bool = False
    logged_in: bool = False
    step_ups: int = 0


class _Login(Struct):
    """A login that was made in this process, as long as no other has replaced it."""

    token: str
    """The access token, as it was last renewed."""
    requested: str | None
    """The requested scope; the authorization server may have granted less."""
    accepted: bool = False
    """Whether the server has accepted the token."""


class ServerAuthorization(httpx2.Auth):
    """Authorises requests to one server, and to no other; the fetcher sends those that are not for the server."""

    def __init__(
        self,
        url: str,
        limits: UpstreamLimits,
        options: OAuthOptions,
        interaction: UserInteraction,
        store: TokenStore,
        fetcher: Fetcher,
        with_token: str,
    ) -> None:
        self.url = httpx2.URL(url)
        self._limits = limits
        self._options = options
        self._interaction = interaction
        self._store = store
        self._fetcher = fetcher
        self._with_token = with_token
        self._lock = anyio.Lock()
        self._login: StoredLogin | None = None
        self._failures = 0
        self._failure: AuthorizationError | None = None
        self._made: _Login | None = None

    async def forget(self) -> None:
        """Delete the stored login and the client registration: the next login begins anew.

        Raises:
            AuthorizationError: The stored login cannot be changed.
        """
        async with self._lock, self._store.locked(self._limits.login_timeout):
            await self._store.load()
            await self._store.forget(client=True)
            self._login, self._made = self._store.login, None

    def known_headers(self) -> Mapping[str, str] | None:
        """Return the headers of a request, or `None` if a flow is needed first. See `Authorization.known_headers`."""
        login, made = self._login, self._made
        if login is None or login.stale or (made is not None and not made.accepted):
            return None
        return {} if login.access_token is None else {"authorization": f"Bearer {login.access_token}"}

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Raise `RuntimeError`: there is no blocking way."""
        raise RuntimeError("this authorisation works with httpx2.AsyncClient only")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and again with another when the server demands it.

        The request's own `Authorization` header is replaced.

        Raises:
            AuthorizationError: No token could be obtained, or none that the server accepts.
        """
        if origin(request.url) != origin(self.url):
            raise AuthorizationError("its token is not for another server")
        attempt = _Attempt(request, await self._token(request))
        for _ in range(_CHALLENGES):
            request.headers.pop("authorization", None)
            if attempt.token is not None:
                request.headers["authorization"] = f"Bearer {attempt.token}"
            response = yield request
            if response.status_code != 401 and self._made is not None and self._made.token == attempt.token:
                self._made.accepted = True
            if not self._is_worth_another(attempt, response):
                return
            await self._authorise(attempt, response)

    def _is_worth_another(self, attempt: _Attempt, response: httpx2.Response) -> bool:
        """Whether another token could change the answer; an error if the server demands one again and again."""
        if response.status_code == 401:
            if attempt.logged_in:
                raise LoginNotAcceptedError(_NOT_ACCEPTED)
            return True
        if not _wants_more(response):
            return False
        if attempt.step_ups >= self._limits.step_ups:
            wanted = one_line(extract_scope_from_www_auth(response) or "", 100)
            raise AuthorizationError(f"it wants a wider scope again ({wanted!r}), for one and the same request")
        attempt.step_ups += 1
        return True

    async def _token(self, request: httpx2.Request) -> str | None:
        """Return the stored token, renewed first if it has expired."""
        if self._login is None:
            async with self._lock:
                self._login = self._login or await self._store.load()
        login = self._login
        if not login.stale:
            return login.access_token
        attempt = _Attempt(request, login.access_token)
        await self._authorise(attempt, None)
        return attempt.token

    async def _authorise(self, attempt: _Attempt, refusal: httpx2.Response | None) -> None:
        """Get another token than that of the attempt: by a flow of its own, or from one that is in progress.

        The refusal is the server's answer to that token; `None` if the request was not sent.
        """
        failures = self._failures
        async with self._lock:
            if self._failure is not None and self._failures != failures:
                raise self._failure  # this request waited for that flow, and shares its outcome
            try:
                async with self._store.locked(self._limits.login_timeout):
                    await self._get_token(attempt, refusal)
            except LoginNotAcceptedError:  # there was no flow whose outcome others could share
                raise
            except AuthorizationError as error:
                self._failures += 1
                self._failure = error
                raise
            finally:
                self._login = self._store.login

    async def _get_token(self, attempt: _Attempt, refusal: httpx2.Response | None) -> None:
        if self.url.scheme != "https" and not is_loopback_host(self.url.host):
            raise AuthorizationError("a token would cross the network for all to read; use https")
        earlier = self._store.login.access_token
        login = await self._store.load()
        if login.access_token != earlier:
            self._made = None
        if login.access_token in (None, attempt.token) or login.stale:
            await self._replace_token(attempt, refusal)
        attempt.token = self._store.login.access_token

    async def _replace_token(self, attempt: _Attempt, refusal: httpx2.Response | None) -> None:
        if refusal is not None:
            self._insist_on_news(attempt, refusal)
        if not attempt.renewed and not (refusal is not None and _wants_more(refusal)):
            attempt.renewed = True
            if await self._renew(attempt.request):
                return
        if refusal is not None:
            await self._log_in(attempt.request, refusal)
            attempt.logged_in = True

    def _insist_on_news(self, attempt: _Attempt, refusal: httpx2.Response) -> None:
        """Refuse a login like the one that the server has just refused although it had all that it demanded."""
        made = self._made
        if made is None or made.token != attempt.token:
            return
        if _wants_more(refusal):
            wanted = extract_scope_from_www_auth(refusal) or ""
            if set(wanted.split()) <= set((made.requested or "").split()):
                raise LoginNotAcceptedError(
                    f"it wants the scope {one_line(wanted, 100)!r} and does not accept the login with it"
                )
        elif self._options.asks_user and not made.accepted:
            raise LoginNotAcceptedError(_NOT_ACCEPTED)

    async def _renew(self, request: httpx2.Request) -> bool:
        """Use the refresh token; return whether there is a new access token. Useless tokens are deleted."""
        login = self._store.login
        old = login.tokens
        if old is None:
            return False
        client = sdk_client(str(self.url), self._store, self._options, None, self._options.scope)
        if old.refresh_token and isinstance(client, OAuthClientProvider):
            client.context.token_expiry_time = _PAST
            await self._drive(client, request, None)
            new = self._store.login.tokens
            if new is not old:
                if new is not None and self._made is not None:
                    self._made.token = new.access_token
                return new is not None
        elif not login.stale:
            return False
        await self._store.forget()
        return False

    async def _log_in(self, request: httpx2.Request, refusal: httpx2.Response) -> None:
        """Run the whole flow to a token, from the server's challenge on."""
        if not self._options.asks_user:
            await self._follow(request, refusal, None)
            return
        client, port = self._store.login.client, self._options.callback_port
        redirect_uris = [str(uri) for uri in (client.redirect_uris or ())] if client else []
        if port is not None:
            redirect_uris = [callback_url(port)]
        try:
            waiting = self._interaction.login(redirect_uris)
        except LoginRequiredError as error:
            if extract_field_from_www_auth(refusal, "resource_metadata") is not None:
                raise
            raise LoginRequiredError(error.command, self._with_token) from None  # it may give out no tokens at all
        async with waiting as login:
            if port is not None and login.redirect_uri not in redirect_uris:
                raise AuthorizationError(f"port {port}, which a login has to come back to, is taken on this machine")
            await self._follow(request, refusal, login)

    async def _follow(self, request: httpx2.Request, refusal: httpx2.Response, login: Login | None) -> None:
        old = self._store.login.tokens
        requested = self._options.scope if self._made is None else self._made.requested
        client = sdk_client(str(self.url), self._store, self._options, login, requested)
        try:
            await self._drive(client, request, self._challenge(refusal))
        except AuthorizationError as error:
            if isinstance(client, OAuthClientProvider) and client.context.oauth_metadata is None:
                raise AuthorizationError(f"{error.problem}; it may be added {self._with_token}") from None
            raise
        tokens = self._store.login.tokens
        if tokens is None or tokens is old:
            raise AuthorizationError("the authorization server gave no token")
        if isinstance(client, OAuthClientProvider):
            requested = client.context.client_metadata.scope
        self._made = _Login(tokens.access_token, requested)

    def _challenge(self, refusal: httpx2.Response) -> httpx2.Response:
        """Copy the refusal for the SDK: without a body, and with the user's scope where the server names none."""
        value = refusal.headers.get("www-authenticate", "")
        if self._options.scope and extract_scope_from_www_auth(refusal) is None:
            value = f'{value or "Bearer"}{"," if "=" in value else ""} scope="{self._options.scope}"'
        return httpx2.Response(refusal.status_code, headers=[(b"www-authenticate", value.encode())])

    async def _drive(self, client: SdkClient, request: httpx2.Request, challenge: httpx2.Response | None) -> None:
        """Run the flow of an SDK client until it would send the request itself, with a token.

        The challenge is the server's answer to that request; `None` if it was not sent yet.
        """
        revision = request.headers.get(_REVISION)
        probe = httpx2.Request(request.method, self.url, headers={_REVISION: revision} if revision else {})
        flow = client.async_auth_flow(probe)
        try:
            wanted = await _step(flow, None)
            while wanted is not None:
                if wanted is not probe:
                    wanted = await self._send(flow, client, wanted)
                elif challenge is None:
                    return
                else:
                    wanted, challenge = await _step(flow, challenge), None
        finally:
            await flow.aclose()

    async def _send(
        self, flow: AsyncGenerator[httpx2.Request, httpx2.Response], client: SdkClient, request: httpx2.Request
    ) -> httpx2.Request | None:
        """Send a request of an SDK client, and pass the answer to the client."""
        if isinstance(client, OAuthClientProvider):
            if request.method == "POST":
                check_authorization_server(client, self._options, registers=grant_of(request) is None)
            self._store.set_metadata(client.context.oauth_metadata, client.context.protected_resource_metadata)
        wanted: httpx2.Request | None = None
        # Codes and refresh tokens can be used once: a cancellation now must not lose the tokens they are exchanged for.
        with anyio.CancelScope(shield=grant_of(request) is not None):
            response = await self._fetcher.fetch(request)
            if (again := without_scope(request, response)) is not None:
                response = await self._fetcher.fetch(again)
            check_answer(request, response)
            if refused_renewal(request, response) == "invalid_client":
                await self._store.forget(client=True)
            wanted = await _step(flow, response)
        return wanted


def _wants_more(response: httpx2.Response) -> bool:
    return response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"


async def _step(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], response: httpx2.Response | None
) -> httpx2.Request | None:
    """Return the next request of an SDK client's flow, or `None` at its end."""
    token = _driving.set(True)
    try:
        return await (anext(flow) if response is None else flow.asend(response))
    except StopAsyncIteration:
        return None
    except AuthorizationError:
        raise
    except OAuthFlowError as error:
        raise AuthorizationError(one_line(str(error), 300)) from None
    except (httpx2.InvalidURL, ValueError) as error:  # the text may repeat what servers sent
        raise AuthorizationError(f"it says something that cannot be read ({type(error).__name__})") from None
    finally:
        _driving.reset(token)
