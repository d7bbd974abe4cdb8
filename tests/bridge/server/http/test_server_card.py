"""The server card of each endpoint: by the published schema, by what the endpoint says itself, and by the guard."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import ServerInfo
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, PUBLISHED
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.server_card import server_card
from gaia_bridge.text.json_text import valid_json
from tests.support.published_schemas import problems, schema
from tests.support.upstreams import raw_server

pytestmark = pytest.mark.anyio

BASE = "http://127.0.0.1:8765"
MEDIA_TYPE = "application/mcp-server-card+json"
EVERY = [*HANDSHAKE_REVISIONS, *PUBLISHED.names]

JSON = dict[str, Any]


class TidesAgent:
    """Knows the tides."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": "tide", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        return {}

    def get_mcp_server_info(self) -> ServerInfo | JSON:
        return {"name": "Tides & Moon", "version": "2.0", "description": "The tides of every harbour. " * 9}


@asynccontextmanager
async def calling(token: str | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of a bridge with two agents and a server, which is not running yet."""
    async with Bridge() as bridge:
        await bridge.add_agent(TidesAgent(), "tides")
        await bridge.add_agent(TidesAgent(), "moon")
        await bridge.add(raw_server())
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765, allow_hosts=["tides.example"], token=token))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE, timeout=10) as client:
            yield client


def checked(response: httpx2.Response) -> JSON:
    """The card, which the published schema knows whole."""
    assert (response.status_code, response.headers["content-type"]) == (200, MEDIA_TYPE)
    card: JSON = response.json()
    assert problems("server-card-v1", card, "ServerCard") == []
    known = schema("server-card-v1")["$defs"]
    assert set(card) <= set(known["ServerCard"]["properties"])
    for remote in card["remotes"]:
        assert set(remote) <= set(known["Remote"]["properties"])
    return card


async def test_every_endpoint_has_a_card_that_says_where_it_is_and_what_it_speaks() -> None:
    async with calling() as client:
        for mount in ("", "/agents/tides", "/agents/moon", "/servers/up"):
            card = checked(await client.get(f"{mount}/mcp/server-card", headers={"accept": MEDIA_TYPE}))
            assert [(each["type"], each["url"], each["supportedProtocolVersions"]) for each in card["remotes"]] == [
                ("streamable-http", f"{BASE}{mount}/mcp", EVERY),
                ("sse", f"{BASE}{mount}/sse", [*HANDSHAKE_REVISIONS]),
            ]
            assert not any("headers" in remote for remote in card["remotes"])


async def test_a_card_says_what_the_endpoint_says_of_itself_once_clients_have_connected() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = {"accept": "application/json, text/event-stream"}
    async with calling() as client:
        for mount in ("", "/agents/tides", "/servers/up"):
            card = checked(await client.get(f"{mount}/mcp/server-card"))
            answer = (await client.post(f"{mount}/mcp", json=asked, headers=accept)).json()
            said = answer["result"]["serverInfo"]
            assert card["version"] == said["version"]
            assert card["name"].partition("/")[0] == "localhost"
            if mount == "/agents/tides":
                assert card["name"] == "localhost/Tides-Moon" and said["name"] == "Tides & Moon"
                assert len(card["description"]) <= 100 and said["description"].startswith(card["description"][:90])
            else:
                assert card["name"] == f"localhost/{said['name']}"


async def test_a_card_names_the_machine_as_its_client_does() -> None:
    async with calling() as client:
        card = checked(await client.get("/agents/tides/mcp/server-card", headers={"host": "tides.example"}))
    assert card["name"] == "example.tides/Tides-Moon"
    assert card["remotes"][0]["url"] == "http://tides.example/agents/tides/mcp"


async def test_whoever_has_the_card_is_not_sent_it_again() -> None:
    async with calling() as client:
        first = await client.get("/mcp/server-card")
        tag = first.headers["etag"]
        assert (first.headers["cache-control"], first.headers["access-control-allow-origin"]) == (
            "public, max-age=60",
            "*",
        )
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await client.get("/mcp/server-card", headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert (await client.get("/mcp/server-card", headers={"if-none-match": '"other"'})).status_code == 200
        looked = await client.head("/mcp/server-card")
        assert (looked.status_code, looked.content, looked.headers["etag"]) == (200, b"", tag)
        assert (await client.get("/agents/tides/mcp/server-card")).headers["etag"] != tag


async def test_a_card_is_guarded_like_all_else() -> None:
    card = "/agents/tides/mcp/server-card"
    async with calling(token="secret") as client:
        refused = await client.get(card)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="gaia-bridge"')
        assert (await client.get(card, headers={"origin": "https://evil.example"})).status_code == 403
        assert (await client.get(card, headers={"host": "evil.example"})).status_code == 421
        response = await client.get(card, headers={"authorization": "Bearer secret"})
        assert response.headers["cache-control"] == "private, max-age=60"
        [header] = checked(response)["remotes"][0]["headers"]
        assert (header["name"], header["isRequired"], header["isSecret"]) == ("Authorization", True, True)
        assert "secret" not in response.text.replace("isSecret", "")


async def test_a_page_that_is_allowed_reads_the_card_as_what_it_is() -> None:
    page = "https://tool.example"
    async with Bridge(TidesAgent()) as bridge:
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765, allow_origins=[page]))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE) as client:
            response = await client.get("/mcp/server-card", headers={"origin": page})
    checked(response)
    assert response.headers.get_list("access-control-allow-origin") == [page]


async def test_there_is_no_card_of_what_is_not_published_and_nothing_else_can_be_done_with_one() -> None:
    async with calling() as client:
        missing = await client.get("/servers/nothing/mcp/server-card")
        assert (missing.status_code, "nothing" in missing.text.lower().replace("nothing is", "")) == (404, False)
        assert (await client.get("/sse/server-card")).status_code == 404
        assert (await client.get("/server-card")).status_code == 404
        for method in ("POST", "PUT", "DELETE"):
            sent = await client.request(method, "/mcp/server-card", headers={"content-type": "application/json"})
            assert (sent.status_code, sent.headers["allow"]) == (405, "GET, HEAD")


async def test_the_card_of_a_mounted_bridge_says_where_it_is_mounted() -> None:
    bridge = Bridge(TidesAgent())
    app = Starlette(routes=[Mount("/tools", bridge.app())], lifespan=bridge.lifespan)
    async with (
        bridge,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost:1") as client,
    ):
        card = checked(await client.get("/tools/mcp/server-card"))
    assert [remote["url"] for remote in card["remotes"]] == [
        "http://localhost:1/tools/mcp",
        "http://localhost:1/tools/sse",
    ]


async def test_addresses_lead_back_whatever_servers_and_places_are_called() -> None:
    bridge = Bridge()
    app = Starlette(routes=[Mount("/to ols", bridge.app())], lifespan=bridge.lifespan)
    odd = ("a b", "a/b", "a?b", "a#b", "a%2Fb", "ü")
    async with (
        bridge,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost:1") as client,
    ):
        for name in odd:
            await bridge.add(replace(raw_server(), name=name))
        for name in odd:
            card = checked(await client.get(f"/to%20ols/servers/{quote(name, safe='')}/mcp/server-card"))
            (mcp, sse) = (remote["url"] for remote in card["remotes"])
            assert checked(await client.get(f"{mcp}/server-card")) == card, name
            assert sse.removesuffix("/sse") == mcp.removesuffix("/mcp")


def card_of(told: JSON, host: str) -> JSON:
    """The card of an endpoint that says that of itself."""

    def implementation(*, modern: bool) -> JSON:
        return told

    catalog: Any = SimpleNamespace(implementation=implementation)
    return server_card(catalog, PUBLISHED, f"http://{host}", asks_token=False)


TEXTS = st.text(max_size=300) | st.sampled_from(
    [
        " ",
        "\u202e",
        "a/b",
        "/",
        "..",
        "\n",
        "x" * 300,
        "https://x",
        "http://x:1/a?b#c",
        "data:image/png;base64,AA==",
        "http://[",
        'http://"',
        "http://a#b#c",
        "http://%zz",
        "https://x y",
        "data:",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
ICONS = st.fixed_dictionaries({}, optional={"src": TEXTS, "mimeType": ANYTHING, "sizes": ANYTHING, "theme": ANYTHING})


@settings(max_examples=100, deadline=None)
@given(
    told=st.fixed_dictionaries(
        {"name": TEXTS},
        optional={
            "version": TEXTS,
            "title": ANYTHING,
            "description": ANYTHING,
            "websiteUrl": ANYTHING,
            "icons": ANYTHING | st.lists(ICONS | ANYTHING, max_size=3),
        },
    ),
    host=st.sampled_from(["127.0.0.1:8", "localhost", "[::1]:80", "a_b.example", "-", "...", "1.2.3", "x" * 300]),
)
def test_whatever_an_endpoint_says_of_itself_its_card_is_one(told: JSON, host: str) -> None:
    card = card_of(told, host)
    assert problems("server-card-v1", valid_json(card), "ServerCard") == []


def test_addresses_and_icons_that_are_some_stay() -> None:
    image = {"src": "data:image/png;base64,AA+/==", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
    picture = {"src": "https://[::1]:8/a%20b?c=d#e", "theme": "pink", "sizes": "48x48", "own": 1}
    told = {"name": "x", "title": " X ", "websiteUrl": "https://x.example", "icons": [image, picture, {"src": "x.png"}]}
    card = card_of(told, "localhost")
    assert (card["icons"], card["websiteUrl"]) == ([image, {"src": picture["src"]}], "https://x.example")
    assert (card["title"], card["description"]) == ("X", "X")
