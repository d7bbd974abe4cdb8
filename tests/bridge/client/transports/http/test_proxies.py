"""Servers by way of an HTTP proxy: over http and https, in both eras, and what is said where it does not lead there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import trustme
import uvicorn
import uvloop

from gaia_bridge.client import ClientDelegate, Era, connect
from gaia_bridge.client.oauth.errors import FetchError
from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.transport import LaunchError, UnreachableError, UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpClient
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from tests.servers.evil_http import EvilServer, evil_http
from tests.support.http_proxy import http_proxy
from tests.support.on_demand import mcp_lowlevel, mcp_server_context, mcp_types
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

LIMITS = UpstreamLimits(http_connect_timeout=4, fetch_timeout=4)
HOST = "mcp.example.com"
"""The proxy of these tests leads every name to this machine."""
PASSWORD = "hunter%4022"


@pytest.fixture(scope="module", autouse=True)
def libuv_has_begun() -> None:
    """What libuv opens first it keeps."""
    anyio.run(anyio.sleep, 0, backend_options={"use_uvloop": True})


def tls_of(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST, "127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    return context


def place(server: EvilServer, path: str = "good") -> str:
    return server.url(path).replace("127.0.0.1", HOST)


async def answer_of(url: str, proxy: str | None = None, limits: UpstreamLimits = LIMITS) -> int:
    client = HttpClient(HttpServerSpec("up", url, {"Authorization": "Bearer t0ken"}, proxy=proxy), limits)
    try:
        with anyio.fail_after(10):
            reply = await client.send("POST", {}, b"{}")
            if not reply.ok:
                refusal = reply.refusal()
                await reply.close()
                raise refusal
            await reply.body()
            return reply.status
    finally:
        await client.close()


async def failure_of(url: str, proxy: str | None = None, limits: UpstreamLimits = LIMITS) -> str:
    with pytest.raises(UpstreamError) as caught:
        await answer_of(url, proxy, limits)
    assert PASSWORD not in str(caught.value) and "hunter" not in str(caught.value)
    return str(caught.value)


# The official SDK's server


async def list_tools(
    ctx: mcp_server_context.ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
) -> mcp_types.ListToolsResult:
    return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name="report", input_schema={"type": "object"})])


async def call_tool(
    ctx: mcp_server_context.ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    await ctx.session.report_progress(1, 2, "half")
    assert ctx.request is not None
    names = [name for name in ctx.request.headers if name.startswith("proxy")]
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=f"{names} {ctx.request.url.scheme}")])


@asynccontextmanager
async def sdk_server(leaf: trustme.LeafCert | None, folder: Path) -> AsyncGenerator[str]:
    files: dict[str, Any] = {}
    if leaf is not None:
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "leaf.pem"))
        files = {"ssl_certfile": str(folder / "leaf.pem")}
    server = mcp_lowlevel.Server[Any]("sdk", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(host=HOST)
    http = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", **files))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(http.serve)
        await until(lambda: http.started)
        port = http.servers[0].sockets[0].getsockname()[1]
        yield f"{'http' if leaf is None else 'https'}://{HOST}:{port}/mcp"
        http.should_exit = True


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("era", list(Era))
@pytest.mark.requirement("F-070")
async def test_a_server_is_used_by_way_of_a_proxy_that_wants_a_password(
    era: Era, scheme: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = authority.issue_cert(HOST) if scheme == "https" else None
    async with http_proxy("me:hunter@22") as proxy, sdk_server(leaf, tmp_path) as url:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url.replace("//", f"//me:{PASSWORD}@"))
        transport = StreamableHttpTransport(HttpServerSpec("sdk", url), UpstreamLimits())
        with anyio.fail_after(20):
            known = era if era is Era.LEGACY else None
            async with connect(transport, ClientDelegate(), UpstreamLimits(), era=known) as connection:
                assert connection.handshake.era is era
                result = await connection.request("tools/call", {"name": "report", "arguments": {}})
                assert result["content"][0]["text"] == f"[] {scheme}"
        assert proxy.heads
        where = url.removeprefix(f"{scheme}://").removesuffix("/mcp")
        kinds = {target.replace(url, "URL").replace(where, "PLACE") for target in proxy.targets}
        assert kinds <= ({"CONNECT PLACE"} if leaf else {"POST URL", "GET URL", "DELETE URL"})


# What leads to a proxy, and what goes round it


@pytest.mark.requirement("F-070")
async def test_what_variables_say_is_heeded_but_for_this_machine_and_an_entry_has_the_last_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with evil_http() as server, http_proxy() as proxy, http_proxy() as own:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await answer_of(server.url()) == 202
        assert proxy.heads == []
        assert await answer_of(place(server)) == 202
        assert await answer_of(place(server), own.url) == 202
        assert (len(proxy.heads), len(own.heads)) == (1, 1)
        assert server.headers_of("good")["host"] == f"{HOST}:{server.port}"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
async def test_a_socks_proxy_is_refused_in_a_sentence(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, f"socks5://me:{PASSWORD}@127.0.0.1:1080")
    with pytest.raises(LaunchError, match=f"{variable} names a SOCKS proxy") as caught:
        await answer_of(f"https://{HOST}/mcp")
    assert PASSWORD not in str(caught.value)


# What proxies answer

OF_407 = b"HTTP/1.1 407 Who\r\nproxy-authenticate: %s\r\n\r\n"
ANSWERS = [
    (b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/html\r\n\r\n<html>", "the proxy does not allow a connection to"),
    (b"HTTP/1.0 502 X\r\n\r\n", "the proxy does not reach mcp.example.com"),
    (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n", "the proxy answered with a web page"),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "the proxy answered with a web page"),
    (b"HTTP/1.1 302 Found\r\nlocation: http://login.example/\r\n\r\n", "log in to this network in a browser"),
    (
        b"HTTP/1.1 405 No\r\n\r\n",
        "is no proxy, it seems (HTTP 405 (Method Not Allowed)); is 'proxy' in its entry right?",
    ),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "is no proxy, it seems (something that is no HTTP)"),
    (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "does not accept the user and password in 'proxy' in its entry (HTTP 401)"),
    (b"HTTP/1.1 418 Tea\r\n\r\n", "the proxy opened no connection to mcp.example.com"),
    (b"x" * 110_000, "the proxy sent more than 102400 bytes of headers"),
    (b"HTTP/1.1 200", "the proxy did not answer (it closed the connection)"),
    (OF_407 % b"Negotiate", "a login of another kind than Basic (HTTP 407: Negotiate); have a program of this machine"),
    (OF_407 % b'NTLM, Basic realm="x"', "does not accept the user and password in 'proxy' in its entry"),
]


@pytest.mark.parametrize(("answer", "told"), ANSWERS)
async def test_a_proxy_that_opens_no_connection_is_told_with_what_to_do(answer: bytes, told: str) -> None:
    async with http_proxy(answer=answer) as proxy:
        failure = await failure_of(f"https://{HOST}/mcp", proxy.url.replace("//", f"//me:{PASSWORD}@"))
        assert f"cannot be reached at https://{HOST}/mcp by way of the proxy {proxy.url}: " in failure
        assert told in failure and "\n" not in failure


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_to_know_who_asks_is_told_as_such(scheme: str) -> None:
    async with http_proxy("me:x") as proxy:
        failure = await failure_of(f"{scheme}://{HOST}/mcp", proxy.url)
        assert "wants to know who asks (HTTP 407); add it to 'proxy' in its entry: http://USER:PASSWORD@" in failure


async def test_a_refusal_over_http_may_be_that_of_the_proxy() -> None:
    async with http_proxy(answer=b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n") as proxy:
        failure = await failure_of(f"http://{HOST}/mcp", proxy.url)
        assert failure.endswith(f"503 (Service Unavailable); that may be an answer of the proxy {proxy.url} itself")


async def test_a_proxy_that_is_deaf_or_silent_is_told_within_the_time_for_a_connection() -> None:
    async with http_proxy(answer=b"") as proxy:
        bounds = UpstreamLimits(http_connect_timeout=0.1)
        failure = await failure_of(f"https://{HOST}/mcp", proxy.url, bounds)
        assert "the proxy opened no connection to it within 0.1 s; does it run" in failure
        await until(lambda: not proxy.open)
    for scheme in ("http", "https"):
        failure = await failure_of(f"{scheme}://{HOST}/mcp", proxy.url)
        assert "the proxy takes no connection (Connection refused); does it run" in failure


async def test_an_authority_that_nobody_knows_may_be_that_of_the_proxy(authority: trustme.CA) -> None:
    async with evil_http(tls_of(authority)) as server, http_proxy() as proxy:
        failure = await failure_of(place(server), proxy.url)
        assert "have SSL_CERT_FILE name a file" in failure
        assert "a proxy that reads what passes has an authority of its own" in failure
        assert not server.seen


# Streams, cancelling, and what proxies over TLS take


async def give_up(server: EvilServer, proxy: str) -> None:
    """Ask what is never answered, and leave."""
    waiting = asyncio.ensure_future(answer_of(place(server, "silent"), proxy))
    await server.until_seen("silent")
    waiting.cancel()
    await asyncio.wait([waiting])
    await server.until_all_closed()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [False, True])
async def test_what_is_given_up_in_the_middle_leaves_no_connection(authority: trustme.CA, secure: bool) -> None:
    async with evil_http(tls_of(authority) if secure else None) as server, http_proxy() as proxy:
        await give_up(server, proxy.url)
        await until(lambda: not proxy.open)


@pytest.mark.usefixtures("trusted")
async def test_calls_in_a_tunnel_take_one_connection(authority: trustme.CA) -> None:
    async with evil_http(tls_of(authority)) as server, http_proxy() as proxy:
        client = HttpClient(HttpServerSpec("up", place(server), proxy=proxy.url), LIMITS)
        for _ in range(3):
            reply = await client.send("POST", {}, b"{}")
            await reply.body()
        await client.close()
        assert (len(proxy.heads), server.connections) == (1, 1)


@pytest.mark.usefixtures("trusted")
def test_tunnels_work_with_uvloop(authority: trustme.CA) -> None:
    async def several() -> None:
        async with evil_http(tls_of(authority)) as server, http_proxy() as proxy:
            assert await answer_of(place(server), proxy.url) == 202
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(answer_of(place(server, "silent"), proxy.url), 0.2)
            await server.until_all_closed()
        with pytest.raises(UnreachableError):
            await answer_of(f"https://{HOST}/", proxy.url)

    uvloop.run(several())


async def by_way_of_tls(authority: trustme.CA) -> None:
    async with http_proxy("me:hunter@22", tls=tls_of(authority)) as proxy:
        url = proxy.url.replace("http://", f"https://me:{PASSWORD}@")
        for tls in (None, tls_of(authority)):
            async with evil_http(tls) as server:
                assert await answer_of(place(server), url) == 202
                await give_up(server, url)
        await until(lambda: not proxy.open)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_proxy_may_be_spoken_to_over_tls(authority: trustme.CA, run: Callable[[Any], None]) -> None:
    run(by_way_of_tls(authority))


# Logins


@pytest.mark.usefixtures("trusted")
async def test_a_login_goes_by_the_proxy_and_to_no_address_that_this_machine_knows_for_an_internal_one(
    authority: trustme.CA,
) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        if host == HOST:
            raise OSError("Name or service not known")
        return ["10.0.0.1"]

    async with evil_http(tls_of(authority)) as server, http_proxy("me:hunter@22") as proxy:
        server.faults["doc"] = lambda exchange: exchange.answer({"a": 1})
        url = proxy.url.replace("//", f"//me:{PASSWORD}@")
        fetcher = Fetcher(f"https://{HOST}/mcp", LIMITS, resolver=resolver, proxy=url)
        assert (await fetcher.fetch(httpx2.Request("GET", place(server, "doc")))).json() == {"a": 1}
        assert "proxy-authorization" not in server.headers_of("doc")
        assert proxy.targets == [f"CONNECT {HOST}:{server.port}"]
        for inner in ("https://intranet.example/", "https://10.0.0.1/"):
            with pytest.raises(FetchError, match="internal address"):
                await fetcher.fetch(httpx2.Request("GET", inner))
        assert len(proxy.heads) == 1
        fetcher = Fetcher(f"https://{HOST}/mcp", LIMITS, resolver=resolver, proxy=proxy.url)
        with pytest.raises(FetchError, match="wants to know who asks"):
            await fetcher.fetch(httpx2.Request("GET", place(server, "doc")))
