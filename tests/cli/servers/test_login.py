"""`gaia-bridge login`, with the user in front of a terminal or elsewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from urllib.request import ProxyHandler, build_opener

import anyio.to_thread
import pytest

from gaia_bridge.config import ServersConfig
from tests.cli.running import run
from tests.cli.terminals import terminal
from tests.servers.auth_server import AuthServer, auth_server
from tests.servers.evil_http import Exchange


@pytest.mark.anyio
@pytest.mark.parametrize("on_terminal", [True, pytest.param(False, marks=pytest.mark.thorough)])
async def test_a_login_tells_where_to_go_and_what_came_of_it(on_terminal: bool) -> None:
    async with _server():
        await anyio.to_thread.run_sync(partial(_log_in, on_terminal=on_terminal))


@pytest.mark.anyio
@pytest.mark.thorough
async def test_a_login_is_kept_and_used_until_another_is_wanted() -> None:
    async with _server() as server:
        refused = await anyio.to_thread.run_sync(partial(run, "tools", "web"))
        assert refused.returncode == 69
        assert "it wants a login; run: " in refused.stderr
        await anyio.to_thread.run_sync(_log_in)
        kept = await anyio.to_thread.run_sync(partial(run, "login", "web"))
        assert (kept.returncode, kept.stderr) == (0, "")
        await anyio.to_thread.run_sync(partial(_log_in, "--again"))
        assert len(server.authorizations) == len(server.clients) == 2


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("F-276")
async def test_a_server_that_wants_a_login_is_added_and_the_next_step_is_named() -> None:
    async with _server() as server:
        added = await anyio.to_thread.run_sync(partial(run, "add", "other", server.url))
        assert (added.returncode, added.stderr) == (0, "it wants a login; now run: gaia-bridge login other\n")
        assert ServersConfig().entries["other"] == {"url": server.url}


@pytest.mark.anyio
async def test_a_server_without_a_login_is_added_with_the_way_to_give_it_a_token() -> None:
    async with _server() as server:
        server.challenge = 'Bearer realm="gaia-bridge"'
        added = await anyio.to_thread.run_sync(partial(run, "add", "other", server.url))
        assert (
            "it wants a login or a token; now run: gaia-bridge login other; or add it with a token, by " in added.stderr
        )
        token = "--header 'Authorization:Bearer ${env:TOKEN}' --force (for a bridge with --auth, "
        assert f"gaia-bridge add other {server.url} {token}${{file:~/.gaia/bridge-token}})" in added.stderr


@pytest.mark.anyio
async def test_an_address_that_wants_a_login_is_told_how_it_is_added_with_one() -> None:
    async with _server() as server:
        refused = await anyio.to_thread.run_sync(partial(run, "tools", server.url))
        assert refused.returncode == 69
        assert "it wants a login or a token; add it with a token, by " in refused.stderr
        assert f"gaia-bridge add NAME {server.url} --header 'Authorization:Bearer ${{env:TOKEN}}'" in refused.stderr
        assert "gaia-bridge login NAME" in refused.stderr


@pytest.fixture(autouse=True)
def _no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)


def _log_in(*options: str, on_terminal: bool = True) -> None:
    output = None if on_terminal else subprocess.PIPE
    with terminal("login", "web", *options, output=output) as screen:
        screen.until("Log in in your browser: ")
        screen.until("\r\n")
        [url] = re.findall(r"browser: (http\S+)\r\n", screen.shown)
        with build_opener(ProxyHandler({})).open(url, timeout=20) as page:
            assert page.status == 200
        said = "web lets you in: 0 tools"
        assert (screen.output() if output else said).strip() == said
        assert screen.ended() == 0
        assert on_terminal is (said in screen.left)
    assert run("tools", "web").returncode == 0


@asynccontextmanager
async def _server() -> AsyncGenerator[AuthServer]:
    """The server `web`, which has no tools and wants a login, in the configuration."""
    async with auth_server() as server:

        async def serve_mcp(exchange: Exchange) -> None:
            if exchange.headers.get("authorization", "").removeprefix("Bearer ") not in server.valid:
                await exchange.answer(status=401, headers={"www-authenticate": server.challenge})
            elif "id" not in exchange.message:
                await exchange.answer(status=202)
            elif exchange.message["method"] == "server/discover":
                await exchange.answer(status=400)
            else:
                who = {"name": "web", "version": "1"}
                await exchange.answer(
                    exchange.result(protocolVersion="2025-11-25", capabilities={}, serverInfo=who, tools=[])
                )

        server.http.faults["mcp"] = serve_mcp
        ServersConfig().add("web", {"url": server.url})
        yield server
