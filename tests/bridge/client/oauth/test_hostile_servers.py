"""Servers that lead astray, lie about who they are, or would like to see what is not theirs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from gaia_bridge.client.oauth.errors import FetchError, LoginNotAcceptedError
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.text.json_types import JSON
from tests.servers.auth_server import AuthServer, auth_server
from tests.servers.evil_http import Exchange
from tests.support.oauth_users import LIMITS, User, auth_of, client_with, problem, seeded, stored
from tests.support.on_demand import oauth_provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

DOCUMENT = "https://client.example.com/metadata.json"


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


def foreign_resource(server: AuthServer) -> None:
    server.protection["resource"] = "https://bank.example.com/mcp"


def nameless(server: AuthServer) -> None:
    server.metadata.clear()


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize("client_id", [None, "me"])
@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        (without_pkce, "does not support PKCE with S256"),
        (plain_pkce, "does not support PKCE with S256"),
        (foreign_metadata, "issuer mismatch"),
        (foreign_resource, "does not match"),
        (nameless, "has no metadata"),
    ],
)
async def test_nobody_is_sent_to_a_server_that_is_not_what_it_should_be(
    server: AuthServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    lie: Callable[[AuthServer], None],
    expected: str,
    client_id: str | None,
) -> None:
    lie(server)
    user = User()
    async with client_with(auth_of(server, tmp_path, user, client_id=client_id)) as call:
        assert expected in str(await problem(call))
    assert (user.logins, len(server.clients), server.http.hits["token"]) == (0, 0, 0)
    assert "Traceback" not in caplog.text


@pytest.mark.requirement("S-21")
async def test_an_answer_of_another_authorization_server_is_worth_no_token(server: AuthServer, tmp_path: Path) -> None:
    server.wrong_issuer = "https://evil.example.com"
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert "iss mismatch" in str(await problem(call))
    assert not server.grants


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize(
    ("issuer", "expected", "repeated"),
    [(None, "No way", True), ("own", "No way", True), ("https://evil.example.com", "iss mismatch", False)],
)
async def test_the_words_of_another_authorization_server_are_not_repeated(
    server: AuthServer, tmp_path: Path, issuer: str | None, expected: str, repeated: bool
) -> None:
    async def refuses(exchange: Exchange) -> None:
        request = dict(parse_qsl(urlsplit(exchange.target).query))
        answer = {"error": "access_denied", "error_description": "No way", "state": request["state"]}
        if issuer is not None:
            answer["iss"] = server.issuer if issuer == "own" else issuer
        location = f"{request['redirect_uri']}?{urlencode(answer)}"
        await exchange.answer(status=302, headers={"location": location})

    server.http.faults["authorize"] = refuses
    async with client_with(auth_of(server, tmp_path, User())) as call:
        text = str(await problem(call))
    assert expected in text
    assert ("No way" in text) is repeated


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize(
    "client", [{}, {"client_id": "me", "client_secret": "s3cret"}, {"client_metadata_url": DOCUMENT}]
)
async def test_where_the_user_has_named_another_authorization_server_nothing_is_sent(
    server: AuthServer, tmp_path: Path, client: JSON
) -> None:
    user = User()
    server.metadata["client_id_metadata_document_supported"] = True
    async with auth_server() as other:
        async with client_with(auth_of(server, tmp_path, user, issuer=other.issuer, **client)) as call:
            assert "another authorization server" in str(await problem(call))
        assert not other.http.hits
    assert (user.logins, len(server.clients), server.http.hits["token"]) == (0, 0, 0)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".json")], "nothing is kept of it"


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize("document", [None, DOCUMENT])
async def test_a_client_secret_stays_with_the_authorization_server_of_the_first_login(
    server: AuthServer, tmp_path: Path, document: str | None
) -> None:
    user = User()
    client: JSON = {"client_id": "me", "client_secret": "s3cret", "client_metadata_url": document}
    async with client_with(auth_of(server, tmp_path, user, **client)) as call:
        assert (await call()).status_code == 200
        server.valid.clear()
        server.refresh_tokens.clear()
        async with auth_server() as other:
            server.protection["authorization_servers"] = [other.issuer]
            other.metadata["client_id_metadata_document_supported"] = True
            assert "another authorization server" in str(await problem(call))
            assert (set(other.http.hits), user.logins) == ({".well-known"}, 1)


@pytest.mark.requirement("S-22")
@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "a\r\nX-Injected: 1"},
        {"access_token": "a b"},
        {"access_token": "é"},
        {"access_token": ""},
        {"access_token": "a", "expires_in": 10**400},
        {"access_token": "a", "expires_in": -(10**400)},
        {"access_token": "a", "token_type": "DPoP"},
    ],
)
async def test_a_token_that_cannot_be_used_is_none(server: AuthServer, tmp_path: Path, answer: JSON) -> None:
    server.http.faults["token"] = lambda exchange: exchange.answer({"token_type": "Bearer", **answer})
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert "answered without a token (application/json)" in str(await problem(call))
    assert '"tokens"' not in (stored(server, tmp_path) or "")


@pytest.mark.requirement("S-24")
async def test_of_a_code_that_is_refused_only_the_error_is_repeated(server: AuthServer, tmp_path: Path) -> None:
    said = {"error": "invalid_client", "error_description": "No way", "access_token": "s3cret"}
    server.http.faults["token"] = lambda exchange: exchange.answer(said, status=401)
    async with client_with(auth_of(server, tmp_path, User())) as call:
        text = str(await problem(call))
    assert text.endswith("/token answered with HTTP 401 (Unauthorized), invalid_client: No way")


@pytest.mark.requirement("S-36")
async def test_what_is_in_the_query_of_a_url_is_not_told_to_its_authorization_server(
    server: AuthServer, tmp_path: Path
) -> None:
    """Where the server does not say what it is called, it is called by its URL."""
    documents = server.http.faults[".well-known"]

    async def only_metadata(exchange: Exchange) -> None:
        if exchange.path[1] == "oauth-protected-resource":
            await exchange.answer(status=404)
        else:
            await documents(exchange)

    server.http.faults[".well-known"] = only_metadata
    url = f"{server.url}?key=s3cret"
    auth = oauth_provider.oauth_for(HttpServerSpec("weather", url), LIMITS, interaction=User(), folder=tmp_path)
    headers = {"mcp-protocol-version": "2025-11-25"}
    async with httpx2.AsyncClient(auth=auth, trust_env=False, headers=headers) as client:
        assert (await client.post(url, json={"id": 1})).status_code == 200
    assert server.authorizations[-1]["resource"] == server.token_requests[-1]["resource"] == server.url
    kept = stored(server, tmp_path)
    assert kept is not None and "s3cret" not in kept


@pytest.mark.requirement("S-21")
async def test_credentials_do_not_move_to_another_authorization_server(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with auth_server() as other:
        server.protection["authorization_servers"] = [other.issuer]
        server.valid.clear()
        server.refresh_tokens.clear()
        other.url = server.url
        async with client_with(auth_of(server, tmp_path, User())) as call:
            error = await problem(call)
        assert isinstance(error, LoginNotAcceptedError), "the server does not know the other's tokens"
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
    auth = oauth_provider.oauth_for(
        HttpServerSpec("up", "http://mcp.example.com/mcp"), LIMITS, interaction=User(), folder=tmp_path
    )
    refusal = httpx2.MockTransport(lambda request: httpx2.Response(401))
    async with httpx2.AsyncClient(auth=auth, transport=refusal) as client:
        with pytest.raises(AuthorizationError, match="use https"):
            await client.get("http://mcp.example.com/mcp")
