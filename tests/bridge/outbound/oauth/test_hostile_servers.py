"""Servers that lead astray, lie about who they are, or would like to see what is not theirs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from gaia_bridge.model import HttpServerSpec
from gaia_bridge.outbound.oauth.errors import AuthorizationError, FetchError
from gaia_bridge.outbound.oauth.grants import OAuthOptions
from gaia_bridge.outbound.oauth.provider import oauth_for
from tests.oauth_helpers import LIMITS, User, auth_of, client_with, problem, seeded
from tests.servers.auth_server import AuthServer, auth_server

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("S-22", "F-066")
@pytest.mark.parametrize(
    "place",
    [
        "https://169.254.169.254/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://[2002:0a00:1::]/",
        "https://2130706433/",
        "http://127.1/",
        "file:///etc/passwd",
        "https://good@127.0.0.1/",
        "//10.0.0.1/",
        "\x80",
        "https://[",
    ],
)
async def test_a_hostile_challenge_leads_nowhere(server: AuthServer, tmp_path: Path, place: str) -> None:
    server.challenge = f'Bearer resource_metadata="{place}"'
    user = User()
    async with client_with(auth_of(server, tmp_path, user)) as call:
        await problem(call)
    assert dict(server.http.hits) == {"mcp": 1}
    assert user.logins == 0


@pytest.mark.requirement("S-22")
@pytest.mark.parametrize("field", ["token_endpoint", "registration_endpoint"])
async def test_hostile_metadata_lead_nowhere(server: AuthServer, tmp_path: Path, field: str) -> None:
    server.metadata[field] = "https://10.0.0.1/token"
    async with client_with(auth_of(server, tmp_path, User())) as call:
        error = await problem(call)
    assert isinstance(error, FetchError)
    assert "it leads to https://10.0.0.1/token, which is an internal address" in str(error)


@pytest.mark.requirement("S-23", "C-1")
@pytest.mark.parametrize(
    "place", ["http://as.example.com/authorize", "http://10.0.0.1/authorize", "https://u@as.example.com/"]
)
async def test_a_hostile_login_page_is_not_opened(server: AuthServer, tmp_path: Path, place: str) -> None:
    server.metadata["authorization_endpoint"] = place
    user = User()
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert "wants an address opened" in str(await problem(call))
    assert user.logins == 0


@pytest.mark.requirement("C-14")
@pytest.mark.parametrize(
    "path", ["mcp//10.0.0.1/x", "mcp/.%2e//10.0.0.1", "mcp/%2e%2e/%2F/10.0.0.1", "mcp/@10.0.0.1", "mcp?u=//10.0.0.1"]
)
async def test_what_is_built_from_a_path_stays_at_the_server(server: AuthServer, tmp_path: Path, path: str) -> None:
    server.url = server.http.url(path)
    server.challenge = "Bearer"
    server.protection["authorization_servers"] = [server.http.url(path)]
    async with client_with(auth_of(server, tmp_path, User())) as call:
        await problem(call)
    assert set(server.http.hits) == {"mcp", ".well-known"}
    assert server.http.hits[".well-known"] >= 2


def without_pkce(server: AuthServer) -> None:
    del server.metadata["code_challenge_methods_supported"]


def plain_pkce(server: AuthServer) -> None:
    server.metadata["code_challenge_methods_supported"] = ["plain"]


def foreign_metadata(server: AuthServer) -> None:
    server.metadata["issuer"] = "https://honest.example.com"


def foreign_answer(server: AuthServer) -> None:
    server.wrong_issuer = "https://evil.example.com"


def foreign_resource(server: AuthServer) -> None:
    server.protection["resource"] = "https://bank.example.com/mcp"


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        (without_pkce, "does not support PKCE with S256"),
        (plain_pkce, "does not support PKCE with S256"),
        (foreign_metadata, "issuer mismatch"),
        (foreign_answer, "iss mismatch"),
        (foreign_resource, "does not match"),
    ],
)
async def test_a_server_that_is_not_what_it_says_gets_no_token(
    server: AuthServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    lie: Callable[[AuthServer], None],
    expected: str,
) -> None:
    lie(server)
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert expected in str(await problem(call))
    assert not server.grants
    assert "Traceback" not in caplog.text


@pytest.mark.requirement("S-21")
async def test_credentials_do_not_move_to_another_authorization_server(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with auth_server() as other:
        server.protection["authorization_servers"] = [other.issuer]
        server.valid.clear()
        server.refresh_tokens.clear()
        other.url = server.url
        async with client_with(auth_of(server, tmp_path, User())) as call:
            response = await call()
        assert response.status_code == 401, "the server does not know the other's tokens"
        assert len(other.clients) == 1
        assert dict(other.grants) == {"authorization_code": 1}
        sent = b"".join(exchange.head + exchange.body for exchange in other.http.seen)
        assert not any(secret in sent for secret in (b"refresh-", b"access-"))


@pytest.mark.requirement("S-21", "S-24")
async def test_nothing_secret_reaches_a_log_or_a_representation(
    server: AuthServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gaia_bridge")
    caplog.set_level(logging.DEBUG, "mcp")
    server.expires_in = 0
    auth = auth_of(server, tmp_path, User(), client_secret="s3cret", client_id="me")
    async with client_with(auth) as call:
        await call()
        await call()
    text = caplog.text + repr(auth) + repr(OAuthOptions(client_id="me", client_secret="s3cret"))
    assert not [secret for secret in (*server.valid, *server.refresh_tokens, "s3cret", "code-") if secret in text]


async def test_a_token_does_not_cross_a_network_in_the_clear(tmp_path: Path) -> None:
    auth = oauth_for(HttpServerSpec("up", "http://mcp.example.com/mcp"), LIMITS, interaction=User(), folder=tmp_path)
    refusal = httpx2.MockTransport(lambda request: httpx2.Response(401))
    async with httpx2.AsyncClient(auth=auth, transport=refusal) as client:
        with pytest.raises(AuthorizationError, match="use https"):
            await client.get("http://mcp.example.com/mcp")
