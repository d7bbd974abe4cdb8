"""Texts in pieces of so many bytes of JSON, and both their ends. No more of a text is looked at than is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from gaia_bridge.protocol.encoding import encoded
from gaia_bridge.text.borders import border_after, border_before


def json_bytes(text: str, limit: int) -> int:
    """Bytes of a text in JSON; some number beyond the limit if it certainly has more.

    Args:
        text: The text.
        limit: Bytes.
    """
    return len(text) + 2 if len(text) > limit else len(encoded(text))


def both_ends(text: str, room: int) -> tuple[str, str]:
    """Both ends of a text, together of at most so many bytes in JSON; of lines, whole ones.

    Args:
        text: The text.
        room: Bytes, without quotation marks.
    """
    room = max(room, 0)
    head = text[: _fitting(text[: room * 2 // 3], room * 2 // 3)]
    end = head.rfind("\n", len(head) // 2)
    head = head[:end] if end > 0 else text[: border_before(text, len(head))]
    tail = text[max(len(head), len(text) - room // 3) :][::-1]
    tail = tail[: _fitting(tail, room // 3)][::-1]
    start = tail.find("\n", 0, len(tail) // 2 + 1)
    tail = tail[start + 1 :] if start >= 0 else text[border_after(text, len(text) - len(tail)) :]
    return head, tail


def pieces(text: str, size: int) -> Iterator[str]:
    """A text in pieces, of which each has at most so many bytes in JSON, up to the end of a line where there is one.

    Args:
        text: The text.
        size: Bytes, without quotation marks.
    """
    start = 0
    while start < len(text):
        beginning = text[start : start + size]
        beginning = beginning[: _fitting(beginning, size)]
        is_last = start + len(beginning) >= len(text)
        end = 0 if is_last else beginning.rfind("\n", len(beginning) // 2) + 1
        stop = start + (end or len(beginning) or 1)
        border = border_before(text, stop)
        stop = border if border > start else stop
        yield text[start:stop]
        start = stop


def _fitting(text: str, size: int) -> int:
    """How many characters of the beginning of a text have so many bytes in JSON, at most."""
    if len(encoded(text)) - 2 <= size:
        return len(text)
    low, high = 0, len(text)
    while low < high:  # what a text has in JSON is what its parts have
        middle = (low + high + 1) // 2
        more = len(encoded(text[low:middle])) - 2
        if more <= size:
            low, size = middle, size - more
        else:
            high = middle - 1
    return low
