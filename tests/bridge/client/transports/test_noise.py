"""What servers write between their messages, and the official clients skip, costs no message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaia_bridge.client.transports import json_rpc
from gaia_bridge.client.transports.http.sse_parser import EventParser
from gaia_bridge.protocol.framing import LineFramer
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import Exchange, evil_http
from tests.support.http_links import LEGACY, MODERN, linked, request
from tests.support.on_demand import mcp_types

ODD_LINES = (
    b"",
    b" \t ",
    b"\xef\xbb\xbf",
    b"Listening on stdio ...",
    b"\x1b[32mINFO\x1b[0m started \x1b]0;title\x07",
    b"2026-01-01 12:00:00 [info] {'id': 1, 'result': {}}",
    b'{"level":"info","msg":"request","id":1,"method":"tools/call"}',
    b'{"level":"debug","id":1,"result":{"content":[]}}',
    b'{"level":"error","id":1,"error":"none"}',
    b'{"id": 1, "level": "info"}',
    b'{"type":"heartbeat"}',
    b"{",
    b'  "jsonrpc": "2.0",',
    b"}",
    b"null",
    b"42",
    b'"ready"',
    b"[]",
    b"[1, 2]",
    b"\x00\x01",
    b"> some-server@1.0.0 start",
    "日本語 ✓".encode(),
    b"data: x",
)
"""Lines between the messages, which are none."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)


def answer(number: int, text: str) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "result": {"text": text}}


def news(text: str) -> JSON:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}}


def question(text: str) -> JSON:
    return {"jsonrpc": "2.0", "id": text, "method": "roots/list"}


MESSAGES = st.builds(answer, st.integers(0, 2**53), TEXTS) | st.builds(news, TEXTS) | st.builds(question, TEXTS)
MIXED = st.lists(MESSAGES | st.sampled_from(ODD_LINES), max_size=12)
"""Messages, and between them lines that are none."""


def written(message: JSON) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def in_pieces(content: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = [0, *sorted({cut % (len(content) + 1) for cut in cuts}), len(content)]
    return (content[start:end] for start, end in zip(places, places[1:], strict=False))


CUTS = st.lists(st.integers(0, 2_000), max_size=8)


@given(MIXED, CUTS, st.sampled_from([b"\n", b"\r\n"]))
@pytest.mark.requirement("F-008", "F-012", "F-017")
def test_lines_that_are_no_messages_cost_none_on_a_pipe(mixed: list[Any], cuts: list[int], end: bytes) -> None:
    content = b"".join((part if isinstance(part, bytes) else written(part)) + end for part in mixed)
    framer = LineFramer(1_000_000)
    found: list[JSON] = []
    for piece in in_pieces(content, cuts):
        for line in framer.feed(piece):
            assert isinstance(line, bytes)
            found += json_rpc.messages_in_line(line)
            if not json_rpc.messages_in_line(line):
                assert json_rpc.request_id_of(line) is None  # else it would be taken for an answer that cannot be read
    assert found == [part for part in mixed if not isinstance(part, bytes)]


def test_the_official_client_reads_no_message_in_these_lines() -> None:
    for line in ODD_LINES:
        with pytest.raises(ValueError, match=r"."):
            mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)


ODD_EVENTS = (
    b":\n\n",
    b": ping - 2026-01-01\n\n",
    b"event: ping\ndata: 2026-01-01\n\n",
    b"event: heartbeat\ndata: {}\n\n",
    b"event: ping\n\n",
    b"id: 7\n\n",
    b"id: 8\ndata:\n\n",
    b"id: 9\nretry: 100\ndata: \n\n",
    b"retry: 100\n\n",
    b"retry: soon\n\n",
    b"data\n\n",
    b"data:\n\n",
    b"unknown: field\n\n",
    b"\n\n\n",
    *(b"data: " + line + b"\n\n" for line in ODD_LINES if line.strip()),
)
"""Events that carry no message."""


class Written:
    """A message as an event, in one of the forms that an event may have."""

    def __init__(self, message: JSON, head: bytes, prefix: bytes, tail: bytes, *, pretty: bool) -> None:
        self.message = message
        text = json.dumps(message, ensure_ascii=False, indent=1 if pretty else None).encode()
        data = b"".join(prefix + line + b"\n" for line in text.split(b"\n"))
        self.content = head + data + tail + b"\n"


EVENTS = st.builds(
    Written,
    MESSAGES,
    st.sampled_from(
        [b"", b"event: message\n", b"event:message\n", b"event:\n", b"id: 1\n", b": comment\n", b"retry: 5\n"]
    ),
    st.sampled_from([b"data: ", b"data:"]),
    st.sampled_from([b"", b"event: message\n", b"id: 2\n", b":\n"]),
    pretty=st.booleans(),
)
STREAMS = st.lists(EVENTS | st.sampled_from(ODD_EVENTS), max_size=10)


@given(STREAMS, CUTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
@example([ODD_EVENTS[0]], [], b"\n", True)
def test_events_that_carry_no_message_cost_none_in_a_stream(
    stream: list[Any], cuts: list[int], end: bytes, mark: bool
) -> None:
    content = b"".join(part if isinstance(part, bytes) else part.content for part in stream).replace(b"\n", end)
    parser = EventParser(1_000_000)
    found: list[JSON] = []
    for piece in in_pieces((b"\xef\xbb\xbf" if mark else b"") + content, cuts):
        for event in parser.feed(piece):
            if event.type == "message":
                found += [message for message in parts_of(event.data) if json_rpc.is_message(message)]
    assert found == [part.message for part in stream if not isinstance(part, bytes)]


@pytest.mark.anyio
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_request_is_answered_whatever_stands_in_its_stream_before(revision: str) -> None:
    async def noisy(exchange: Exchange) -> None:
        await exchange.chunks()
        for odd in ODD_EVENTS:
            await exchange.chunk(odd)
        await exchange.event({**exchange.result(), "id": str(exchange.id)})

    async with evil_http() as server, linked(server.url("noisy"), revision=revision) as link:
        server.faults["noisy"] = noisy
        assert (await link.request(request(request_id=7)))["result"] == {"for": 7}


@pytest.mark.anyio
async def test_what_stands_before_the_endpoint_and_the_answers_of_an_old_stream_is_skipped() -> None:
    streams: list[Exchange] = []

    async def stream(exchange: Exchange) -> None:
        streams.append(exchange)
        await exchange.chunks()
        for odd in ODD_EVENTS:
            await exchange.chunk(odd)
        await exchange.event("/post", event="endpoint")
        await exchange.until_closed()

    async def post(exchange: Exchange) -> None:
        await exchange.answer(b"Accepted", 202, "text/plain")
        for odd in ODD_EVENTS:
            await streams[0].chunk(odd)
        await streams[0].event({**exchange.result(), "id": str(exchange.id)})

    async with evil_http() as server:
        server.faults |= {"stream": stream, "post": post}
        async with linked(server.url("stream"), sse=True) as link:
            assert (await link.request(request(request_id=7)))["result"] == {"for": 7}


def parts_of(data: str) -> list[JSON]:
    try:
        return json_rpc.messages(data) if data else []
    except json_rpc.NoMessageError:
        return []
