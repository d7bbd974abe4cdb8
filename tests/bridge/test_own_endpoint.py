"""A server on an endpoint of its own: what it says of itself and of its lists, and what nobody lists, to the letter.

Everything is compared with what the server sent, on the wire, to clients of both eras.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.model import ServerOptions, StdioServerSpec, ToolTransform
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, modern
from tests.bridge.sources.upstream.servant import Servant, tools_named
from tests.conformance.raw_clients import DEADLINE, RawClient, connect_http
from tests.interaction.connecting import ERAS, serving
from tests.support.bridges import running_bridge
from tests.support.upstreams import until_ready
from tests.support.waiting import until
from tests.translation.test_beyond_the_core import modern_request

pytestmark = pytest.mark.anyio

SPEC = StdioServerSpec("up", "none")
SETTINGS = Settings(upstream=UpstreamLimits(refresh_interval=0, announce_interval=0))
INFO: JSON = {"name": "odd", "version": "3", "x-vendor": {"a": [1]}}
CAPABILITIES: JSON = {
    "tools": {},
    "prompts": {"listChanged": False, "x-vendor": 1},
    "experimental": {},
    "x-vendor": {"b": None},
}


def tool(name: str) -> JSON:
    return {"name": name, "inputSchema": {"type": "object", "properties": {}}}


PAGES: dict[str | None, JSON] = {
    None: {"tools": [tool("a")], "nextCursor": "Ω=1", "_meta": {"example.org/page": 1}, "x-vendor": 1},
    "Ω=1": {"tools": [], "nextCursor": " "},
    " ": {"tools": [tool("b"), tool("c")]},
}
UNREAD: JSON = {"tools": [tool("hidden"), tool("secret")], "x-vendor": "unread"}
REFUSAL: JSON = {"code": -31_007, "message": "No such thing here", "data": {"kept": [None]}}


def server(era: str) -> Script:
    """Pages that are odd, and more than it lists."""
    fresh = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"} if era == "modern" else {}

    async def serve(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if "id" not in request or "method" not in request:
                continue
            method: str = request["method"]
            params: JSON = request.get("params") or {}
            if method == "tools/list" and params.get("cursor") in PAGES:
                wire.answer(request, {**PAGES[params.get("cursor")], **fresh})
            elif method == "tools/list" and params.get("cursor") == "unread":
                wire.answer(request, {**UNREAD, **fresh})
            elif method == "tools/call" and params["name"] == "hidden":
                wire.answer(request, {**({"resultType": "complete"} if fresh else {}), "content": [], "x-vendor": 2})
            elif method == "notify":
                wire.answer(request, {"resultType": "complete"})
                wire.notify("notifications/tools/list_changed")
            else:
                wire.refuse(request, **REFUSAL)

    if era == "legacy":
        return legacy(serve, CAPABILITIES, serverInfo=INFO, instructions="Be odd.")
    meta = {"io.modelcontextprotocol/serverInfo": INFO}
    return modern(serve, CAPABILITIES, _meta=meta, instructions="Be odd.")


@asynccontextmanager
async def published(era: str, options: ServerOptions | None = None) -> AsyncGenerator[str]:
    """The URL of the endpoint of a server of an era."""
    with anyio.fail_after(DEADLINE):
        async with serving({}, SETTINGS) as (url, bridge):
            spec = replace(
                SPEC, options=replace(options or SPEC.options, era="handshake" if era == "legacy" else "auto")
            )
            await bridge.add_upstream(spec, ScriptedTransport(server(era)))
            await until_ready(*bridge.sources)
            yield f"{url}/servers/up/mcp"


class Client:
    """Asks in plain JSON-RPC, in one era."""

    def __init__(self, url: str, era: str, raw: RawClient) -> None:
        self._url = url
        self._era = era
        self._raw = raw

    async def ask(self, method: str, **params: Any) -> JSON:
        """The answer: a result, or an error under `error`; without what a revision wraps it in."""
        if self._era == "legacy":
            answer = await self._raw.request(method, params)
        else:
            answer = await modern_request(self._url, method, params, name=params.get("name", params.get("uri")))
        result: JSON = answer.get("result") or {"error": answer["error"]}
        meta = {key: value for key, value in result.pop("_meta", {}).items() if "modelcontextprotocol" not in key}
        return {**result, **({"_meta": meta} if meta else {})}


@asynccontextmanager
async def client_of(url: str, era: str) -> AsyncGenerator[Client]:
    async with connect_http(url) as raw:
        if era == "legacy":
            await raw.initialize("2025-11-25")
        yield Client(url, era, raw)


@pytest.mark.requirement("F-286")
@pytest.mark.parametrize("era", ERAS)
async def test_it_introduces_itself_with_every_field_and_no_other(era: str) -> None:
    async with published(era) as url, connect_http(url) as raw:
        if era == "legacy":
            handshake = await raw.initialize("2025-11-25")
            info = handshake["serverInfo"]
        else:
            handshake = (await modern_request(url, "server/discover", {}))["result"]
            info = handshake["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert info == INFO
    assert handshake["instructions"] == "Be odd."
    assert handshake["capabilities"] == CAPABILITIES


@pytest.mark.requirement("F-286")
@pytest.mark.parametrize("era", ERAS)
async def test_its_lists_come_in_its_own_pages_with_all_that_it_says_of_them(era: str) -> None:
    fresh: JSON = {} if era == "legacy" else {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    async with published(era) as url, client_of(url, era) as client:
        for cursor, page in PAGES.items():
            asked = {} if cursor is None else {"cursor": cursor}
            assert await client.ask("tools/list", **asked) == {**page, **fresh}
        assert await client.ask("tools/list", cursor="unread") == {**UNREAD, **fresh}
        assert await client.ask("tools/list", cursor="no such page") == {"error": REFUSAL}
        assert await client.ask("resources/list") == {"error": REFUSAL}


@pytest.mark.requirement("F-286")
@pytest.mark.parametrize("era", ERAS)
async def test_what_it_does_not_list_is_asked_of_it_and_refused_in_its_words(era: str) -> None:
    reference = {"type": "ref/prompt", "name": "none"}
    async with published(era) as url, client_of(url, era) as client:
        hidden = await client.ask("tools/call", name="hidden", arguments={})
        assert (hidden["content"], hidden["x-vendor"]) == ([], 2)
        asked: list[tuple[str, JSON]] = [
            ("tools/call", {"name": "none", "arguments": {}}),
            ("prompts/get", {"name": "none"}),
            ("resources/read", {"uri": "none://1"}),
            ("completion/complete", {"ref": reference, "argument": {"name": "a", "value": ""}}),
            ("example.org/none", {"x": 1}),
        ]
        for method, params in asked:
            assert await client.ask(method, **params) == {"error": REFUSAL}, method


@pytest.mark.requirement("F-286")
async def test_what_it_cannot_do_it_refuses_itself() -> None:
    async with published("legacy") as url, client_of(url, "legacy") as client:
        assert await client.ask("logging/setLevel", level="info") == {"error": REFUSAL}
        assert await client.ask("resources/subscribe", uri="a:b") == {"error": REFUSAL}


@pytest.mark.requirement("F-286")
@pytest.mark.parametrize("era", ERAS)
async def test_what_its_entry_says_of_its_tools_still_holds(era: str) -> None:
    options = ServerOptions(disabled_tools=("secret", "b"), tools={"a": ToolTransform(name="first")})
    async with published(era, options) as url, client_of(url, era) as client:
        pages = [await client.ask("tools/list", **({} if at is None else {"cursor": at})) for at in PAGES]
        assert [[item["name"] for item in page["tools"]] for page in pages] == [["first"], [], ["c"]]
        unread = await client.ask("tools/list", cursor="unread")
        assert [item["name"] for item in unread["tools"]] == ["hidden"]
        for name in ("secret", "b", "a"):
            answer = await client.ask("tools/call", name=name, arguments={})
            assert answer["error"]["message"] == f"Unknown tool: {name}"


@pytest.mark.requirement("F-286")
async def test_an_announcement_of_nothing_new_is_told_where_it_is_the_servers_own_endpoint() -> None:
    heard: dict[str, list[str]] = {"servers/up": [], "": []}

    def hearing(path: str) -> Any:
        async def hear(message: object) -> None:
            heard[path].append(type(message).__name__)

        return hear

    servant = Servant("echo")
    async with running_bridge(settings=SETTINGS) as running:
        await running.bridge.add_upstream(SPEC, servant)
        async with AsyncExitStack() as stack:
            for path in heard:
                client = running.client("legacy", path=path, message_handler=hearing(path))
                await (await stack.enter_async_context(client)).list_tools()
            servant.wire.notify("notifications/tools/list_changed")
            await until(lambda: len(heard["servers/up"]) == 1)
            servant.tools += tools_named("more")
            servant.wire.notify("notifications/tools/list_changed")
            await until(lambda: len(heard[""]) == 1)
            await until(lambda: len(heard["servers/up"]) == 2)
    assert {name for names in heard.values() for name in names} == {"ToolListChangedNotification"}
