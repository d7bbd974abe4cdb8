"""Real proxies with the blocks of docs/serve.md, TLS included, in front of a bridge; and what Traefik is given."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import httpx2
import pytest
import trustme
import yaml

from gaia_bridge import Bridge, Client, get_request_context, tool
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.text.json_types import JSON
from tests.docs.pages import DOCS, blocks
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TOKEN: Final = "t" * 40
ERAS: Final[tuple[Literal["legacy", "modern"], ...]] = ("legacy", "modern")
ENVELOPE: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NGINX: Final = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CADDY: Final = shutil.which("caddy")
AROUND_NGINX: Final = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{block}
}}
"""
"""What a Debian machine has around the block of a site."""
AROUND_CADDY: Final = """
{{
    admin off
    auto_https disable_redirects
    storage file_system {folder}/caddy
    log {{
        level ERROR
    }}
}}
{block}
"""
"""What keeps it to this test."""
Started = Callable[[Path, int, str], list[str]]
"""Writes the configuration of a proxy: into which folder, on which port, in front of which address."""


@tool
def size(text: str) -> int:
    """How long a text is."""
    return len(text)


@tool
def agree() -> str:
    """Asks the user."""
    return get_request_context().elicit("Sure?", {"type": "object", "properties": {}}).action


@tool
def count() -> str:
    """Tells how far it is."""
    for step in range(3):
        get_request_context().report_progress(step, 3)
    return "counted"


class Clients(Middleware):
    """Notes who the clients are."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.seen.add(request.client_request.principal)
        return await call_next(request)


def block_of(language: str) -> str:
    (found,) = (block.text for block in blocks(DOCS / "serve.md") if block.language == language)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def started_nginx(folder: Path, port: int, bridge: str) -> list[str]:
    """An nginx that is set up as the page says: how it is started."""
    block = filled_in(
        "nginx",
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("bridge.example;", "localhost;"),
        ("/etc/ssl/bridge.example.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/bridge.example.key", f"{folder}/key.pem"),
        ("127.0.0.1:8765", bridge),
    )
    (folder / "nginx.conf").write_text(AROUND_NGINX.format(folder=folder, block=block))
    return [str(NGINX), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def started_caddy(folder: Path, port: int, bridge: str) -> list[str]:
    """A Caddy that is set up as the page says, but for its certificate, which nobody on the internet would give it."""
    block = filled_in(
        "caddyfile",
        ("bridge.example {", f"https://localhost:{port} {{\n    tls {folder}/cert.pem {folder}/key.pem"),
        ("127.0.0.1:8765", bridge),
    )
    (folder / "Caddyfile").write_text(AROUND_CADDY.format(folder=folder, block=block))
    return [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def filled_in(language: str, *changes: tuple[str, str]) -> str:
    """The block of a proxy, with what is here."""
    block = block_of(language)
    for written, here in changes:
        assert written in block
        block = block.replace(written, here)
    return block


PROXIES: Final = [
    pytest.param(
        started_nginx,
        marks=pytest.mark.skipif(NGINX is None, reason="there is no nginx; .ci/run installs Debian's nginx-light"),
        id="nginx",
    ),
    pytest.param(
        started_caddy,
        marks=pytest.mark.skipif(CADDY is None, reason="there is no Caddy; .ci/run installs Debian's caddy"),
        id="Caddy",
    ),
]


@asynccontextmanager
async def behind(proxy: Started, folder: Path, clients: Clients) -> AsyncGenerator[tuple[str, ssl.SSLContext]]:
    """A bridge behind a proxy that is set up as the page says; gives the public URL, and whom to trust."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    leaf.private_key_pem.write_to_path(str(folder / "key.pem"))
    port = free_port()
    url = f"https://localhost:{port}"
    async with Bridge(size, agree, count, middleware=[clients]) as bridge, anyio.create_task_group() as tasks:
        serve = partial(bridge.serve_http, port=0, token=TOKEN, public_url=url)
        (own,) = await tasks.start(serve)
        command = proxy(folder, port, own.removeprefix("http://"))
        async with await anyio.open_process(command, env={"HOME": str(folder)}) as program:
            try:
                await listening(port)
                yield url, context
            finally:
                program.terminate()
        tasks.cancel_scope.cancel()


async def listening(port: int) -> None:
    with anyio.fail_after(PATIENCE):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.01)
            else:
                await stream.aclose()
                return


def call(name: str, arguments: JSON) -> JSON:
    params: JSON = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_proxy_as_on_the_page_passes_everything_on(
    proxy: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, headers = Clients(), {"authorization": f"Bearer {TOKEN}"}
    async with behind(proxy, tmp_path, clients) as (url, context):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        asked, steps = list[str](), list[float]()

        async def answer(question: str, schema: JSON) -> JSON:
            asked.append(question)
            return {}

        for era in ERAS:
            async with Client(f"{url}/mcp", headers=headers, era=era, on_elicitation=answer) as client:
                result = await client.call_tool("size", text="x" * 2_000_000)  # more than nginx takes by itself
                assert result.text == "2000000"
                assert (await client.call_tool("agree")).text == "accept"  # asked in the middle of the call
                counted = await client.call_tool("count", on_progress=lambda it: steps.append(it.progress))
                assert counted.text == "counted"
        assert (asked, steps) == (["Sure?"] * 2, [0, 1, 2] * 2)

        transport = httpx2.AsyncHTTPTransport(verify=context, local_address="127.0.0.2")
        async with httpx2.AsyncClient(base_url=url, headers=headers, transport=transport, timeout=PATIENCE) as http:
            more = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "size"}
            accept = {"accept": "application/json, text/event-stream"}
            accept |= {"x-forwarded-for": "203.0.113.9", "x-forwarded-host": "evil.example"}  # which is not passed on
            answered = await http.post("/mcp", json=call("size", {"text": "12"}), headers={**more, **accept})
            assert answered.json()["result"]["structuredContent"] == {"result": 2}
            assert "127.0.0.2" in clients.seen  # the address of who asks the proxy
            assert "203.0.113.9" not in clients.seen

            card = (await http.get("/mcp/server-card")).json()
            assert [remote["url"] for remote in card["remotes"]] == [f"{url}/mcp", f"{url}/sse"]
            stranger = await http.get("/status", headers={"host": "evil.example"})
            assert stranger.status_code == 421 or stranger.content == b"", "Caddy passes on nothing of other hosts"
            assert (await http.get("/status", headers={"authorization": ""})).status_code == 401

            async with http.stream("GET", "/sse") as events:
                lines = events.aiter_lines()
                place = await first_data(lines)
                hello = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "c", "version": "1"},
                }
                begin = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": hello}
                assert (await http.post(place, json=begin)).status_code == 202
                assert json.loads(await first_data(lines))["id"] == 7


async def first_data(lines: Any) -> str:
    """The next event's data, which a proxy is not to keep until there is more."""
    with anyio.fail_after(PATIENCE):
        async for line in lines:
            if line.startswith("data: "):
                return str(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")


def test_traefik_is_given_one_router_and_one_service() -> None:
    given = yaml.safe_load(block_of("yaml"))["http"]
    (router,) = given["routers"].values()
    assert router["service"] in given["services"]
