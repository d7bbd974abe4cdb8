"""Newline-delimited JSON: splits a byte stream into lines, in linear time and bounded memory. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

_ENDS = 512
"""Bytes that are kept of the beginning and of the end of an oversized line, to find its JSON-RPC id."""

_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")\s*'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",")
_ID_LAST: Final = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_METHOD: Final = re.compile(rb'"method"\s*:\s*"')


def identifier_of(head: bytes, tail: bytes | None = None) -> int | str | None:
    """The id of a JSON-RPC request that could not be parsed, if it is found near its beginning or end.

    Args:
        head: The first bytes of the request, or all of it.
        tail: The last bytes; `None` if `head` is the whole request.
    """
    head, tail = head[:_ENDS], (head if tail is None else tail)[-_ENDS:]
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None or not (_METHOD.search(head) or _METHOD.search(tail)):  # a response has an id of ours
        return None
    try:
        identifier: int | str = json.loads(found[1])
    except ValueError:
        return None
    return identifier


class OversizedLine:
    """Stands for a line that was longer than the limit and was discarded.

    Args:
        size: Its length in bytes.
        head: Its first bytes.
        tail: Its last bytes.
    """

    def __init__(self, size: int, head: bytes = b"", tail: bytes = b"") -> None:
        self.size = size
        self.head = head
        self.tail = tail


class LineFramer:
    r"""Splits a byte stream at `\n`. A line over the limit is discarded while it arrives; later lines are unaffected.

    Args:
        limit: The most bytes of one line, without its line end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""
        self.blank = 0
        """Blank lines that came, which whoever counts them sets back."""

    @property
    def size(self) -> int:
        """Bytes received of the incomplete line."""
        return self._size

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes; returns the lines that they complete, without line ends and blank lines."""
        if data.endswith(b"\n") and not self._size and data.find(b"\n") == len(data) - 1 < self._limit:
            line = data[:-1].removesuffix(b"\r")  # fast path: nearly always exactly one line
            if line.strip():
                return [line]
            self.blank += 1
            return []
        lines: list[bytes | OversizedLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            lines.extend(self._complete())
            start = end + 1
        self._keep(data[start:])
        return lines

    def end(self) -> list[bytes | OversizedLine]:
        """The stream has ended; returns its last line if that has no line end."""
        return self._complete()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit + 1:  # the last byte may be the `\r` of the end
            if part:
                self._parts.append(part)
        elif self._parts or not self._head:
            self._drop(part)
        else:
            self._tail = (self._tail + part[-_ENDS:])[-_ENDS:]

    def _drop(self, part: bytes) -> None:
        """The line is too long: keep only its first and last bytes."""
        seen = b"".join((*self._parts, part))
        self._head, self._tail = seen[:_ENDS], seen[-_ENDS:]
        self._parts.clear()

    def _complete(self) -> list[bytes | OversizedLine]:
        size, line = self._size, b"".join(self._parts).removesuffix(b"\r")
        head, tail = self._head or line[:_ENDS], self._tail or line[-_ENDS:]
        self._size, self._parts, self._head, self._tail = 0, [], b"", b""
        if size > self._limit + 1 or len(line) > self._limit:
            return [OversizedLine(size, head, tail)]
        if line.strip():
            return [line]
        self.blank += 1
        return []
