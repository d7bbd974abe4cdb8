"""Event streams in any cut are the same events, at linear cost and within a bound."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.client.transports.http.sse_parser import EventParser, EventReader, OversizedEventError, ServerSentEvent

LIMIT = 40

streams = st.lists(
    st.sampled_from(
        [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"data", b":", b" ", b"data: x", b"data:", b"id: 7", b"id: \0"]
        + [b"event: e", b"retry: 5", b"retry: x", b"\xef\xbb\xbf", "data: é€".encode(), b"\xff", b"y" * 50]
    ),
    max_size=30,
).map(b"".join)


def parsed(chunks: Iterable[bytes], limit: int = LIMIT) -> tuple[list[ServerSentEvent], str, float | None, bool]:
    """The events of a stream, and everything else that a parser says about it."""
    parser = EventParser(limit)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events, parser.last_id, parser.retry, parser.oversized


def data_of(stream: bytes) -> list[str]:
    return [event.data for event in parsed([stream], 1_000)[0]]


@given(streams, st.lists(st.integers(min_value=0, max_value=300)))
def test_events_do_not_depend_on_how_the_bytes_arrive(stream: bytes, places: list[int]) -> None:
    edges = [0, *sorted({place % (len(stream) + 1) for place in places}), len(stream)]
    pieces = [stream[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert parsed(pieces) == parsed([stream])


@given(streams)
def test_bytes_that_come_one_by_one_are_the_same_events(stream: bytes) -> None:
    assert parsed([stream[place : place + 1] for place in range(len(stream))]) == parsed([stream])


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_what_was_written_as_events_is_read_again(end: str, texts: list[str]) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts)
    assert [event.data for event in parsed([stream.encode()], 1_000_000)[0]] == texts


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data\n\n", [""]),
        (b"data: a:b\n\n", ["a:b"]),
        (b": comment\ndata: a\n:\n\n", ["a"]),
        (b"event: only\n\n", []),
        (b"unknown: x\n\ndata: a\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
        (b"data: \xff\n\n", ["�"]),
        (b"data: cut off\n", []),
        (b"data: cut off", []),
    ],
)
def test_events_are_read_as_the_standard_says(stream: bytes, data: list[str]) -> None:
    assert data_of(stream) == data


def test_an_event_has_the_type_that_it_names_and_message_otherwise() -> None:
    events = parsed([b"event: endpoint\ndata: /x\n\ndata: a\n\nevent:\ndata: b\n\n"], 100)[0]
    assert events == [
        ServerSentEvent("endpoint", "/x"),
        ServerSentEvent("message", "a"),
        ServerSentEvent("message", "b"),
    ]


def test_an_id_counts_once_its_event_has_ended_and_holds_for_later_ones() -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"id: 1\n")
    assert parser.last_id == ""
    parser.feed(b"\n")
    assert parser.last_id == "1"
    parser.feed(b"data: no id\n\nid: with\0nul\n\n")
    assert parser.last_id == "1"
    parser.feed(b"id\n\n")
    assert parser.last_id == ""


@pytest.mark.parametrize(
    ("stream", "seconds"),
    [(b"retry: 1500\n", 1.5), (b"retry: 0\n", 0.0), (b"retry: -1\n", None), (b"retry: 1e3\n", None)]
    + [(b"retry: " + b"9" * 5_000 + b"\n", None), (b"retry:\n", None)],
)
@pytest.mark.requirement("F-056")
def test_a_retry_time_is_taken_if_it_is_a_number_of_digits(stream: bytes, seconds: float | None) -> None:
    assert parsed([stream], 10_000)[2] == seconds


@pytest.mark.parametrize("stream", [b"data: " + b"x" * LIMIT, b"data: x\n" * LIMIT, b"id: " + b"x" * LIMIT, b":" * 41])
@pytest.mark.requirement("F-059")
def test_an_event_over_the_limit_ends_the_stream_but_not_the_events_before(stream: bytes) -> None:
    events, _, _, oversized = parsed([b"data: first\n\n", stream, b"\n\ndata: after\n\n"])
    assert [event.data for event in events] == ["first"]
    assert oversized


def test_the_limit_holds_for_each_event_and_comments_do_not_add_up() -> None:
    events, _, _, oversized = parsed([b"data: %s\n\n" % (b"x" * 30), b": keep-alive\n" * 100, b"data: y\n\n"] * 2)
    assert len(events) == 4
    assert not oversized


@pytest.mark.requirement("F-059")
def test_an_event_of_many_short_lines_costs_no_more_memory_than_the_limit_says() -> None:
    limit, chunk = 2**18, b"data:xy\n" * 1_000
    parser = EventParser(limit)
    tracemalloc.start()
    try:
        while not parser.oversized:
            parser.feed(chunk)
        _, most = tracemalloc.get_traced_memory()
        assert most < 3 * limit
    finally:
        tracemalloc.stop()


@pytest.mark.anyio
async def test_a_stream_gives_its_events_one_by_one_and_then_says_why_it_ended() -> None:
    chunks = [b"data: a\n\ndata: b\n\nretry: 50\nid: 3\n\n", b"data: " + b"x" * LIMIT]

    async def read() -> bytes:
        return chunks.pop(0) if chunks else b""

    stream = EventReader(read, LIMIT)
    assert [await stream.next(), await stream.next()] == [
        ServerSentEvent("message", "a"),
        ServerSentEvent("message", "b"),
    ]
    assert (stream.parser.last_id, stream.parser.retry) == ("3", 0.05)
    with pytest.raises(OversizedEventError, match="more than 40 bytes"):
        await stream.next()


@pytest.mark.anyio
async def test_a_stream_that_ends_has_no_next_event() -> None:
    async def read() -> bytes:
        return b""

    assert await EventReader(read, LIMIT).next() is None
