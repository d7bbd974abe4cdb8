"""Whatever text a server sends, wherever it stands, every client gets an answer that it can read, and the next one too.

The endpoint has three sources: an agent, and a server of each era that has one text in every place of every message.
Clients speak JSON-RPC as it is written, so that nothing is hidden by an SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.bridge import Bridge
from gaia_bridge.client.transport import Link, Receiver
from gaia_bridge.client.transports.json_rpc import messages
from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.transports.stdio import ClaimedStdio
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.conformance.raw_clients import RawClient, connect_http, connect_sse
from tests.servers.evil_http import Exchange, evil_http
from tests.servers.odd_texts import LEGACY, MODERN, Odd
from tests.support.agents import one_tool
from tests.support.upstreams import TESTS, FakeRequest, running, until_ready
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ODD: Final = "a\ud800b\x00\u2028\u2029\x1b[2J\ufeff\udfff\u202e\U000e0041\r\n\ud83d"
"""Halves of pairs of surrogates, as Node writes them for an emoji that was cut, and others with a reputation."""

READ: Final = valid_text(ODD)
"""The same as a client can be sent it."""

SHOWN: Final = READ.replace("\u202e", "").replace("\U000e0041", "")
"""The same where it is meant for models and people, who have to see all of it."""

WAYS: Final = ("stdio", "http", "sse")

LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


class Upstreams:
    """Servers behind HTTP, of both eras."""

    def __init__(self) -> None:
        self.streams: dict[str, Exchange] = {}

    async def serve(self, exchange: Exchange) -> None:
        """Streamable HTTP at `odd/ERA`: an event stream for everything that has an answer."""
        replies = list(Odd(exchange.path[1], ODD).replies(exchange.message))
        if exchange.method != "POST" or not replies:
            await exchange.answer(status=202 if exchange.method == "POST" else 405, kind=None)
            return
        if len(replies) == 1:
            await exchange.answer(replies[0])
            return
        await exchange.chunks()
        for reply in replies:
            await exchange.event(reply)
        await exchange.end()

    async def serve_sse(self, exchange: Exchange) -> None:
        """HTTP+SSE at `sse/ERA`: everything comes in one stream."""
        era = exchange.path[1]
        if exchange.method == "GET":
            number = str(len(self.streams))
            self.streams[number] = exchange
            await exchange.chunks()
            await exchange.event(f"/sse/{era}/{number}", event="endpoint")
            await exchange.until_closed()
            return
        await exchange.answer(status=202, kind=None)
        for reply in Odd(era, ODD).replies(exchange.message):
            await self.streams[exchange.path[2]].event(reply)


@asynccontextmanager
async def odd_bridge(way: str) -> AsyncGenerator[tuple[Bridge, str]]:
    """A bridge with an agent and two such servers, and its address."""
    upstreams = Upstreams()
    async with AsyncExitStack() as stack:
        evil = await stack.enter_async_context(evil_http())
        evil.faults |= {"odd": upstreams.serve, "sse": upstreams.serve_sse}
        bridge = await stack.enter_async_context(Bridge())
        await bridge.add_agent(one_tool(lambda _: "word", "say"), "agent")
        for era in ("legacy", "modern"):
            await bridge.add_upstream(spec_of(way, era, evil.url()))
        await until_ready(*bridge.sources)
        sockets = bind("127.0.0.1", 0)
        port: int = sockets[0].getsockname()[1]
        server = HttpServer(
            bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)),
            sockets=sockets,
            on_shutdown=[bridge.close_streams],
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        await tasks.start(server.run)
        yield bridge, f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


class OwnTransport:
    """Hands over objects, and no bytes. Implements `Transport` and `Link`."""

    last_words = ""

    def __init__(self, odd: Odd) -> None:
        self._odd = odd
        self._receiver: Receiver | None = None

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        self._receiver = receiver
        yield self

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        assert self._receiver is not None
        *others, answer = self._odd.replies(message)
        for other in others:
            self._receiver.message(other, None)
        return answer

    async def notify(self, message: JSON) -> None:
        """Nothing is to be heard."""

    def agree(self, revision: str) -> None:
        """Nothing depends on it."""


def spec_of(way: str, era: str, url: str) -> ServerSpec:
    if way == "stdio":
        program = str(TESTS / "servers" / "odd_texts.py")
        return StdioServerSpec(era, sys.executable, ("-S", program, era), {"ODD_TEXT": json.dumps(ODD)})
    return HttpServerSpec(era, f"{url.rpartition('/')[0]}/{'odd' if way == 'http' else 'sse'}/{era}", sse=way == "sse")


class PipeClient(RawClient):
    """Speaks with a bridge of this process over a pair of pipes."""

    def __init__(self, reader: asyncio.StreamReader, writing: int) -> None:
        super().__init__()
        self._reader = reader
        self._writing = writing

    async def exchange(self, payload: object) -> AsyncGenerator[JSON]:
        await self.send(payload)
        while True:
            yield json.loads(await self._reader.readuntil(b"\n"))

    async def send(self, payload: object) -> None:
        os.write(self._writing, json.dumps(payload).encode() + b"\n")

    async def refusal(self, payload: object) -> JSON:
        raise AssertionError("nothing is refused here")


@asynccontextmanager
async def connect_pipes(bridge: Bridge) -> AsyncGenerator[PipeClient]:
    """A client on the standard streams of a bridge."""
    to_bridge, from_client = os.pipe()
    to_client, from_bridge = os.pipe()
    reader = asyncio.StreamReader(limit=2**20)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_client, "rb", 0)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bridge.serve_stdio, ClaimedStdio(to_bridge, from_bridge))
        try:
            yield PipeClient(reader, from_client)
        finally:
            os.close(from_client)
    transport.close()


@asynccontextmanager
async def connected(way: str, bridge: Bridge, url: str, path: str = "") -> AsyncGenerator[RawClient]:
    """A client over one of our transports."""
    match way:
        case "stdio":
            connection: Any = connect_pipes(bridge)
        case "http":
            connection = connect_http(f"{url}{path}/mcp")
        case _:
            connection = connect_sse(f"{url}{path}/sse")
    async with connection as client:
        yield client


class Asker:
    """A client of one era. Whatever it asks must be answered soon, in JSON that can be written again."""

    def __init__(self, client: RawClient, *, modern: bool) -> None:
        self._client = client
        self._modern = modern
        self._headers: dict[str, str] = getattr(client, "headers", {})

    async def begin(self) -> JSON:
        if self._modern:
            discover_result: JSON = (await self.ask("server/discover"))["result"]
            return discover_result
        with anyio.fail_after(PATIENCE):
            return await self._client.initialize(LEGACY, {"elicitation": {}})

    async def ask(self, method: str, **params: Any) -> JSON:
        meta: JSON = {"progressToken": "token"}
        if self._modern:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
                "io.modelcontextprotocol/logLevel": "debug",
            }
            self._headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            name = params.get("name", params.get("uri"))
            self._headers.pop("Mcp-Name", None)
            if name is not None:
                self._headers["Mcp-Name"] = name
        with anyio.fail_after(PATIENCE):
            answer = await self._client.request(method, {**params, "_meta": meta})
        assert ("result" in answer) != ("error" in answer), answer
        json.dumps(answer, ensure_ascii=False).encode()
        return answer


async def everything(asker: Asker) -> None:
    """Ask for everything, of both servers and the agent."""
    await asker.begin()
    tools = {item["name"]: item for item in (await asker.ask("tools/list"))["result"]["tools"]}
    for era in ("legacy", "modern"):
        assert tools[f"{era}__speak"]["description"] == SHOWN
        assert READ in tools[f"{era}__speak"]["inputSchema"]["properties"]
        called = (await asker.ask("tools/call", name=f"{era}__speak", arguments={}))["result"]
        assert called["content"][0]["text"] == READ
        assert called["structuredContent"] == {READ: [READ]}
        refused = (await asker.ask("tools/call", name=f"{era}__refuse", arguments={}))["error"]
        assert (refused["message"], refused["data"]) == (READ, {READ: [READ]})
        got = (await asker.ask("prompts/get", name=f"{era}__prompt", arguments={}))["result"]
        assert got["description"] == READ
        read = (await asker.ask("resources/read", uri=f"{era}://t/1"))["result"]
        assert read["contents"][0]["text"] == READ
        ref = {"type": "ref/prompt", "name": f"{era}__prompt"}
        values = await asker.ask("completion/complete", ref=ref, argument={"name": "x", "value": ""})
        assert values["result"]["completion"]["values"] == [READ]
    for method, field in LISTS.items():
        listed = (await asker.ask(method))["result"][field]
        assert [item["description"] for item in listed] == [SHOWN, SHOWN], method
    said = (await asker.ask("tools/call", name="say", arguments={}))["result"]
    assert said["content"] == [{"type": "text", "text": "word"}]


@pytest.mark.requirement("F-300")
@pytest.mark.parametrize("way", WAYS)
async def test_clients_of_both_eras_over_every_transport_go_on_whatever_texts_servers_send(way: str) -> None:
    async with odd_bridge(way) as (bridge, url):
        for their_way in WAYS:
            for modern in (False, True):
                async with connected(their_way, bridge, url) as client:
                    await everything(Asker(client, modern=modern))
        async with httpx2.AsyncClient() as http:
            for path in ("/health", "/ready", "/status", "/tools"):
                assert (await http.get(url + path)).status_code == 200, path


@pytest.mark.requirement("F-300")
@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_published_alone_introduces_itself_in_any_text(era: str, modern: bool) -> None:
    async with odd_bridge("http") as (bridge, url):
        for way in ("http", "sse"):
            async with connected(way, bridge, url, f"/servers/{era}") as client:
                asker = Asker(client, modern=modern)
                introduction = await asker.begin()
                assert introduction["instructions"] == SHOWN
                info = (
                    introduction["_meta"]["io.modelcontextprotocol/serverInfo"]
                    if modern
                    else introduction["serverInfo"]
                )
                assert (info["name"], info["version"], info["title"]) == (READ, READ, READ)
                assert READ in introduction["capabilities"]["experimental"]
                assert "result" in await asker.ask("tools/list")


@pytest.mark.requirement("F-300")
async def test_a_transport_of_ones_own_may_bring_in_any_text() -> None:
    spec = StdioServerSpec("own", "none")
    async with running(spec, transport=OwnTransport(Odd("legacy", ODD))) as upstream:
        result = await upstream.call_tool("speak", {}, (request := FakeRequest()))
        assert result["content"][0]["text"] == READ
        assert request.logs == [("error", {READ: [READ]}, READ)]
        assert upstream.features.info.instructions == SHOWN


@pytest.mark.requirement("F-300")
@pytest.mark.parametrize("way", WAYS)
async def test_text_that_came_from_anywhere_else_costs_no_client_its_session(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with odd_bridge("http") as (bridge, url):
        source = next(source for source in bridge.sources if source.name == "agent")

        async def call_tool(*_: object) -> JSON:
            return {"content": [{"type": "text", "text": ODD}], "structuredContent": {ODD: ODD}}

        monkeypatch.setattr(source, "call_tool", call_tool)
        for modern in (False, True):
            async with connected(way, bridge, url) as client:
                asker = Asker(client, modern=modern)
                await asker.begin()
                for _ in range(2):
                    called = await asker.ask("tools/call", name="say", arguments={})
                    assert called["result"]["content"][0]["text"] == READ


texts = st.text(
    st.characters(categories=None) | st.sampled_from("\ud800\udfff\ud83d\ude00\x00\u2028\u2029"), max_size=8
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4),
    max_leaves=20,
)


def replaced_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return "".join("?" if 0xD800 <= ord(character) < 0xE000 else character for character in value)
    if is_object(value):
        return {replaced_surrogates(key): replaced_surrogates(item) for key, item in value.items()}
    return [replaced_surrogates(item) for item in value] if is_array(value) else value


@pytest.mark.requirement("F-300")
@given(documents, st.booleans())
def test_every_message_of_a_wire_can_be_written_as_utf_8(document: Any, escaped: bool) -> None:
    text = json.dumps({"id": 1, "result": document}, ensure_ascii=escaped)
    for content in (text, text.encode("utf-8", "surrogatepass")):
        if isinstance(content, str) and not escaped:
            continue  # a stream of events is decoded before, with what is no UTF-8 replaced
        [message] = messages(content)
        json.dumps(message, ensure_ascii=False).encode()


@pytest.mark.requirement("F-300")
@given(documents)
def test_json_is_a_copy_only_where_a_text_had_to_be_replaced(document: Any) -> None:
    before = json.dumps(document)
    valid = valid_json(document)
    json.dumps(valid, ensure_ascii=False).encode()
    assert json.dumps(document) == before
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        assert valid == replaced_surrogates(document)
    else:
        assert valid is document


def test_texts_are_replaced_at_any_depth() -> None:
    deep: Any = "\ud800"
    for _ in range(5_000):
        deep = [deep]
    valid = valid_json(deep)
    while is_array(valid):
        [valid] = valid
    assert valid == "?"
