"""Authorisation through our own client: nothing of it before a server asks, all of it from then on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.oauth.on_demand import AuthorizationOnDemand
from gaia_bridge.client.transports.http.http_client import HttpClient, HttpReply
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from tests.servers.auth_server import AuthServer
from tests.servers.evil_http import Exchange
from tests.support.oauth_users import LIMITS, User, auth_of, client_with, seeded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


class Caller:
    """Calls a server, and says what came."""

    def __init__(self, client: HttpClient, auth: AuthorizationOnDemand) -> None:
        self.auth = auth
        self._client = client

    async def status(self) -> int:
        reply: HttpReply = await self._client.send("POST", {}, BODY)
        await reply.body()
        await reply.close()
        return reply.status


@asynccontextmanager
async def calling(server: AuthServer, folder: Path, user: User | None = None) -> AsyncGenerator[Caller]:
    spec = HttpServerSpec("weather", server.url)
    auth = AuthorizationOnDemand(spec, LIMITS, user, folder)
    client = HttpClient(spec, LIMITS, auth)
    try:
        with anyio.fail_after(10):
            yield Caller(client, auth)
    finally:
        await client.close()


async def test_a_server_that_wants_nothing_gets_nothing(server: AuthServer, tmp_path: Path) -> None:
    async def open_to_all(exchange: Exchange) -> None:
        await exchange.answer(exchange.result())

    server.http.faults["mcp"] = open_to_all
    async with calling(server, tmp_path) as caller:
        assert [await caller.status() for _ in range(3)] == [200] * 3
        assert caller.auth.known_headers() == {}
    assert "authorization" not in server.http.headers_of("mcp")
    assert not os.listdir(tmp_path)


async def test_a_user_logs_in_when_the_server_asks_and_then_the_token_is_known(
    server: AuthServer, tmp_path: Path
) -> None:
    user = User()
    async with calling(server, tmp_path, user) as caller:
        assert caller.auth.known_headers() == {}
        assert [await caller.status() for _ in range(3)] == [200] * 3
        assert (caller.auth.known_headers() or {})["authorization"].startswith("Bearer access-")
    assert user.logins == 1
    assert server.http.hits["mcp"] == 4


async def test_a_login_that_is_kept_is_used_from_the_first_request_on(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with calling(server, tmp_path) as caller:
        assert caller.auth.known_headers() is None
        assert [await caller.status() for _ in range(3)] == [200] * 3
        assert caller.auth.known_headers()
    assert dict(server.http.hits) == {"mcp": 3}


async def test_a_login_that_another_process_has_made_meanwhile_is_used_when_the_server_asks(
    server: AuthServer, tmp_path: Path
) -> None:
    async with calling(server, tmp_path) as caller:
        with pytest.raises(LoginRequiredError, match="gaia-bridge login weather"):
            await caller.status()
        await seeded(server, tmp_path)
        assert await caller.status() == 200


async def test_a_challenge_in_no_known_encoding_is_read_all_the_same(server: AuthServer, tmp_path: Path) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(status=401, headers={"www-authenticate": "Bearer error=\xe9\u03bb"})

    server.http.faults["mcp"] = refuse
    async with calling(server, tmp_path) as caller:
        with pytest.raises(LoginRequiredError):
            await caller.status()


async def test_a_token_that_has_expired_is_renewed_before_it_is_sent(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    [name] = [name for name in os.listdir(tmp_path) if name.endswith(".json")]
    path = anyio.Path(tmp_path, name)
    kept = json.loads(await path.read_text("utf-8"))
    await path.write_text(json.dumps({**kept, "expires_at": time.time() - 1}), "utf-8")
    async with calling(server, tmp_path) as caller:
        assert [await caller.status() for _ in range(2)] == [200] * 2
    assert server.grants["refresh_token"] == 1
    assert server.http.hits["mcp"] == 2


async def test_a_token_that_the_server_takes_back_is_renewed(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with calling(server, tmp_path) as caller:
        assert await caller.status() == 200
        server.valid.clear()
        assert await caller.status() == 200
    assert server.grants["refresh_token"] == 1


async def test_a_token_that_another_task_has_renewed_is_sent_without_asking(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with calling(server, tmp_path) as caller:
        assert await caller.status() == 200
        server.valid.clear()
        async with client_with(auth_of(server, tmp_path)) as another:
            assert (await another()).status_code == 200
        assert await caller.status() == 200
    assert server.grants["refresh_token"] == 1


@pytest.mark.parametrize("oauth", [None, OAuthOptions(client_secret="s3cret")])
def test_what_was_arranged_wrongly_is_told_before_any_request(oauth: OAuthOptions | None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="OAuth"):
        AuthorizationOnDemand(HttpServerSpec("up", "https://mcp.example.com", oauth=oauth), LIMITS, folder=tmp_path)
