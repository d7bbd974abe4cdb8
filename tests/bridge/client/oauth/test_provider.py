"""Authorisation end to end: real sockets, an MCP server that wants a token, an authorization server that gives it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import AuthorizationError, UpstreamError
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.servers.auth_server import AuthServer
from tests.servers.evil_http import Exchange
from tests.support.oauth_users import LIMITS, User, auth_of, client_with, fifty, problem, seeded, stored
from tests.support.on_demand import oauth_provider, oauth_store

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]


# Logging in


@pytest.mark.requirement("S-21")
async def test_a_user_logs_in_once_as_a_client_that_registers_itself(server: AuthServer, tmp_path: Path) -> None:
    user = User()
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert (await call()).json()["result"]["token"].startswith("access-")
        assert (await call()).status_code == 200
    [request] = server.authorizations
    assert user.logins == 1
    assert request["code_challenge_method"] == "S256"
    assert request["resource"] == server.url
    assert request["redirect_uri"].startswith("http://127.0.0.1:")
    [token_request] = server.token_requests
    assert token_request["resource"] == server.url
    [client] = server.clients.values()
    assert client["redirect_uris"] == [request["redirect_uri"]]
    assert (client["application_type"], client["client_name"]) == ("native", "gaia-mcp-bridge")


async def test_another_process_uses_the_login_that_is_stored(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    async with client_with(auth_of(server, tmp_path)) as call:
        assert (await call()).status_code == 200
    assert dict(server.http.hits) == {"mcp": 1}


async def test_without_a_user_the_command_is_named_and_nothing_is_fetched(server: AuthServer, tmp_path: Path) -> None:
    async with client_with(auth_of(server, tmp_path)) as call:
        error = await problem(call)
    assert isinstance(error, LoginRequiredError)
    assert str(error) == "could not be authorised: it wants a login; run: gaia-bridge login weather"
    assert isinstance(error, UpstreamError)
    assert dict(server.http.hits) == {"mcp": 1}


async def test_a_server_that_names_no_login_may_want_a_token_which_both_errors_say(
    server: AuthServer, tmp_path: Path
) -> None:
    server.challenge = 'Bearer realm="gaia-bridge"'
    token = f"gaia-bridge add weather {server.url} --header 'Authorization:Bearer ${{env:TOKEN}}' --force"
    async with client_with(auth_of(server, tmp_path)) as call:
        error = await problem(call)
    assert isinstance(error, LoginRequiredError)
    assert f"it wants a login or a token; run: gaia-bridge login weather; or add it with a token, by {token}" in str(
        error
    )
    server.protection.clear()
    server.metadata.clear()
    for place in (".well-known", "register"):
        server.http.faults[place] = partial(Exchange.answer, status=404)
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert f"it may be added with a token, by {token}" in str(await problem(call))


async def test_a_server_that_wants_nothing_gets_nothing(server: AuthServer, tmp_path: Path) -> None:
    async def open_to_all(exchange: Exchange) -> None:
        await exchange.answer(exchange.result())

    server.http.faults["mcp"] = open_to_all
    async with client_with(auth_of(server, tmp_path)) as call:
        assert (await call()).status_code == 200
    assert "authorization" not in server.http.headers_of("mcp")
    assert stored(server, tmp_path) is None


@pytest.mark.requirement("S-17", "S-18")
async def test_tokens_travel_in_one_header_to_one_server(server: AuthServer, tmp_path: Path) -> None:
    auth = auth_of(server, tmp_path, User())
    async with httpx2.AsyncClient(auth=auth, trust_env=False) as client:
        inbound = {"Authorization": "Bearer inbound-canary", "Cookie": "sid=inbound"}
        answer = await client.post(server.url, json={"id": 1}, headers=inbound)
        assert answer.status_code == 200
        with pytest.raises(AuthorizationError, match="not for another server"):
            await client.get(f"http://127.0.0.1:{server.http.canary_port}/")
    assert server.http.canary_hits == 0
    tokens = [*server.valid, *server.refresh_tokens]
    for exchange in server.http.seen:
        assert b"inbound-canary" not in exchange.head + exchange.body
        assert not any(token in exchange.target for token in tokens)
        if exchange.path[0] != "mcp":
            assert "authorization" not in exchange.headers
            assert "cookie" not in exchange.headers


async def test_fifty_calls_share_one_login_and_one_failure(server: AuthServer, tmp_path: Path) -> None:
    user = User()
    statuses = await fifty(auth_of(server, tmp_path / "a", user))
    assert statuses == [200] * 50
    assert (user.logins, len(server.clients), server.grants["authorization_code"]) == (1, 1, 1)
    server.http.faults["token"] = lambda exchange: exchange.answer(status=500)
    refused = User()
    failures = await fifty(auth_of(server, tmp_path / "b", refused))
    assert failures == ["AuthorizationError"] * 50
    assert refused.logins == 1


async def test_calls_do_not_wait_for_each_other(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    second_came = anyio.Event()

    async def meeting(exchange: Exchange) -> None:
        if server.http.hits["mcp"] == 2:
            second_came.set()
        await second_came.wait()
        await exchange.answer(exchange.result())

    server.http.faults["mcp"] = meeting
    async with client_with(auth_of(server, tmp_path)) as call, anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        tasks.start_soon(call)
    assert server.http.hits["mcp"] == 2


# Renewing


@pytest.mark.requirement("F-067")
async def test_fifty_calls_with_an_expired_token_renew_it_once(server: AuthServer, tmp_path: Path) -> None:
    server.expires_in = 0
    await seeded(server, tmp_path)
    server.valid.clear()
    server.expires_in = 3600
    assert await fifty(auth_of(server, tmp_path)) == [200] * 50
    assert dict(server.grants) == {"refresh_token": 1}
    assert server.token_requests[-1]["resource"] == server.url


@pytest.mark.requirement("F-067")
async def test_fifty_calls_with_a_revoked_token_renew_it_once(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    server.valid.clear()
    assert await fifty(auth_of(server, tmp_path)) == [200] * 50
    assert dict(server.grants) == {"refresh_token": 1}


@pytest.mark.requirement("F-067")
async def test_two_processes_renew_a_token_once(server: AuthServer, tmp_path: Path) -> None:
    """Two authorisations share nothing but the folder, as two processes do."""
    await seeded(server, tmp_path)
    both = [auth_of(server, tmp_path) for _ in range(2)]
    for auth in both:
        async with client_with(auth) as call:
            assert (await call()).status_code == 200
    server.valid.clear()
    outcomes: list[int | str] = []

    async def some(auth: oauth_provider.ServerAuthorization) -> None:
        outcomes.extend(await fifty(auth))

    async with anyio.create_task_group() as tasks:
        for auth in both:
            tasks.start_soon(some, auth)
    assert outcomes == [200] * 100
    assert dict(server.grants) == {"refresh_token": 1}


@pytest.mark.requirement("F-067")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("500", "answered with HTTP 500"),
        ("429", "answered with HTTP 429"),
        ("html", "answered without a token (text/html)"),
        ("redirect", "answered with HTTP 307"),
        ("slow", "did not answer within 0.3 s"),
        ("reset", "broke off"),
    ],
)
async def test_a_token_endpoint_in_trouble_is_asked_once_and_costs_no_login(
    server: AuthServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str, expected: str
) -> None:
    await seeded(server, tmp_path)
    before = stored(server, tmp_path)
    server.valid.clear()

    async def trouble(exchange: Exchange) -> None:
        match fault:
            case "slow":
                await exchange.until_closed()
            case "reset":
                exchange.reset()
            case "html":
                await exchange.answer(b"<html>refresh-canary</html>", kind="text/html")
            case "redirect":
                elsewhere = f"http://127.0.0.1:{server.http.canary_port}/"
                await exchange.answer(status=307, headers={"location": elsewhere})
            case _:
                await exchange.answer({"error": "server_error"}, status=int(fault))

    works, server.http.faults["token"] = server.http.faults["token"], trouble
    auth = auth_of(server, tmp_path, User(), UpstreamLimits(fetch_timeout=0.3))
    outcomes = await fifty(auth)
    assert set(outcomes) <= {"AuthorizationError", "FetchError"}
    assert server.http.hits["token"] == 1
    async with client_with(auth) as call:
        assert expected in str(await problem(call))
        assert stored(server, tmp_path) == before
        server.http.faults["token"] = works
        assert (await call()).status_code == 200
    assert server.http.canary_hits == 0
    assert dict(server.grants) == {"refresh_token": 1}
    assert "canary" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_refresh_token_that_is_refused_leads_to_a_login(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    server.valid.clear()
    server.refresh_tokens.clear()
    async with client_with(auth_of(server, tmp_path)) as call:
        assert isinstance(await problem(call), LoginRequiredError)
        assert isinstance(await problem(call), LoginRequiredError)
    assert dict(server.grants) == {"refresh_token": 1}
    user = User()
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert (await call()).status_code == 200
    assert (user.logins, len(server.clients)) == (1, 1)


async def test_a_client_that_is_forgotten_registers_again(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    server.valid.clear()
    works = server.http.faults["token"]

    async def forgetful(exchange: Exchange) -> None:
        if b"grant_type=refresh_token" in exchange.body:
            await exchange.answer({"error": "invalid_client"}, status=401)
        else:
            await works(exchange)

    server.http.faults["token"] = forgetful
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert (await call()).status_code == 200
    assert len(server.clients) == 2


async def test_whoever_stops_waiting_does_not_lose_the_renewed_token(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    server.valid.clear()
    server.hold = asyncio.Event()
    async with client_with(auth_of(server, tmp_path)) as call:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await server.http.until_seen("token")
            tasks.cancel_scope.cancel()
            server.hold.set()
        assert (await call()).status_code == 200
    assert dict(server.grants) == {"refresh_token": 1}


async def test_expiry_is_remembered_across_processes(server: AuthServer, tmp_path: Path) -> None:
    server.expires_in = 60
    await seeded(server, tmp_path)
    login = await oauth_store.TokenStore(server.url, folder=tmp_path).load()
    assert login.expires_at is not None
    assert 0 < login.expires_at - time.time() <= 60


# Scopes


@pytest.mark.requirement("S-20")
async def test_a_wider_scope_is_asked_for_and_the_old_one_kept(server: AuthServer, tmp_path: Path) -> None:
    user = User()
    server.protection["scopes_supported"] = ["read"]
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert (await call()).status_code == 200
        server.needed = "write"
        assert (await call()).status_code == 200
    assert [request["scope"] for request in server.authorizations] == ["read", "read write"]


@pytest.mark.requirement("S-20", "F-066")
@pytest.mark.parametrize("granted", ["less", "never"])
async def test_a_scope_that_a_login_was_asked_for_is_not_asked_for_again(
    server: AuthServer, tmp_path: Path, granted: str
) -> None:
    user = User()
    server.needed = "never ever"

    async def stingy(exchange: Exchange) -> None:
        await exchange.answer(server.issue(granted))

    server.http.faults["token"] = stingy
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert "the scope 'never ever' and does not accept the login with it" in str(await problem(call))
        assert "the scope 'never ever'" in str(await problem(call))
        server.needed = "ever"
        assert "the scope 'ever'" in str(await problem(call)), "it was part of what was asked for"
    assert user.logins == 2, "one login, and one more for the scope"


@pytest.mark.requirement("S-20", "F-066")
async def test_a_scope_that_the_first_login_was_asked_for_costs_no_second(server: AuthServer, tmp_path: Path) -> None:
    user = User()
    server.protection["scopes_supported"] = ["read", "write"]

    async def refuses(exchange: Exchange) -> None:
        if "authorization" not in exchange.headers:
            await exchange.answer(status=401, headers={"www-authenticate": server.challenge})
        else:
            wanted = f'{server.challenge}, error="insufficient_scope", scope="write"'
            await exchange.answer(status=403, headers={"www-authenticate": wanted})

    server.http.faults["mcp"] = refuses
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert "the scope 'write'" in str(await problem(call))
    assert user.logins == 1


@pytest.mark.requirement("S-20", "F-066")
async def test_a_server_that_wants_another_scope_each_time_is_given_up(server: AuthServer, tmp_path: Path) -> None:
    user = User()

    async def insatiable(exchange: Exchange) -> None:
        if "authorization" not in exchange.headers:
            await exchange.answer(status=401, headers={"www-authenticate": server.challenge})
        else:
            scope = f"scope-{server.http.hits['mcp']}"
            wanted = f'{server.challenge}, error="insufficient_scope", scope="{scope}"'
            await exchange.answer(status=403, headers={"www-authenticate": wanted})

    server.http.faults["mcp"] = insatiable
    async with client_with(auth_of(server, tmp_path, user)) as call:
        assert "wants a wider scope again" in str(await problem(call))
    assert user.logins == 1 + LIMITS.step_ups


@pytest.mark.requirement("S-20")
async def test_fifty_calls_that_want_a_scope_in_vain_share_one_login(server: AuthServer, tmp_path: Path) -> None:
    user = User()
    await seeded(server, tmp_path)
    server.needed = "never"

    async def stingy(exchange: Exchange) -> None:
        await exchange.answer(server.issue("less"))

    server.http.faults["token"] = stingy
    assert await fifty(auth_of(server, tmp_path, user)) == ["LoginNotAcceptedError"] * 50
    assert user.logins == 1


@pytest.mark.requirement("S-20")
async def test_a_login_of_another_process_counts_after_a_refusal(server: AuthServer, tmp_path: Path) -> None:
    server.needed = "admin"
    works = server.http.faults["token"]
    server.http.faults["token"] = lambda exchange: exchange.answer(server.issue("less"))
    async with client_with(auth_of(server, tmp_path, User())) as call:
        await problem(call)
        server.http.faults["token"] = works
        async with client_with(auth_of(server, tmp_path, User())) as other:
            assert (await other()).status_code == 200
        assert (await call()).status_code == 200


async def test_a_login_that_the_server_does_not_accept_is_not_made_again(server: AuthServer, tmp_path: Path) -> None:
    user = User()

    async def never(exchange: Exchange) -> None:
        await exchange.answer(status=401, headers={"www-authenticate": server.challenge})

    server.http.faults["mcp"] = never
    auth = auth_of(server, tmp_path, user)
    async with client_with(auth) as call:
        assert "does not accept the token that the login gave" in str(await problem(call))
        assert server.http.hits["mcp"] == 2
        assert "does not accept the token" in str(await problem(call))
    assert await fifty(auth) == ["LoginNotAcceptedError"] * 50
    assert user.logins == 1


async def test_fifty_calls_whose_login_is_not_accepted_share_it(server: AuthServer, tmp_path: Path) -> None:
    user = User()

    async def never(exchange: Exchange) -> None:
        await exchange.answer(status=401, headers={"www-authenticate": server.challenge})

    server.http.faults["mcp"] = never
    assert await fifty(auth_of(server, tmp_path, user)) == ["LoginNotAcceptedError"] * 50
    assert user.logins == 1


async def test_the_configured_scope_is_asked_for_where_the_server_names_none(
    server: AuthServer, tmp_path: Path
) -> None:
    async with client_with(auth_of(server, tmp_path, User(), scope="a b")) as call:
        await call()
    assert server.authorizations[-1]["scope"] == "a b"


# Through our own transport


class Nobody:
    def message(self, message: JSON, during: int | None) -> None:
        raise AssertionError(message)

    def ended(self, reason: str) -> None:
        raise AssertionError(reason)


async def test_requests_of_the_http_transport_are_authorised(server: AuthServer, tmp_path: Path) -> None:
    spec = HttpServerSpec("weather", server.url)
    request: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    user = User()
    async with StreamableHttpTransport(spec, LIMITS, auth=auth_of(server, tmp_path, user)).connect(Nobody()) as link:
        link.agree("2025-11-25")
        response = await link.request(request)
        assert response["result"]["token"] in server.valid
        server.valid.clear()
        assert (await link.request({**request, "id": 2}))["result"]["token"] in server.valid
    assert (user.logins, server.grants["refresh_token"]) == (1, 1)
    async with StreamableHttpTransport(spec, LIMITS, auth=auth_of(server, tmp_path / "x")).connect(Nobody()) as link:
        with pytest.raises(LoginRequiredError, match="gaia-bridge login weather"):
            await link.request(request)
