"""Whoever can reach the port of a login, and authorization servers that answer oddly."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import httpx2
import pytest

from gaia_bridge.client.oauth.callback import CallbackServer
from tests.servers.auth_server import AuthServer
from tests.servers.evil_http import Exchange
from tests.support.oauth_users import User, auth_of, client_with, problem, seeded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

ESCAPES = "\x1b[2J\x1b]0;gone\x07<script>alert(1)</script>\u202e\r\nHTTP/1.1 200 OK"


@asynccontextmanager
async def waiting(answers: list[Mapping[str, str]]) -> AsyncGenerator[tuple[CallbackServer, httpx2.AsyncClient]]:
    """A login with the state `st4te` that waits for its answer to the end of the block, and a browser."""
    async with CallbackServer.listening(0) as server:

        async def wait() -> None:
            answers.append(await server.answer("st4te"))

        async with anyio.create_task_group() as tasks, httpx2.AsyncClient(trust_env=False) as browser:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            yield server, browser


@pytest.mark.requirement("F-352")
async def test_among_hundreds_of_forged_answers_the_right_one_counts() -> None:
    answers: list[Mapping[str, str]] = []
    async with waiting(answers) as (server, browser):

        async def forge(begin: int) -> None:
            for number in range(begin, begin + 50):
                query = urlencode({"code": f"evil-{number}", "state": f"st4te{number}"})
                assert (await browser.get(f"{server.url}?{query}")).status_code == 400

        async with anyio.create_task_group() as tasks:
            for group in range(6):
                tasks.start_soon(forge, 50 * group)
        assert not answers
        await browser.get(f"{server.url}?code=right&state=st4te")
    assert answers == [{"code": "right", "state": "st4te"}]


@pytest.mark.requirement("F-352")
async def test_however_many_connect_and_say_nothing_the_browser_is_heard() -> None:
    answers: list[Mapping[str, str]] = []
    silent: list[socket.socket] = []
    try:
        async with waiting(answers) as (server, browser):
            port = httpx2.URL(server.url).port
            for _ in range(300):
                silent.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                await anyio.lowlevel.checkpoint()
            assert (await browser.get(f"{server.url}?code=right&state=st4te")).status_code == 200
    finally:
        for connection in silent:
            connection.close()
    assert answers == [{"code": "right", "state": "st4te"}]


@pytest.mark.requirement("F-352")
@pytest.mark.parametrize("query", ["code=evil", "code=evil&state=", "error=evil&state"])
async def test_an_answer_that_comes_before_the_login_is_none(query: str) -> None:
    answers: list[Mapping[str, str]] = []
    async with CallbackServer.listening(0) as server, httpx2.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(f"{server.url}?{query}")).status_code == 400
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                answers.append(await server.answer("st4te"))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not answers
            await browser.get(f"{server.url}?code=right&state=st4te")
    assert answers == [{"code": "right", "state": "st4te"}]


@pytest.mark.requirement("F-352")
async def test_an_answer_that_comes_again_changes_nothing() -> None:
    answers: list[Mapping[str, str]] = []
    async with waiting(answers) as (server, browser):
        await browser.get(f"{server.url}?code=first&state=st4te")
        await browser.get(f"{server.url}?code=second&state=st4te")
    assert answers == [{"code": "first", "state": "st4te"}]


@pytest.mark.requirement("F-352")
@pytest.mark.parametrize("where", ["callback", "token", "registration"])
async def test_what_an_authorization_server_says_cannot_command_a_terminal_or_a_page(
    server: AuthServer, tmp_path: Path, where: str
) -> None:
    pages: list[str] = []

    class Reading(User):
        def open(self, url: str) -> bool:
            page = httpx2.get(url, follow_redirects=True, trust_env=False)
            pages.append(page.text + "".join(f"{name}: {value}\n" for name, value in page.headers.items()))
            return True

    async def refuses(exchange: Exchange) -> None:
        request = dict(parse_qsl(urlsplit(exchange.target).query))
        said = {"error": ESCAPES, "error_description": ESCAPES, "state": request["state"], "iss": server.issuer}
        await exchange.answer(status=302, headers={"location": f"{request['redirect_uri']}?{urlencode(said)}"})

    async def refuses_at_once(exchange: Exchange) -> None:
        await exchange.answer({"error": ESCAPES, "error_description": ESCAPES}, status=400)

    if where == "callback":
        server.http.faults["authorize"] = refuses
    else:
        server.http.faults["token" if where == "token" else "register"] = refuses_at_once
    async with client_with(auth_of(server, tmp_path, Reading())) as call:
        told = str(await problem(call))
    assert told.isprintable()
    assert "alert(1)" in told
    assert not any("script" in page for page in pages)


@pytest.mark.requirement("F-352", "S-21")
async def test_an_authorization_server_that_names_itself_has_to_do_so_in_its_answer(
    server: AuthServer, tmp_path: Path
) -> None:
    works = server.http.faults["authorize"]

    async def nameless(exchange: Exchange) -> None:
        answer, exchange.answer = exchange.answer, None  # type: ignore[assignment, method-assign]

        async def without_issuer(status: int, headers: Mapping[str, str]) -> None:
            page, _, query = headers["location"].partition("?")
            kept = urlencode([(name, value) for name, value in parse_qsl(query) if name != "iss"])
            await answer(status=status, headers={"location": f"{page}?{kept}"})

        exchange.answer = without_issuer  # type: ignore[assignment, method-assign]
        await works(exchange)

    server.http.faults["authorize"] = nameless
    async with client_with(auth_of(server, tmp_path, User())) as call:
        assert "iss" in str(await problem(call))
    assert not server.grants


@pytest.mark.requirement("F-352")
@pytest.mark.parametrize("expires_in", [-5, 0, "0", -1e9])
async def test_a_token_that_is_over_at_once_is_renewed_once_for_each_request(
    server: AuthServer, tmp_path: Path, expires_in: Any
) -> None:
    server.expires_in = expires_in
    async with client_with(auth_of(server, tmp_path, User())) as call:
        for _ in range(3):
            assert (await call()).status_code == 200
    assert server.grants["authorization_code"] == 1
    assert server.grants["refresh_token"] <= 3


@pytest.mark.requirement("F-352")
async def test_a_refresh_token_that_is_not_replaced_is_kept(server: AuthServer, tmp_path: Path) -> None:
    await seeded(server, tmp_path)
    [kept] = server.refresh_tokens
    user = User()

    async def keeps(exchange: Exchange) -> None:
        form = dict(parse_qsl(exchange.body.decode()))
        assert form["refresh_token"] == kept
        issued = server.issue()
        del issued["refresh_token"]
        await exchange.answer(issued)

    server.http.faults["token"] = keeps
    async with client_with(auth_of(server, tmp_path, user)) as call:
        for _ in range(2):
            server.valid.clear()
            assert (await call()).status_code == 200
    assert user.logins == 0
