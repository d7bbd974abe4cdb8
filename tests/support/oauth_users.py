"""A user who logs in, and the authorisations and calls of the OAuth tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.settings import UpstreamLimits
from tests.servers.auth_server import AuthServer
from tests.support.on_demand import oauth_interaction, oauth_provider, oauth_store

__all__ = ["LIMITS", "Call", "User", "auth_of", "client_with", "fifty", "problem", "seeded", "stored"]

Call = Callable[[], Coroutine[Any, Any, httpx2.Response]]
"""Sends a request to the server."""

LIMITS = UpstreamLimits(fetch_timeout=2.0, login_timeout=5.0)


class User:
    """A user with a browser, who logs in wherever the browser is sent."""

    def __init__(self) -> None:
        self.logins = 0
        self._browser = oauth_interaction.BrowserInteraction(lambda line: None, LIMITS, open_browser=self.open)

    def login(self, redirect_uris: Sequence[str]) -> AbstractAsyncContextManager[oauth_interaction.Login]:
        return self._browser.login(redirect_uris)

    def open(self, url: str) -> bool:
        self.logins += 1
        httpx2.get(url, follow_redirects=True, trust_env=False)
        return True


def auth_of(
    server: AuthServer, folder: Path, user: User | None = None, limits: UpstreamLimits = LIMITS, **options: Any
) -> oauth_provider.ServerAuthorization:
    spec = HttpServerSpec("weather", server.url, oauth=OAuthOptions(**options))
    return oauth_provider.oauth_for(spec, limits, interaction=user, folder=folder)


@asynccontextmanager
async def client_with(auth: oauth_provider.ServerAuthorization) -> AsyncGenerator[Call]:
    """What sends requests to the server, through a client that has nothing of ours but the authorisation."""
    async with httpx2.AsyncClient(auth=auth, trust_env=False, timeout=10) as client:

        async def call() -> httpx2.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            return await client.post(auth.url, json=body)

        yield call


async def seeded(server: AuthServer, folder: Path) -> None:
    """Leave a login in the store, as a user would have made it earlier."""
    async with client_with(auth_of(server, folder, User())) as call:
        assert (await call()).status_code == 200
    server.grants.clear()
    server.http.hits.clear()


async def problem(call: Call) -> AuthorizationError:
    with pytest.raises(AuthorizationError) as caught:
        await call()
    return caught.value


def stored(server: AuthServer, folder: Path, client_id: str | None = None) -> str | None:
    """The content of the file that the login is kept in."""
    path = oauth_store.TokenStore(server.url, client_id, folder=folder).path
    return path.read_text("utf-8") if path.exists() else None


async def fifty(auth: oauth_provider.ServerAuthorization) -> list[int | str]:
    """What becomes of fifty calls at once: a status, or the name of an error."""
    outcomes: list[int | str] = []
    async with client_with(auth) as call:

        async def one() -> None:
            try:
                outcomes.append((await call()).status_code)
            except AuthorizationError as error:
                outcomes.append(type(error).__name__)

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(one)
    return outcomes
