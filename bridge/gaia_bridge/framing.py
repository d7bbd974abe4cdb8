"""Newline-delimited JSON: bytes in any cut become lines, at linear cost and within a bound (F-014 to F-018). Pure."""

from __future__ import annotations

__all__ = ["LineFramer", "OversizedLine"]


class OversizedLine:
    """Stands for a line that was longer than allowed and was thrown away.

    Args:
        size: Bytes seen of it.
    """

    def __init__(self, size: int) -> None:
        self.size = size


class LineFramer:
    r"""Cuts a byte stream at `\n`. A line over the limit is dropped as it comes in, and the stream goes on after it.

    Args:
        limit: Bytes of one line, without its end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes; returns the lines that they complete, without line ends, blank lines left out."""
        lines: list[bytes | OversizedLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            lines.extend(self._complete())
            start = end + 1
        self._keep(data[start:])
        return lines

    def end(self) -> list[bytes | OversizedLine]:
        """The stream is over; returns its last line if that has no end."""
        return self._complete()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit + 1:  # the last byte may be the `\r` of the end
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _complete(self) -> list[bytes | OversizedLine]:
        size, line = self._size, b"".join(self._parts).removesuffix(b"\r")
        self._size, self._parts = 0, []
        if size > self._limit + 1 or len(line) > self._limit:
            return [OversizedLine(size)]
        return [line] if line.strip() else []
