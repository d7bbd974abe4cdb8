"""Asks the user to log in: in a browser, at addresses that are checked first, or not at all."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import webbrowser
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Struct

from gaia_bridge.client.oauth.callback import CALLBACK_PATH, CallbackServer
from gaia_bridge.client.oauth.errors import LoginRefusedError, LoginRequiredError
from gaia_bridge.client.oauth.fetching import url_problem
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.web_addresses import is_loopback_host

logger = logging.getLogger(__name__)

_URL_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!*+,;=%&")
"""The characters of a URL (RFC 3986), without those special to a shell, which some desktop's opener may use."""


class Login(Protocol):
    """One login in progress."""

    @property
    def redirect_uri(self) -> str:
        """The address to which the authorization server sends the user back."""
        ...

    async def authorize(self, url: str) -> AuthorizationCodeResult:
        """Let the user log in at an unchecked URL; raise `AuthorizationError` for a refusal, or if no answer comes."""
        ...


class UserInteraction(Protocol):
    """The interface for asking the user to log in."""

    def login(self, redirect_uris: Sequence[str]) -> AbstractAsyncContextManager[Login]:
        """Be ready for a login, to the end of the block; raise `LoginRequiredError` if the user cannot be asked here.

        The redirect URIs are preferred, since the authorization server knows them.
        """
        ...


class NoInteraction:
    """An interaction without a user: a login has to be made beforehand."""

    def __init__(self, command: str) -> None:
        self._command = command

    def login(self, redirect_uris: Sequence[str]) -> AbstractAsyncContextManager[Login]:
        raise LoginRequiredError(self._command)


class BrowserInteraction:
    """The user's own browser; its answer comes to a port of this machine (RFC 8252).

    Args:
        tell: Shows a line to the user. The address is always shown, for a browser may be elsewhere.
        limits: `login_timeout` is the time that the user has.
        open_browser: Opens an address, as `webbrowser.open` does.
    """

    def __init__(
        self,
        tell: Callable[[str], object],
        limits: UpstreamLimits | None = None,
        *,
        open_browser: Callable[[str], bool] = webbrowser.open,
    ) -> None:
        self._tell = tell
        self._seconds = (limits or UpstreamLimits()).login_timeout
        self._open = open_browser

    @asynccontextmanager
    async def login(self, redirect_uris: Sequence[str]) -> AsyncGenerator[Login]:
        """Listen for the browser's answer, to the end of the block; at the port of a redirect URI, if it is free."""
        async with CallbackServer.listening(*_ports(redirect_uris)) as server:
            yield _BrowserLogin(server.url, server, self._tell, self._show, self._seconds)

    async def _show(self, url: str) -> None:
        if not _has_screen():
            return
        try:
            await anyio.to_thread.run_sync(self._open, url, abandon_on_cancel=True)
        except Exception as error:  # any failure is harmless: the user has seen the address
            logger.debug("no browser was opened (%s)", type(error).__name__)


class _BrowserLogin(Struct):
    redirect_uri: str
    server: CallbackServer
    tell: Callable[[str], object]
    show: Callable[[str], Coroutine[Any, Any, None]]
    seconds: float

    async def authorize(self, url: str) -> AuthorizationCodeResult:
        url = checked_login_url(url)
        state = parse_qs(urlsplit(url).query).get("state", [""])[-1]
        self.tell(f"Log in in your browser: {url}")
        try:
            with anyio.fail_after(self.seconds):
                return _result(await self._answer(url, state))
        except TimeoutError:
            raise AuthorizationError(f"nobody logged in within {self.seconds:g} s") from None

    async def _answer(self, url: str, state: str) -> Mapping[str, str]:
        showing = asyncio.create_task(self.show(url))  # a browser in a terminal does not return before it is closed
        try:
            return await self.server.answer(state)
        finally:
            showing.cancel()
            await asyncio.wait([showing])


def _result(answer: Mapping[str, str]) -> AuthorizationCodeResult:
    if "error" in answer or "code" not in answer:
        reason = ": ".join(part for key in ("error", "error_description") if (part := answer.get(key)))
        raise LoginRefusedError(reason, answer.get("iss"))
    return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))


def checked_login_url(url: str) -> str:
    """Check an authorization request before it is passed to a browser; return it with invalid characters encoded.

    Raises:
        AuthorizationError: The URL is neither https nor, on loopback, http; or its host has an odd spelling.
    """
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        raise AuthorizationError("it wants an address opened that cannot be read") from None
    if problem := url_problem(parsed, allow_http=is_loopback_host(parsed.host)):
        shown = one_line(f"{parsed.scheme}://{parsed.host}", 100)
        raise AuthorizationError(f"it wants an address opened ({shown}) that is {problem}")
    return "".join(c if c in _URL_CHARACTERS else "".join(f"%{b:02X}" for b in c.encode()) for c in str(parsed))


def _ports(redirect_uris: Sequence[str]) -> tuple[int, ...]:
    """Return the ports to try, in order; 0 is any."""
    for uri in redirect_uris:
        parts = urlsplit(uri)
        if parts.scheme == "http" and parts.hostname == "127.0.0.1" and parts.path == CALLBACK_PATH and parts.port:
            return (parts.port, 0)
    return (0,)


def _has_screen() -> bool:
    """Whether a browser can open a window. Without one, `webbrowser` would start a text browser in our terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
