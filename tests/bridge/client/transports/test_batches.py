"""A server may put several messages into one JSON array; each is taken as if it had come alone, on every wire.

JSON-RPC 2.0, section 6; MCP 2025-03-26, basic, "Batching".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from gaia_bridge.client.transport import Link, UpstreamError
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import EvilServer, Exchange, evil_http
from tests.support.http_links import LEGACY, MODERN, Heard, SessionServer, in_session, linked, modern, request
from tests.support.obedient_children import Received, child, launched

pytestmark = pytest.mark.anyio

NEWS: JSON = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "first"}}
QUESTION: JSON = {"jsonrpc": "2.0", "id": "q", "method": "ping"}
LAST: JSON = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def batch(*messages: JSON) -> bytes:
    return json.dumps(messages).encode()


@asynccontextmanager
async def answered_with(
    *messages: JSON, stream: bool, status: int = 200, revision: str | None = LEGACY
) -> AsyncGenerator[tuple[Link, Heard]]:
    """A Streamable HTTP server that answers every POST with one batch."""

    async def serve(exchange: Exchange) -> None:
        if stream:
            await exchange.chunks()
            await exchange.event(batch(*messages).decode())
            await exchange.end()
        else:
            await exchange.answer(batch(*messages), status)

    heard = Heard()
    async with evil_http() as server, linked(server.url("batch"), heard, revision) as link:
        server.faults["batch"] = serve
        yield link, heard


@pytest.mark.parametrize("revision", [None, "2025-03-26", LEGACY, MODERN])
@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.requirement("P-3")
async def test_a_response_may_come_in_a_batch_with_other_messages(stream: bool, revision: str | None) -> None:
    response = {"jsonrpc": "2.0", "id": 1, "result": {"of": "batch"}}
    async with answered_with(NEWS, QUESTION, response, LAST, stream=stream, revision=revision) as (link, heard):
        message = modern() if revision == MODERN else request("tools/call" if revision else "initialize")
        assert await link.request(message) == response
        assert heard.messages == [(NEWS, 1), (QUESTION, 1), (LAST, 1)]


@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.requirement("F-068")
async def test_a_batch_that_answers_another_request_is_an_error(stream: bool) -> None:
    async with answered_with(NEWS, {"jsonrpc": "2.0", "id": 2, "result": {}}, stream=stream) as (link, _):
        with pytest.raises(UpstreamError, match="answered another request than was made"):
            await link.request(request())


@pytest.mark.requirement("F-068")
async def test_a_batch_without_a_response_is_an_error_at_once() -> None:
    async with answered_with(NEWS, QUESTION, stream=False) as (link, heard):
        with pytest.raises(UpstreamError, match="no JSON-RPC response"):
            await link.request(request())
        assert heard.messages == [(NEWS, 1), (QUESTION, 1)]


@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
async def test_a_batch_of_too_many_messages_is_an_error(stream: bool) -> None:
    async with answered_with(*[NEWS] * 1_001, stream=stream) as (link, heard):
        with pytest.raises(UpstreamError, match="1,001 messages in one batch"):
            await link.request(request())
        assert heard.messages == []


async def test_an_error_may_come_in_a_batch_whatever_its_status() -> None:
    error = {"code": -32600, "message": "Invalid Request"}
    async with answered_with({"jsonrpc": "2.0", "id": None, "error": error}, stream=False, status=400) as (link, _):
        assert await link.request(request()) == {"jsonrpc": "2.0", "id": 1, "error": error}


async def test_a_standing_stream_may_carry_batches_and_nonsense_between_them() -> None:
    async def stand(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event(batch(NEWS, QUESTION).decode())
        await exchange.event("no json")
        await exchange.event(batch(LAST).decode())
        await exchange.until_closed()

    heard, sessions = Heard(), SessionServer(stand)
    async with in_session(sessions, heard):
        await heard.until(lambda: len(heard.messages) == 3)
        assert heard.messages == [(NEWS, None), (QUESTION, None), (LAST, None)]
    assert len(sessions.gets) == 1


async def test_one_event_of_http_sse_may_answer_several_requests() -> None:
    heard, opened, waiting = Heard(), list[Exchange](), list[JSON]()

    def into(server: EvilServer) -> None:
        server.faults |= {"stream": stream, "post": post}

    async def stream(exchange: Exchange) -> None:
        opened.append(exchange)
        await exchange.chunks()
        await exchange.event("/post", event="endpoint")
        await exchange.until_closed()

    async def post(exchange: Exchange) -> None:
        waiting.append(exchange.result())
        await exchange.answer(status=202, kind=None)
        if len(waiting) == 2:
            await opened[0].event(batch(NEWS, *waiting, QUESTION).decode())

    async with evil_http() as server:
        into(server)
        async with linked(server.url("stream"), heard, sse=True) as link:
            both = await asyncio.gather(link.request(request()), link.request(request(request_id=2)))
            assert [response["result"] for response in both] == [{"for": 1}, {"for": 2}]
            await heard.until(lambda: len(heard.messages) == 2)
            assert heard.messages == [(NEWS, None), (QUESTION, None)]


async def test_one_line_of_a_child_may_answer_several_requests() -> None:
    received = Received()
    code = f"late = []\nnews, question = {json.dumps(NEWS)}, {json.dumps(QUESTION)}"
    keep = "late.append({'id': current, 'result': {}})"
    flush = f"{keep}\nraw(json.dumps([news, *late, question]).encode() + b'\\n')"
    async with launched(child(code), received) as link:
        both = await asyncio.gather(link.request(request("do", 1, do=keep)), link.request(request("do", 2, do=flush)))
        assert [response["id"] for response in both] == [1, 2]
        assert received.messages == [NEWS, QUESTION]


async def test_a_line_of_too_many_messages_is_left_out_and_costs_nothing_else() -> None:
    received = Received()
    flood = f"raw(json.dumps([{json.dumps(NEWS)}] * 1_001).encode() + b'\\n'); reply()"
    async with launched(child(), received) as link:
        assert (await link.request(request("do", do=flood)))["result"] == {}
        assert (received.messages, link.garbage.count) == ([], 1)
