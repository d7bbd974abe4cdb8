"""Bytes in any cut become the same lines, at linear cost and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.protocol.framing import LineFramer, OversizedLine, identifier_of

LIMIT = 8

streams = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"a", b"bc", b"\xff", b"x" * 7, b"y" * 20])).map(
    b"".join
)


def framed(chunks: Iterable[bytes], limit: int = LIMIT) -> list[bytes | int]:
    """The lines of a stream; an oversized one is its number of bytes."""
    framer = LineFramer(limit)
    lines = [line for chunk in chunks for line in framer.feed(chunk)] + framer.end()
    return [line.size if isinstance(line, OversizedLine) else line for line in lines]


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(stream) + 1) for place in places}), len(stream)]
    return [stream[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@given(streams, st.lists(st.integers(min_value=0, max_value=200)))
@pytest.mark.requirement("S-12")
def test_lines_do_not_depend_on_how_the_bytes_arrive(stream: bytes, places: list[int]) -> None:
    assert framed(cut(stream, places)) == framed([stream])


@given(streams)
def test_bytes_that_come_one_by_one_are_the_same_lines(stream: bytes) -> None:
    assert framed([stream[place : place + 1] for place in range(len(stream))]) == framed([stream])


@given(
    st.lists(st.binary(max_size=LIMIT).filter(lambda line: b"\n" not in line and b"\r" not in line and line.strip()))
)
def test_what_was_joined_by_line_ends_comes_apart_again(lines: list[bytes]) -> None:
    assert framed([b"\n".join(lines)]) == lines
    assert framed([b"\r\n".join(lines)]) == lines


@given(st.lists(st.sampled_from([b"{}", b"x" * 9, b"", b"y" * 100]), min_size=1), st.lists(st.integers(0, 500)))
def test_after_a_line_that_is_too_long_the_next_one_is_read(lines: list[bytes], places: list[int]) -> None:
    expected = [len(line) if len(line) > LIMIT else line for line in lines if line]
    assert framed(cut(b"".join(line + b"\n" for line in lines), places)) == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit_counts_the_line_without_its_end(end: bytes) -> None:
    assert framed([b"x" * LIMIT + end]) == [b"x" * LIMIT]
    [size] = framed([b"x" * (LIMIT + 1) + end])
    assert size == LIMIT + len(end)


def test_a_carriage_return_alone_is_not_worth_a_byte_more() -> None:
    assert framed([b"x" * LIMIT + b"\rz\n"]) == [LIMIT + 2]


def test_blank_lines_are_left_out() -> None:
    assert framed([b"\n \n\t\r\n{}\n\n"]) == [b"{}"]


def test_the_last_line_needs_no_end() -> None:
    assert framed([b"{}\n[]"]) == [b"{}", b"[]"]
    assert framed([b"{}\n"]) == [b"{}"]


class Watched(bytes):
    """Bytes that count how many of them were looked at."""

    looked_at = 0

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        found = super().find(sub, start, end)
        Watched.looked_at += (len(self) if found < 0 else found + 1) - int(start)
        return found


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_every_byte_is_looked_at_once_however_long_the_line(size: int) -> None:
    Watched.looked_at = 0
    chunks = [Watched(b"x" * size) for _ in range(500)] + [Watched(b"y\nz\n")]
    assert framed(chunks, limit=10**9) == [b"x" * size * 500 + b"y", b"z"]
    assert Watched.looked_at == sum(map(len, chunks))


def test_a_line_that_is_too_long_takes_no_memory() -> None:
    framer = LineFramer(LIMIT)
    for _ in range(10_000):
        assert framer.feed(b"x" * 1_000) == []
    [line] = framer.feed(b"\n")
    assert isinstance(line, OversizedLine)
    assert line.size == 10_000_000
    assert framer.feed(b"{}\n") == [b"{}"]


@pytest.mark.requirement("F-244")
@pytest.mark.parametrize(
    ("line", "identifier"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"y":', 7),
        (b'{"id":"a\\"b","jsonrpc":"2.0","method":"x"', 'a"b'),
        (b'{"method":"x","params":{"y":5' + b"5" * 3000 + b'},"jsonrpc":"2.0","id":7}', 7),
        (b'{"method":"x","params":{},"id":"z","jsonrpc":"2.0"}', "z"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"y":', None),
        (b'{"params":{"id":7},"method":"x"', None),
        (b'"id":7,"method":"x"', None),
        (b'{"id":1.5,"method":"x"}', None),
        (b"", None),
    ],
)
def test_the_id_of_a_request_that_cannot_be_read_is_found_at_either_end(line: bytes, identifier: object) -> None:
    assert identifier_of(line) == identifier
    assert identifier_of(line[:512], line[-512:]) == identifier
