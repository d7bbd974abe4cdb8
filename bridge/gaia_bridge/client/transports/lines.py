"""What a child's standard output says, line by line, and what of it is no message at all. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports import json_rpc
from gaia_bridge.protocol.framing import OversizedLine
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import redacted

_SHOWN: Final = 3
"""Lines of garbage that are kept for people to see."""

_ID: Final = rb'"id"\s*:\s*("?)(\d{1,18})\1\s*'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_ID_LAST: Final = re.compile(_ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_ANSWERS: Final = re.compile(rb'"(?:jsonrpc|result|error)"\s*:')
"""One of these is near an end of each response, and seldom of a line of a log."""


def messages(line: bytes) -> list[JSON]:
    """The messages in one line, as `json_rpc.messages` finds them; none if it is no JSON-RPC."""
    try:
        return [message for message in json_rpc.messages(line) if json_rpc.is_message(message)]
    except UpstreamError:
        return []


def request_id_of(line: OversizedLine | bytes) -> int | None:
    """Which request a response answers that could not be read, if its two ends tell."""
    head, tail = (line.head, line.tail) if isinstance(line, OversizedLine) else (line[:512], line[-512:])
    if not (_ANSWERS.search(head) or _ANSWERS.search(tail)):
        return None
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(found[2]) if found else None


class Garbage:
    """Counts what is no message, within a budget.

    Args:
        budget: Lines within the window; more is too much.
        window: Seconds.
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
            self.first.append(self.for_log(line[:400].decode("utf-8", "replace")))
        full = len(self._times) == self._times.maxlen
        return not (full and now - self._times[0] < self._window)

    def for_log(self, text: str) -> str:
        """What the child wrote, for people: short, printable and without secrets."""
        return printable(self._secrets(text), 200)
