"""Logins in a browser: which addresses are opened, and which answers count."""

from __future__ import annotations

import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.settings import UpstreamLimits
from tests.support.on_demand import mcp_auth, oauth_interaction

pytestmark = pytest.mark.anyio

URL = "https://as.example.com/authorize?response_type=code&state=st4te"


class Browsing:
    """A login under way, and what the browser would do."""

    def __init__(self, login: oauth_interaction.Login) -> None:
        self.login = login
        self.result: mcp_auth.AuthorizationCodeResult | None = None
        self.http = httpx2.AsyncClient(trust_env=False)

    async def authorize(self) -> None:
        self.result = await self.login.authorize(URL)

    async def comes(self, query: str, **headers: str) -> httpx2.Response:
        return await self.http.get(f"{self.login.redirect_uri}?{query}", headers=headers)


@asynccontextmanager
async def browsing() -> AsyncGenerator[Browsing]:
    shown = anyio.Event()
    interaction = oauth_interaction.BrowserInteraction(lambda line: shown.set(), open_browser=lambda url: True)
    with anyio.fail_after(10):
        async with interaction.login(()) as login, anyio.create_task_group() as tasks:
            browser = Browsing(login)
            async with browser.http:
                tasks.start_soon(browser.authorize)
                await shown.wait()
                yield browser


@pytest.mark.requirement("S-23", "C-1")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "--flag",
        "-h",
        "",
        "http://as.example.com/authorize",
        "http://10.0.0.1/authorize",
        "https://user@as.example.com/",
        "https://2130706433/",
        "https:/as.example.com",
        "calc.exe",
        "https://as.example.com/\n--flag",
        "vscode://x",
    ],
)
def test_what_is_no_web_address_is_not_opened(url: str) -> None:
    with pytest.raises(AuthorizationError):
        oauth_interaction.checked_login_url(url)


@pytest.mark.requirement("S-23", "C-1")
def test_what_a_shell_would_act_on_is_encoded() -> None:
    hostile = "https://as.example.com/$(touch p)`id`;x|y'\"\\<>^é?a=b&c=d"
    checked = oauth_interaction.checked_login_url(hostile)
    assert not set(checked) & set("$()`|'\"\\<>^ é")
    assert checked.startswith("https://as.example.com/%24%28touch%20p%29")
    assert checked.endswith("?a=b&c=d")
    assert oauth_interaction.checked_login_url("http://127.0.0.1:9/a?b=c") == "http://127.0.0.1:9/a?b=c"


@pytest.mark.requirement("S-23", "C-1")
async def test_a_hostile_address_is_one_argument_and_no_command(tmp_path: Path) -> None:
    """Through `webbrowser` itself, with a browser that writes down how it was called."""
    calls, marker = tmp_path / "calls", tmp_path / "executed"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$1" > {calls}.new\nmv {calls}.new {calls}\n')
    browser.chmod(0o755)
    interaction = oauth_interaction.BrowserInteraction(
        lambda line: None, UpstreamLimits(login_timeout=2), open_browser=webbrowser.get(f"{browser} %s").open
    )
    async with interaction.login(()) as login, anyio.create_task_group() as tasks:

        async def authorize() -> None:
            with pytest.raises(AuthorizationError):
                await login.authorize(f"https://as.example.com/$(touch {marker});touch {marker}?state=s")

        tasks.start_soon(authorize)
        with anyio.fail_after(5):
            while not calls.exists():
                await anyio.lowlevel.checkpoint()
        async with httpx2.AsyncClient(trust_env=False) as http:
            await http.get(f"{login.redirect_uri}?error=access_denied&state=s")
    number, argument = calls.read_text().splitlines()
    assert (number, argument.startswith("https://as.example.com/%24%28touch%20")) == ("1", True)
    assert not marker.exists()


async def test_the_answer_comes_back_with_all_that_is_checked_later() -> None:
    async with browsing() as browser:
        page = await browser.comes("code=c0de&state=st4te&iss=https%3A%2F%2Fas.example.com")
    assert browser.result == mcp_auth.AuthorizationCodeResult(code="c0de", state="st4te", iss="https://as.example.com")
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "c0de" not in page.text


@pytest.mark.requirement("S-21")
@pytest.mark.parametrize(
    "query",
    [
        "code=evil&state=wrong",
        "code=evil",
        "code=evil&state=",
        "code=e&state=st4te&state=st4te",
        "error=x&state=%C3%A9",
    ],
)
async def test_an_answer_with_another_state_changes_nothing(query: str) -> None:
    async with browsing() as browser:
        assert (await browser.comes(query)).status_code == 400
        assert browser.result is None
        await browser.comes("code=right&state=st4te")
    assert browser.result is not None
    assert browser.result.code == "right"


async def test_other_requests_to_the_port_are_refused() -> None:
    async with browsing() as browser:
        answer = "code=evil&state=st4te"
        assert (await browser.comes(answer, host="evil.example.com")).status_code == 421
        assert (await browser.http.post(f"{browser.login.redirect_uri}?{answer}")).status_code == 405
        for path in ("x", "callback/", "callbacks", "x/callback"):
            elsewhere = browser.login.redirect_uri.replace("callback", path)
            assert (await browser.http.get(f"{elsewhere}?{answer}")).status_code == 404
        for target in ("//[", "http://[::1"):
            assert (await raw_answer(browser, f"GET {target} HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        ours = httpx2.URL(browser.login.redirect_uri).netloc.decode()
        for hosts in ("", f"Host: {ours}\r\nHost: evil.example.com\r\n", f"Host: {ours}\r\nhost: {ours}\r\n"):
            request = f"GET /callback?{answer} HTTP/1.1\r\n{hosts}\r\n"
            assert (await raw_answer(browser, request)).startswith(b"HTTP/1.1 421 ")
        assert browser.result is None
        await browser.comes("code=right&state=st4te")
    assert browser.result is not None


async def raw_answer(browser: Browsing, request: str) -> bytes:
    """What is answered to bytes that no browser sends."""
    port = httpx2.URL(browser.login.redirect_uri).port
    assert port is not None
    async with await anyio.connect_tcp("127.0.0.1", port) as connection:
        await connection.send(request.encode())
        return await connection.receive()


async def test_a_connection_that_says_nothing_or_too_much_keeps_nobody_waiting() -> None:
    async with browsing() as browser:
        port = httpx2.URL(browser.login.redirect_uri).port
        assert port is not None
        silent = await anyio.connect_tcp("127.0.0.1", port)
        noisy = await anyio.connect_tcp("127.0.0.1", port)
        async with silent, noisy:
            await noisy.send(b"GET /" + b"x" * 100_000)
            await browser.comes("code=right&state=st4te")
    assert browser.result is not None


async def test_a_refusal_of_the_user_is_told() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with browsing() as browser:
            await browser.comes("error=access_denied&error_description=No+way%0d%0a&state=st4te")
    [error] = caught.value.exceptions
    assert "the login was refused (access_denied: No way)" in str(error)


async def test_nobody_waits_for_ever_for_a_user() -> None:
    interaction = oauth_interaction.BrowserInteraction(
        lambda line: None, UpstreamLimits(login_timeout=0.05), open_browser=lambda url: True
    )
    with pytest.raises(AuthorizationError, match=r"nobody logged in within 0\.05 s"):
        async with interaction.login(()) as login:
            await login.authorize(URL)


async def test_without_a_screen_the_address_is_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    told: list[str] = []
    opened: list[str] = []

    def open_browser(url: str) -> bool:
        opened.append(url)
        return True

    interaction = oauth_interaction.BrowserInteraction(
        told.append, UpstreamLimits(login_timeout=0.05), open_browser=open_browser
    )
    with pytest.raises(AuthorizationError):
        async with interaction.login(()) as login:
            await login.authorize(URL)
    assert told == [f"Log in in your browser: {URL}"]
    assert opened == []


async def test_the_port_that_is_known_to_the_authorization_server_is_taken_again() -> None:
    interaction = oauth_interaction.BrowserInteraction(lambda line: None)
    async with interaction.login(()) as first:
        known = first.redirect_uri
        async with interaction.login((known,)) as second:
            assert second.redirect_uri != known
    async with interaction.login((known, "https://elsewhere.example.com/callback")) as third:
        assert third.redirect_uri == known
    assert known.startswith("http://127.0.0.1:")


async def test_where_nobody_can_be_asked_the_command_is_named() -> None:
    with pytest.raises(LoginRequiredError, match="run: gaia-bridge login weather") as caught:
        async with oauth_interaction.NoInteraction("gaia-bridge login weather").login(()):
            pass
    assert caught.value.command == "gaia-bridge login weather"
