"""What a user may have arranged with an authorization server beforehand."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gaia_bridge.errors import ConfigError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.text.json_types import JSON
from tests.servers.auth_server import AuthServer, auth_server
from tests.servers.evil_http import Exchange
from tests.support.oauth_users import LIMITS, User, auth_of, client_with, problem, seeded, stored
from tests.support.on_demand import oauth_grants, oauth_provider

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("S-21")
async def test_a_registered_client_is_used_as_it_is(server: AuthServer, tmp_path: Path) -> None:
    async with client_with(auth_of(server, tmp_path, User(), client_id="me", client_secret="s3cret")) as call:
        assert (await call()).status_code == 200
    assert not server.clients
    assert server.authorizations[-1]["client_id"] == "me"
    assert server.http.headers_of("token")["authorization"].startswith("Basic ")
    kept = stored(server, tmp_path, "me")
    assert kept is not None
    assert "access_token" in kept
    assert "s3cret" not in kept


async def test_the_authorization_server_that_the_user_has_named_is_chosen(server: AuthServer, tmp_path: Path) -> None:
    server.protection["authorization_servers"] = ["https://as.example.com", server.issuer]
    async with client_with(auth_of(server, tmp_path, User(), issuer=server.issuer)) as call:
        assert (await call()).status_code == 200


async def test_a_registered_client_may_have_one_port_that_logins_come_back_to(
    server: AuthServer, tmp_path: Path
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        port = busy.getsockname()[1]
        auth = auth_of(server, tmp_path, User(), client_id="me", callback_port=port)
        busy.listen()
        async with client_with(auth) as call:
            assert f"port {port}, which a login has to come back to, is taken" in str(await problem(call))
    async with client_with(auth) as call:
        assert (await call()).status_code == 200
    [request] = server.authorizations
    assert request["redirect_uri"] == f"http://127.0.0.1:{port}/callback"


async def test_a_registration_that_does_not_repeat_the_port_is_for_that_port_all_the_same(
    server: AuthServer, tmp_path: Path
) -> None:
    register = server.http.faults["register"]
    server.http.faults["register"] = lambda exchange: exchange.answer({"client_id": "terse"}, status=201)
    await seeded(server, tmp_path)
    port = urlsplit(server.authorizations[-1]["redirect_uri"]).port
    server.valid.clear()
    server.refresh_tokens.clear()
    server.http.faults["register"] = register
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # somebody else was faster
            busy.bind(("127.0.0.1", port))
            busy.listen()
        async with client_with(auth_of(server, tmp_path, User())) as call:
            assert (await call()).status_code == 200
    assert [request["client_id"] for request in server.authorizations] == ["terse", *server.clients]


@pytest.mark.parametrize(("expires_at", "registrations"), [(1, 2), (0, 1), (4_000_000_000, 1)])
async def test_a_client_whose_secret_has_expired_is_registered_again(
    server: AuthServer, tmp_path: Path, expires_at: int, registrations: int
) -> None:
    given = {"client_secret_expires_at": expires_at, "token_endpoint_auth_method": "client_secret_post"}

    async def register(exchange: Exchange) -> None:
        number = len(server.clients)
        client = {**exchange.message, **given, "client_id": f"client-{number}", "client_secret": f"s3cret-{number}"}
        server.clients[f"client-{number}"] = client
        await exchange.answer(client, status=201)

    server.http.faults["register"] = register
    await seeded(server, tmp_path)
    server.valid.clear()
    server.refresh_tokens.clear()
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert (await call()).status_code == 200
    assert len(server.clients) == registrations
    assert server.token_requests[-1]["client_secret"] == f"s3cret-{registrations - 1}"


async def test_a_login_page_may_have_a_query_of_its_own(server: AuthServer, tmp_path: Path) -> None:
    server.metadata["authorization_endpoint"] += "?policy=strict"
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert (await call()).status_code == 200
    [request] = server.authorizations
    assert (request["policy"], request["response_type"]) == ("strict", "code")


@pytest.mark.requirement("S-21")
async def test_a_client_secret_is_not_sent_to_another_authorization_server(server: AuthServer, tmp_path: Path) -> None:
    async with auth_server() as other:
        options: JSON = {"client_id": "me", "client_secret": "s3cret", "issuer": other.issuer}
        async with client_with(auth_of(server, tmp_path, User(), **options)) as call:
            assert "another authorization server" in str(await problem(call))
    assert not server.grants


async def test_a_published_client_document_is_named_where_it_is_understood(server: AuthServer, tmp_path: Path) -> None:
    document = "https://client.example.com/metadata.json"
    server.metadata["client_id_metadata_document_supported"] = True
    async with client_with(auth_of(server, tmp_path, User(), client_metadata_url=document)) as call:
        assert (await call()).status_code == 200
    assert server.authorizations[-1]["client_id"] == document
    assert not server.clients


async def test_client_credentials_need_nobody(server: AuthServer, tmp_path: Path) -> None:
    options: JSON = {
        "grant": "client_credentials",
        "client_id": "me",
        "client_secret": "s3cret",
        "issuer": server.issuer,
    }
    async with client_with(auth_of(server, tmp_path, **options)) as call:
        assert (await call()).status_code == 200
        server.valid.clear()
        assert (await call()).status_code == 200
    assert server.grants["client_credentials"] >= 1
    assert server.http.headers_of("token")["authorization"].startswith("Basic ")


async def test_a_signed_assertion_says_who_we_are(server: AuthServer, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    options: JSON = {
        "client_id": "me",
        "issuer": server.issuer,
        "client_assertion": oauth_grants.signed_assertion("me", key.decode()),
    }
    async with client_with(auth_of(server, tmp_path, **options)) as call:
        assert (await call()).status_code == 200
    [request] = server.token_requests
    assert request["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert request["client_assertion"].count(".") == 2


async def test_an_identity_provider_vouches_for_the_user(server: AuthServer, tmp_path: Path) -> None:
    exchanged: list[bytes] = []

    async def token(exchange: Exchange) -> None:
        await exchange.answer(server.issue())

    async def identity(exchange: Exchange) -> None:
        exchanged.append(exchange.body)
        await exchange.answer({"access_token": "id-jag"})

    server.http.faults.update(token=token, identity=identity)
    vouching = oauth_grants.identity_exchange(server.http.url("identity"), "us", "id-token", LIMITS)
    options: JSON = {
        "client_id": "me",
        "client_secret": "s3cret",
        "issuer": server.issuer,
        "identity_assertion": vouching,
    }
    async with client_with(auth_of(server, tmp_path, **options)) as call:
        assert (await call()).status_code == 200
        server.http.faults["identity"] = lambda exchange: exchange.answer({"error": "no"}, status=400)
        server.valid.clear()
        assert "gave no assertion (HTTP 400" in str(await problem(call))
    assert b"subject_token=id-token" in exchanged[0]
    assert b"assertion=id-jag" in next(e.body for e in server.http.seen if e.path[0] == "token")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"grant": "client_credentials", "client_id": "me"}, "needs issuer and client secret"),
        ({"grant": "client_credentials"}, "needs client id and issuer and client secret"),
        ({"issuer": "as.example.com"}, "not a plain URL"),
        ({"issuer": "https://as.example.com/?a=b"}, "not a plain URL"),
        ({"issuer": "https://me@as.example.com"}, "not a plain URL"),
        ({"issuer": "https://as.example.com:0x"}, "not a plain URL"),
        ({"client_metadata_url": "https://us.example.com"}, "expected https://HOST/PATH"),
        ({"client_metadata_url": "http://us.example.com/client"}, "expected https://HOST/PATH"),
        ({"callback_port": 0}, "expected 1 to 65535"),
        ({"callback_port": 65_536}, "expected 1 to 65535"),
        ({"scope": 'a" error="x'}, "no scope can have"),
        ({"client_secret": "s3cret"}, "no client id"),
    ],
)
async def test_an_incomplete_arrangement_is_refused(tmp_path: Path, options: JSON, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        oauth_provider.oauth_for(
            HttpServerSpec("up", "https://mcp.example.com", oauth=OAuthOptions(**options)), folder=tmp_path
        )


async def test_a_server_that_is_not_to_be_logged_in_to_has_no_authorisation(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not to be logged in to"):
        oauth_provider.oauth_for(HttpServerSpec("up", "https://mcp.example.com", oauth=None), folder=tmp_path)


def with_slash(server: AuthServer, where: str) -> None:
    """Have one side write the last slash of an issuer that has no path."""
    if where == "the server":
        server.protection["authorization_servers"] = [f"{server.issuer}/"]
    else:
        server.metadata["issuer"] = server.issuer = f"{server.issuer}/"


@pytest.mark.parametrize("where", ["the server", "the authorization server"])
async def test_an_issuer_is_the_same_with_and_without_its_last_slash(
    server: AuthServer, tmp_path: Path, where: str
) -> None:
    with_slash(server, where)
    server.expires_in = 0
    auth = auth_of(server, tmp_path, User())
    async with client_with(auth) as call:
        assert (await call()).status_code == 200
    async with client_with(auth_of(server, tmp_path)) as call:  # which nobody is asked for
        assert (await call()).status_code == 200
    assert server.grants["refresh_token"]


@pytest.mark.parametrize("where", ["the server", "the authorization server"])
async def test_client_credentials_take_an_issuer_with_and_without_its_last_slash(
    server: AuthServer, tmp_path: Path, where: str
) -> None:
    named = server.issuer
    with_slash(server, where)
    options: JSON = {"grant": "client_credentials", "client_id": "me", "client_secret": "s3cret", "issuer": named}
    async with client_with(auth_of(server, tmp_path, **options)) as call:
        assert (await call()).status_code == 200


@pytest.mark.parametrize("path", ["/tenant/", "/tenant", "//", "?x"])
async def test_an_issuer_that_differs_in_more_is_another(server: AuthServer, tmp_path: Path, path: str) -> None:
    server.metadata["issuer"] = f"{server.issuer}{path}"
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert "issuer mismatch" in str(await problem(call))
    assert not server.authorizations


async def test_where_nobody_is_registered_the_key_of_the_entry_is_named_and_the_server_is_asked_nothing(
    server: AuthServer, tmp_path: Path
) -> None:
    del server.metadata["registration_endpoint"]
    async with client_with(auth_of(server, tmp_path, User())) as call:
        said = str(await problem(call))
    assert "registers no clients by itself" in said
    assert "oauth.clientId" in said
    assert not server.http.hits["register"]


async def test_a_registration_that_is_refused_for_its_scope_is_made_again_without(
    server: AuthServer, tmp_path: Path
) -> None:
    async def register(exchange: Exchange) -> None:
        if "scope" in exchange.message:
            said = "scope must only contain Authorization Server supported scope values"
            await exchange.answer({"error": "invalid_client_metadata", "error_description": said}, status=400)
        else:
            await server.serve_registration(exchange)

    server.http.faults["register"] = register
    server.challenge += ', scope="files:read"'
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert (await call()).status_code == 200
    assert server.authorizations[-1]["scope"] == "files:read"
    assert server.http.hits["register"] == 2


@pytest.mark.parametrize(
    ("error", "challenge"), [("invalid_redirect_uri", ', scope="files:read"'), ("invalid_client_metadata", "")]
)
async def test_a_registration_that_is_refused_for_anything_else_is_made_once(
    server: AuthServer, tmp_path: Path, error: str, challenge: str
) -> None:
    async def register(exchange: Exchange) -> None:
        await exchange.answer({"error": error}, status=400)

    server.http.faults["register"] = register
    server.challenge += challenge
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert f"HTTP 400 (Bad Request), {error}" in str(await problem(call))
    assert server.http.hits["register"] == 1
