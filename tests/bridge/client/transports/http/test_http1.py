"""One HTTP/1.1 connection: the same answer however it is cut, and every fault ends it with its reason."""

from __future__ import annotations

import asyncio

import httpcore2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.client.transports.http.http1 import ClosedError, Http1Error, SendTimeoutError
from tests.support.http1_wires import Answer, Keeper, answer_of, wired

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


# What is understood

ANSWERS: list[tuple[bytes, Answer]] = [
    (HELLO, (200, {"content-length": "5"}, b"hello")),
    (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", (200, {"content-length": "0"}, b"")),
    (
        CHUNKED + b"2;a=b\r\nhe\r\n03 \r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
        (200, {"transfer-encoding": "chunked"}, b"hello"),
    ),
    (OK + b"a: 1\r\n\r\nhello", (200, {"a": "1"}, b"hello")),
    (b"HTTP/1.0 404 No\r\nA:1 \t\r\n\r\nhello", (404, {"a": "1"}, b"hello")),
    (b"HTTP/1.1 204 No\r\na: 1\r\nA: 2\r\n\r\n", (204, {"a": "1, 2"}, b"")),
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nlink: </x>\r\n\r\n" + HELLO,
        (200, {"content-length": "5"}, b"hello"),
    ),
    (
        b"HTTP/1.1 200 OK\nContent-Length: 5\nx: caf\xc3\xa9\n\nhello",
        (200, {"content-length": "5", "x": "cafÃ©"}, b"hello"),
    ),
    (
        OK + b"Connection: close\r\ncontent-length: 5\r\n\r\nhello",
        (200, {"connection": "close", "content-length": "5"}, b"hello"),
    ),
    (
        OK + b"upgrade: h2c\r\nConnection: upgrade\r\ncontent-length: 5\r\n\r\nhello",
        (200, {"upgrade": "h2c", "connection": "upgrade", "content-length": "5"}, b"hello"),
    ),
]


@pytest.mark.parametrize(("data", "answer"), ANSWERS)
def test_an_answer_is_the_same_wherever_it_is_cut(data: bytes, answer: Answer) -> None:
    assert answer_of([data]) == answer
    assert answer_of(bytewise(data)) == answer
    for at in range(1, len(data)):
        assert answer_of([data[:at], data[at:]]) == answer


TOKENS = st.text("abcXYZ019-_", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30)
FRAMING = {"connection", "content-length", "content-encoding", "transfer-encoding", "upgrade", "trailer"}


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A valid answer, in any of the ways that HTTP/1.1 has for saying the same."""
    status = draw(st.sampled_from([200, 200, 202, 204, 304, 400, 404, 500, 599]))
    names = TOKENS.filter(lambda name: name.lower() not in FRAMING)
    fields = draw(st.lists(st.tuples(names, VALUES), max_size=5))
    lines = [f"{name}:{draw(st.sampled_from(['', ' ', '  ']))}{value}" for name, value in fields]
    body = draw(st.binary(max_size=200))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if status in (204, 304):
        body = b""
    elif framing == "length":
        lines.append(f"Content-Length: {len(body)}")
    elif framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        body = chunks(draw, body)
    interim = b"HTTP/1.1 103 X\r\nlink: </x>\r\n\r\n" * draw(st.integers(0, 2))
    return interim + "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode() + body


def chunks(draw: st.DrawFn, body: bytes) -> bytes:
    parts = b""
    while body:
        size = draw(st.integers(1, len(body)))
        parts += b"%x%s\r\n%s\r\n" % (size, draw(st.sampled_from([b"", b";a", b';a="b"'])), body[:size])
        body = body[size:]
    return parts + b"0\r\n" + draw(st.sampled_from([b"", b"X-After: 1\r\n"])) + b"\r\n"


def oracle(data: bytes) -> Answer:
    """What httpx2's engine takes it for."""
    pool = httpcore2.ConnectionPool(network_backend=httpcore2.MockBackend([data]))
    with pool:
        answer = pool.request("GET", "http://server/")
        headers: dict[str, str] = {}
        for raw_name, raw_value in answer.headers:
            name, value = raw_name.decode().lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return answer.status, headers, answer.content


@settings(deadline=None)
@given(answers(), st.lists(st.integers(0, 600), max_size=8))
def test_any_valid_answer_in_any_cut_is_what_httpx2_takes_it_for(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in zip(places, places[1:], strict=False)]
    assert answer_of(pieces) == oracle(data)


# Faults

LONG = b"x" * 200_000
FAULTS: list[tuple[bytes, type[Exception], str]] = [
    (OK + b"x: " + LONG + b"\r\n\r\n", Http1Error, "more than 102400 bytes of headers"),
    (OK + b"x: y\r\n" * 60_000 + b"\r\n", Http1Error, "more than 102400 bytes of headers"),
    (OK + LONG, Http1Error, "more than 102400 bytes of headers"),
    (CHUNKED + b"0\r\nx: " + LONG + b"\r\n\r\n", Http1Error, "more than 102400 bytes of headers"),
    (CHUNKED + b"x\r\nhello\r\n0\r\n\r\n", Http1Error, "Invalid character in chunk size"),
    (CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", Http1Error, "chunk data"),
    (CHUNKED + b"f" * 20 + b"\r\n", Http1Error, "Chunk size overflow"),
    (OK + b"content-length: -5\r\n\r\nhello", Http1Error, "Content-Length"),
    (OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", Http1Error, "Duplicate Content-Length"),
    (OK + b"content-length: " + b"9" * 30 + b"\r\n\r\nhello", Http1Error, "Content-Length overflow"),
    (OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", Http1Error, "Transfer-Encoding"),
    (OK + b"transfer-encoding: gzip\r\n\r\nhello", Http1Error, "an encoding that nobody asked for"),
    (OK + b"x\0: y\r\n\r\n", Http1Error, "Invalid header token"),
    (OK + b"x: a\0b\r\n\r\n", Http1Error, "Invalid header value"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", Http1Error, "no HTTP/1.1"),
    (b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n\x00\x00", Http1Error, "no HTTP/1.1"),
    (b"", ClosedError, "the connection was closed"),
    (OK + b"content-le", ClosedError, "the connection was closed"),
    (HELLO[:-1], ClosedError, "the connection was closed"),
    (CHUNKED, ClosedError, "the connection was closed"),
    (CHUNKED + b"5\r\nhel", ClosedError, "the connection was closed"),
    (CHUNKED + b"5\r\nhello\r\n0\r\n", ClosedError, "the connection was closed"),
]


@pytest.mark.parametrize(("data", "error", "text"), FAULTS, ids=[f"{data[:60]!r}" for data, _, _ in FAULTS])
def test_a_fault_is_an_error_with_its_reason(data: bytes, error: type[Exception], text: str) -> None:
    for size in (1_000_000, 65_536, 7):
        with pytest.raises(error, match=text):
            answer_of([data[at : at + size] for at in range(0, len(data), size)])


def test_the_extension_of_a_chunk_has_a_bound() -> None:
    with pytest.raises(Http1Error, match="more than 102400 bytes of headers"):
        answer_of([CHUNKED + b"1;", *[b"x" * 10_000] * 20])


@pytest.mark.anyio
async def test_a_body_without_a_length_is_not_complete_when_the_connection_is_reset() -> None:
    wire = wired()
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(OK + b"\r\nhel")
    wire.end(ConnectionResetError(104, "Connection reset by peer"))
    assert await response.read() == b"hel"
    with pytest.raises(ClosedError) as caught:
        await response.read()
    assert isinstance(caught.value.__cause__, ConnectionResetError)


@pytest.mark.anyio
async def test_a_body_without_a_length_is_not_complete_when_we_close_the_connection() -> None:
    wire = wired()
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(OK + b"\r\nhel")
    wire.connection.abort()
    assert await response.read() == b"hel"
    with pytest.raises(ClosedError):
        await response.read()


# Whether it can be used again


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (HELLO, True),
        (CHUNKED + b"0\r\n\r\n", True),
        (b"HTTP/1.1 204 X\r\n\r\n", True),
        (HELLO + HELLO, False),
        (HELLO + b"x", False),
        (b"HTTP/1.0 200 X\r\ncontent-length: 0\r\n\r\n", False),
        (OK + b"connection: close\r\ncontent-length: 0\r\n\r\n", False),
        (OK + b"\r\n", False),
    ],
)
async def test_a_connection_is_kept_if_all_of_one_answer_and_nothing_else_came(data: bytes, kept: bool) -> None:
    keeper = Keeper()
    wire = wired(keeper)
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(data)
    await response.begin()
    assert (keeper.free, wire.connection.is_open) == (1, True) if kept else keeper.free == 0
    if wire.connection.is_open:
        wire.connection.data_received(b"H")
    assert not wire.connection.is_open or data.endswith(b"OK\r\n\r\n")


@pytest.mark.anyio
async def test_an_answer_that_comes_before_all_was_taken_is_the_answer_and_ends_the_connection() -> None:
    keeper = Keeper()
    wire = wired(keeper)
    wire.takes = False
    response = wire.connection.send(b"much", 5)
    wire.connection.data_received(b"HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n")
    await response.begin()
    assert (response.status, keeper.free, wire.connection.is_open) == (413, 0, False)


@pytest.mark.anyio
async def test_a_request_that_is_not_taken_in_time_is_an_error() -> None:
    wire = wired()
    wire.takes = False
    response = wire.connection.send(b"much", 0)
    with pytest.raises(SendTimeoutError):
        await response.begin()
    assert not wire.connection.is_open


@pytest.mark.anyio
async def test_a_request_that_is_taken_in_time_has_all_the_time_for_its_answer() -> None:
    wire = wired()
    wire.takes = False
    response = wire.connection.send(b"much", 0)
    wire.connection.resume_writing()
    await asyncio.sleep(0)
    wire.connection.data_received(HELLO)
    assert await response.read() == b"hello"


# What nobody reads


@pytest.mark.anyio
async def test_no_more_is_taken_in_than_a_few_hundred_kilobytes_until_somebody_reads() -> None:
    wire = wired()
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(OK + b"content-length: 1000000\r\n\r\n")
    size = 0
    while not wire.is_paused:
        wire.connection.data_received(b"x" * 10_000)
        size += 10_000
    assert size < 300_000
    read = len(await response.read())
    assert not wire.is_paused
    while read < 1_000_000:
        wire.connection.data_received(b"x" * min(10_000, 1_000_000 - size))
        size = min(size + 10_000, 1_000_000)
        read += len(await response.read())
    assert await response.read() == b""


@pytest.mark.anyio
async def test_an_answer_that_nobody_reads_leaves_a_connection_that_is_read() -> None:
    keeper = Keeper()
    wire = wired(keeper)
    wire.connection.send(b"", 1)
    wire.connection.data_received(OK + b"content-length: 300000\r\n\r\n" + b"x" * 299_999)
    assert wire.is_paused
    wire.connection.data_received(b"x")
    assert (wire.is_paused, keeper.free) == (False, 1)


@pytest.mark.anyio
async def test_reading_what_is_left_of_one_answer_does_not_meddle_with_the_next() -> None:
    wire = wired()
    first = wire.connection.send(b"", 1)
    wire.connection.data_received(HELLO)
    second = wire.connection.send(b"", 1)
    wire.connection.data_received(OK + b"content-length: 300000\r\n\r\n" + b"x" * 299_999)
    assert await first.read() == b"hello"
    first.close()
    await first.finish(0)
    assert wire.is_paused
    assert len(await second.read()) > 0
    assert not wire.is_paused
    assert wire.connection.is_open


@pytest.mark.anyio
async def test_the_rest_of_an_answer_goes_by_and_leaves_the_connection_for_the_next() -> None:
    keeper = Keeper()
    wire = wired(keeper)
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(CHUNKED + b"5\r\nhello\r\n")
    over = response.finish(5)
    wire.connection.data_received(b"5\r\nhello\r\n" * 100_000 + b"0\r\n\r\n")
    await over
    assert (keeper.free, wire.is_paused) == (1, False)


@pytest.mark.anyio
async def test_the_rest_of_an_answer_that_does_not_come_ends_the_connection() -> None:
    wire = wired()
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(CHUNKED)
    await response.finish(0)
    assert not wire.connection.is_open
