"""Newline-delimited JSON: splits a byte stream into lines, in linear time and bounded memory. Pure."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

_ENDS = 512
"""Bytes that are kept of the beginning and of the end of an oversized line, to find its JSON-RPC id."""
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")\s*'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",")
_ID_LAST: Final = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_METHOD: Final = re.compile(rb'"method"\s*:\s*"')


def identifier_of(head: bytes, tail: bytes | None = None, marker: re.Pattern[bytes] = _METHOD) -> int | str | None:
    """Return the id of a JSON-RPC message that could not be parsed, if the id is near its beginning or end.

    Args:
        head: The first bytes of the message, or all of it.
        tail: The last bytes; `None` if `head` is the whole message.
        marker: A part of such messages, without which there is no id: by default a method, since the id of a response
            is one of ours.
    """
    head, tail = head[:_ENDS], (head if tail is None else tail)[-_ENDS:]
    match = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if match is None or not (marker.search(head) or marker.search(tail)):
        return None
    try:
        identifier: int | str = json.loads(match[1])
    except ValueError:
        return None
    return identifier


class OversizedLine(NamedTuple):
    """Replaces a line that was longer than the limit and was discarded: its bytes, and the first and last of them."""

    size: int
    head: bytes = b""
    tail: bytes = b""


class LineFramer:
    r"""Splits a byte stream at `\n`. A line over the limit is discarded while it arrives; later lines are unaffected.

    The limit is in bytes, without the line end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self.size = 0
        """Bytes received of the incomplete line."""
        self._head = b""
        self._tail = b""
        self.blank = 0
        """The number of blank lines received; the caller that counts them resets this."""

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes; return the lines that they complete, without line ends and blank lines."""
        end = len(data) - 1
        if data[end:] == b"\n" and not self.size and data.find(b"\n") == end < self._limit:
            line = data[:end]  # fast path: nearly always exactly one line, of an object
            if line[-1:] == b"\r":
                line = line[:-1]
            if line[:1] == b"{" or line.strip():
                return [line]
            self.blank += 1
            return []
        lines: list[bytes | OversizedLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            lines.extend(self.end())
            start = end + 1
        self._keep(data[start:])
        return lines

    def _keep(self, part: bytes) -> None:
        self.size += len(part)
        if self.size <= self._limit + 1:  # the last byte may be the `\r` of the end
            if part:
                self._parts.append(part)
        elif self._parts or not self._head:  # of a line that is too long, only its ends are kept
            line = b"".join((*self._parts, part))
            self._head, self._tail = line[:_ENDS], line[-_ENDS:]
            self._parts.clear()
        else:
            self._tail = (self._tail + part[-_ENDS:])[-_ENDS:]

    def end(self) -> list[bytes | OversizedLine]:
        """End the incomplete line, as the end of the stream does; return the line, unless it is blank."""
        size, line = self.size, b"".join(self._parts).removesuffix(b"\r")
        head, tail = self._head or line[:_ENDS], self._tail or line[-_ENDS:]
        self.size, self._parts, self._head, self._tail = 0, [], b"", b""
        if size > self._limit + 1 or len(line) > self._limit:
            return [OversizedLine(size, head, tail)]
        if line.strip():
            return [line]
        self.blank += 1
        return []
