"""Behind a proxy: nothing comes by one that the bridge was not told of, and what is believed of one that it was."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import ConfigError, ListenError
from gaia_bridge.middleware import RateLimit
from gaia_bridge.server.http.access_policy import AccessPolicy, LiveToken
from gaia_bridge.server.http.guard import Guard
from gaia_bridge.server.http.proxies import PublicUrl
from gaia_bridge.server.transports.scope_keys import SAME_HEAD
from tests.support.agents import one_tool

pytestmark = pytest.mark.anyio

TOKEN, OTHER = "t" * 40, "u" * 40
LOCAL = "127.0.0.1:8765"
PUBLIC = "https://tools.example/bridge"
ALONE = AccessPolicy.for_address("127.0.0.1", 8765)
PROXIES = ("127.0.0.1", "10.0.0.0/8")
BEHIND = AccessPolicy.for_address("127.0.0.1", 8765, token=TOKEN, public_url=PUBLIC, proxies=PROXIES)

SENDERS = {
    "nginx with one line of configuration": {"x-real-ip": "203.0.113.9"},
    "nginx, as its documents say": {"x-real-ip": "203.0.113.9", "x-forwarded-for": "203.0.113.9"},
    "Caddy": {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "x-forwarded-host": LOCAL},
    "HAProxy, option forwarded": {"forwarded": "proto=https;for=203.0.113.9"},
    "Varnish": {"via": "1.1 varnish"},
    "ngrok with a rewritten host": {"x-forwarded-host": "x.ngrok.app", "x-forwarded-proto": "https"},
    "a forwarded port of VS Code or Codespaces": {"x-forwarded-host": "x-8765.usw2.devtunnels.ms"},
    "the proxy of a development server": {"x-forwarded-port": "5173"},
}


class Seen:
    """Asks a guard, and has what the application saw."""

    def __init__(self, policy: AccessPolicy) -> None:
        self.scopes: list[Scope] = []
        self._guard = Guard(self._app, policy)
        self._heads: dict[object, dict[object, Any]] = {}
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(
        self, *headers: tuple[str, str], path: str = "/status", peer: str = "127.0.0.1", version: str = "1.1"
    ) -> int:
        """The status of the answer."""

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], dict(message["headers"])
            else:
                self.body = message["body"]

        async def receive() -> Any:
            raise AssertionError("a GET has no body")

        lines = [(name.encode(), value.encode()) for name, value in headers]
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": version,
            "method": "GET",
            "path": path,
            "scheme": "http",
        }
        found = self._heads.setdefault((headers, path), {})  # as on one connection
        scope |= {"headers": lines, "extensions": {SAME_HEAD: found}, "client": (peer, 1) if peer else None}
        await self._guard(scope, receive, send)
        return self.status


def bearer(token: str = TOKEN) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


# None was named


@pytest.mark.parametrize("sender", SENDERS)
async def test_what_a_proxy_passes_on_is_refused_where_none_was_named(sender: str) -> None:
    for policy, remedy in (
        (ALONE, "--public-url"),
        (AccessPolicy.for_address("127.0.0.1", 8765, allow_hosts=["bridge.example"], token=TOKEN), "--trust-proxy"),
        (AccessPolicy.for_hosts([LOCAL]), "public_url="),
    ):
        seen = Seen(policy)
        assert await seen.ask(("host", LOCAL), bearer(), *SENDERS[sender].items()) == 421
        assert remedy in json.loads(seen.body)["error"]["message"]
        assert seen.scopes == []
        assert await seen.ask(("host", LOCAL), bearer()) == 200


async def test_a_proxy_that_adds_nothing_is_known_by_the_version_that_it_speaks() -> None:
    seen = Seen(ALONE)
    assert await seen.ask(("host", LOCAL), version="1.0") == 421
    assert await seen.ask(("host", LOCAL), path="/health", version="1.0") == 200
    assert await Seen(BEHIND).ask(("host", LOCAL), bearer(), version="1.0") == 200


async def test_where_other_machines_come_by_themselves_a_proxy_of_theirs_is_neither_minded_nor_believed() -> None:
    seen = Seen(AccessPolicy.for_address("0.0.0.0", 8765, allow_hosts=["bridge.example"], token=TOKEN))
    passed = ("x-forwarded-for", "203.0.113.9"), ("x-forwarded-host", "bridge.example"), ("via", "1.1 squid")
    assert await seen.ask(("host", "bridge.example"), bearer(), *passed, peer="192.0.2.7") == 200
    assert seen.scopes[0]["client"][0] == "192.0.2.7"
    assert await seen.ask(("host", "evil.example"), bearer(), *passed) == 421


# Some were


@pytest.mark.parametrize(
    ("peer", "passed", "expected"),
    [
        ("127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", ["198.51.100.1", "203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        ("::ffff:127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("127.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("127.0.0.1", ["10.9.9.9, 10.1.2.3"], "10.9.9.9"),
        ("127.0.0.1", ["203.0.113.9, unknown"], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.9, unknown, 10.1.2.3"], "10.1.2.3"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("192.0.2.7", ["203.0.113.9"], "192.0.2.7"),
        ("192.0.2.7", ["127.0.0.1"], "192.0.2.7"),
    ],
)
async def test_the_client_is_the_last_on_the_way_that_is_no_proxy_of_ours(
    peer: str, passed: Sequence[str], expected: str
) -> None:
    seen = Seen(BEHIND)
    headers = [("host", "tools.example"), bearer(), *(("x-forwarded-for", text) for text in passed)]
    for _ in range(2):  # the second time, the head is known
        assert await seen.ask(*headers, peer=peer) == 200
    assert [scope["client"][0] for scope in seen.scopes] == [expected] * 2


async def test_host_and_scheme_are_taken_from_a_proxy_of_ours_and_from_nobody_else() -> None:
    seen = Seen(BEHIND)
    told = ("x-forwarded-proto", "https"), ("x-forwarded-host", "tools.example")
    assert await seen.ask(("host", "bridge:8765"), bearer(), *told) == 200
    assert seen.scopes[-1]["scheme"] == "https"
    assert await seen.ask(("host", LOCAL), bearer(), told[0], ("x-forwarded-host", "evil.example")) == 421
    assert await Seen(BEHIND).ask(("host", "bridge:8765"), bearer(), *told, peer="192.0.2.7") == 421
    direct = Seen(BEHIND)
    assert await direct.ask(("host", LOCAL), bearer(), *told, peer="192.0.2.7") == 200
    assert direct.scopes[-1]["scheme"] == "http"
    assert await direct.ask(("host", "evil.example"), bearer()) == 421
    assert await direct.ask(("host", "tools.example")) == 401


async def test_a_socket_without_addresses_is_believed_if_that_was_said() -> None:
    for proxies, expected in ((["unix"], "203.0.113.9"), ([], None)):
        policy = AccessPolicy.for_hosts([], token=TOKEN, public_url=PUBLIC, proxies=proxies)
        seen = Seen(policy)
        headers = ("host", "tools.example"), bearer(), ("x-forwarded-for", "203.0.113.9")
        assert await seen.ask(*headers, peer="") == 200
        client = seen.scopes[0]["client"]
        assert (client and client[0]) == expected


def test_what_cannot_be_meant_is_refused() -> None:
    for given, problem in (
        ({"public_url": PUBLIC}, "needs a token"),
        ({"token": TOKEN, "proxies": ["10.0.0.1"]}, "without --public-url"),
        ({"token": TOKEN, "public_url": PUBLIC, "proxies": ["proxy.example"]}, "--trust-proxy"),
        ({"token": TOKEN, "public_url": PUBLIC, "proxies": ["10.0.0.1/8"]}, "host bits"),
        *(
            ({"token": TOKEN, "public_url": text}, "write it as in https://")
            for text in (
                "bridge.example",
                "ftp://a",
                "https://",
                "https://a@b",
                "https://a/?x",
                "https://a/b c",
                "https://a:0",
            )
        ),
    ):
        with pytest.raises(ConfigError, match=problem):
            AccessPolicy.for_address("127.0.0.1", 8765, **given)  # type: ignore[arg-type]
    with pytest.raises(ListenError, match="needs a token"):
        AccessPolicy.for_address("0.0.0.0", 8765, public_url=PUBLIC)


def test_the_public_url_is_kept_as_clients_write_it() -> None:
    for text, expected, hosts in (
        ("https://A.example/", "https://a.example", {"a.example", "a.example:443"}),
        ("https://a.example:443/x/", "https://a.example/x", {"a.example", "a.example:443"}),
        ("http://[::1]:8443/x", "http://[::1]:8443/x", {"[::1]:8443"}),
    ):
        url = PublicUrl.of(text)
        assert (str(url), set(url.hosts)) == (expected, hosts)


# What clients are told


@asynccontextmanager
async def served(policy: AccessPolicy) -> AsyncGenerator[httpx2.AsyncClient]:
    async with Bridge(one_tool(lambda _: "done")) as bridge:
        transport = httpx2.ASGITransport(app=bridge.asgi(policy))
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{LOCAL}", headers=headers) as client:
            yield client


async def test_clients_are_told_the_public_url_whether_the_proxy_takes_its_path_away_or_not() -> None:
    async with served(BEHIND) as client:
        for prefix in ("", "/bridge"):
            card = (await client.get(f"{prefix}/mcp/server-card")).json()
            assert [remote["url"] for remote in card["remotes"]] == [f"{PUBLIC}/mcp", f"{PUBLIC}/sse"]
            page = await client.get(f"{prefix}/", headers={"accept": "text/html"})
            assert f"{PUBLIC} with /mcp" in page.text
            refused = await client.get(f"{prefix}/mcp", headers={"authorization": "Bearer no"})
            assert refused.headers["www-authenticate"].startswith(f'Bearer realm="{PUBLIC}"')
        assert "tools.example" in (await client.get("/mcp", headers={"host": "evil.example"})).text


async def test_a_server_that_reads_the_headers_itself_changes_none_of_it() -> None:
    """uvicorn does so unless it is told not to, and believes whoever is on this machine."""
    limit = RateLimit(1, 1_000)
    call: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
    headers = {"authorization": f"Bearer {TOKEN}", "host": "tools.example"}
    async with Bridge(one_tool(lambda _: "done"), middleware=[limit]) as bridge:
        untold = bridge.app(token=TOKEN, hosts=["tools.example"])
        told = bridge.app(token=TOKEN, public_url=PUBLIC)
        for app, reads in ((untold, True), (untold, False), (told, True), (told, False)):
            served = ProxyHeadersMiddleware(app) if reads else app  # type: ignore[arg-type]
            transport = httpx2.ASGITransport(app=served, client=("127.0.0.1", 1))  # type: ignore[arg-type]
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{LOCAL}", headers=headers) as client:
                answers: list[str] = []
                for address in ("203.0.113.7", "203.0.113.8", "203.0.113.8"):
                    via = {"x-forwarded-for": f"198.51.100.1, {address}{reads:d}"}
                    answers.append((await client.post("/", json=call, headers=via)).text)
            if app is untold:
                assert all("public_url=" in answer for answer in answers)
            else:  # each address has a limit of its own
                assert ["Too many requests" in answer for answer in answers] == [False, False, True]


# Credentials


async def test_a_client_that_looks_for_a_login_is_told_that_there_is_none() -> None:
    seen = Seen(BEHIND)
    for path in (
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/mcp/.well-known/openid-configuration",
        "/register",
        "/bridge/register",
    ):
        assert await seen.ask(("host", LOCAL), path=path) == 404
        assert "bridge-token" in json.loads(seen.body)["error_description"]


async def test_a_wrong_token_is_told_from_none() -> None:
    seen = Seen(BEHIND)
    for header, error in (((), "invalid_request"), ((bearer("no"),), "invalid_token")):
        assert await seen.ask(("host", LOCAL), *header) == 401
        told = json.loads(seen.body)
        assert told.keys() == {"error", "error_description"}
        assert told["error"] == error
        assert "bridge-token" in told["error_description"]
        assert (b'error="invalid_token"' in seen.headers[b"www-authenticate"]) is bool(header)
    assert await seen.ask(("host", LOCAL), path="/v1/models") == 401
    assert "error_description" not in json.loads(seen.body)


async def test_another_token_counts_at_once_on_connections_that_had_the_old_one_too() -> None:
    token = LiveToken(TOKEN)
    seen = Seen(AccessPolicy.for_address("127.0.0.1", 8765, token=token))
    assert await seen.ask(("host", LOCAL), bearer()) == await seen.ask(("host", LOCAL), bearer()) == 200
    token.exchange(OTHER)
    assert await seen.ask(("host", LOCAL), bearer()) == 401
    assert await seen.ask(("host", LOCAL), bearer(OTHER)) == 200
    assert TOKEN not in repr(token) and OTHER not in repr(token)
