"""What a child's standard output says, line by line, and what of it is no message at all. Pure."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json

from gaia_bridge.framing import OversizedLine
from gaia_bridge.jsontypes import JSON, is_array, is_object
from gaia_bridge.redact import redacted
from gaia_bridge.text import printable

__all__ = ["Garbage", "messages", "request_id_of"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_SHOWN: Final = 3
"""Lines of garbage that are kept for people to see."""

_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


def messages(line: bytes) -> list[JSON]:
    """The messages in one line: one, or those of a batch (2025-03-26), or none if it is no JSON-RPC.

    Bytes that are no UTF-8 are replaced (F-011). NaN and the infinities, which JSON does not have and some servers
    write all the same, become null (F-039).
    """
    try:
        content: Any = from_json(line, allow_inf_nan=False)
    except ValueError:
        content = _leniently(line)
    found: list[Any] = content if is_array(content) else [content]
    return [message for message in found if is_object(message) and _is_message(message)]


def request_id_of(line: OversizedLine | bytes) -> int | None:
    """Which request a response answers that could not be read, if its two ends tell (F-014, F-040)."""
    head, tail = (line.head, line.tail) if isinstance(line, OversizedLine) else (line[:512], line[-512:])
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(found[1]) if found else None


class Garbage:
    """Counts what is no message, within a budget (F-008, F-009).

    Args:
        budget: Lines within the window; more is too much.
        window: Seconds.
        now: The clock.
        secrets: Takes secrets out of what is shown.
    """

    def __init__(
        self, budget: int, window: float, now: Callable[[], float], secrets: Callable[[str], str] = redacted
    ) -> None:
        self._secrets = secrets
        self._window = window
        self._now = now
        self._times: deque[float] = deque(maxlen=budget + 1)
        self.count = 0
        """Lines in all."""
        self.first: list[str] = []
        """The first of them, made printable."""

    def add(self, line: bytes) -> bool:
        """Count a line; returns whether that is still within the budget."""
        now = self._now()
        self.count += 1
        self._times.append(now)
        if len(self.first) < _SHOWN:
            self.first.append(printable(self._secrets(line[:400].decode("utf-8", "replace")), 200))
        full = len(self._times) == self._times.maxlen
        return not (full and now - self._times[0] < self._window)


def _leniently(line: bytes) -> Any:
    text = line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _is_message(message: JSON) -> bool:
    return isinstance(message.get("method"), str) or ("id" in message and ("result" in message or "error" in message))
