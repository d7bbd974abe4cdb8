"""Reads the messages in lines of a child's standard output, and counts lines that are none. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports import json_rpc
from gaia_bridge.protocol.framing import OversizedLine, identifier_of
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import redacted

_SHOWN: Final = 3
"""The most lines of garbage that are kept to be shown to people."""
_ANSWERS: Final = re.compile(rb'"(?:jsonrpc|result|error)"\s*:')
"""Keys near an end of each response, and seldom in a line of a log."""


def messages(line: bytes) -> list[JSON]:
    """Parse the messages in one line with `json_rpc.messages`; none if it is no JSON-RPC."""
    try:
        return [message for message in json_rpc.messages(line) if json_rpc.is_message(message)]
    except UpstreamError:
        return []


def plain_response(line: bytes) -> JSON | None:
    """Parse a line that is a response to a request with a number, and nothing unusual; `None` for all others."""
    try:
        message: Any = from_json(line, allow_inf_nan=False)
        is_plain = type(message["id"]) is int and message["jsonrpc"] == "2.0" and "method" not in message
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return message if is_plain else None


def request_id_of(line: OversizedLine | bytes) -> int | None:
    """Return the id of the request that an unreadable response answers, if one of its ends has the id."""
    head, tail = (line.head, line.tail) if isinstance(line, OversizedLine) else (line, None)
    return own_id(identifier_of(head, tail, _ANSWERS))


class Garbage:
    """Counts lines that are no messages: at most `budget` of them within `window` seconds are tolerated."""

    def __init__(
        self, budget: int, window: float, now: Callable[[], float], secrets: Callable[[str], str] = redacted
    ) -> None:
        self._secrets = secrets
        self._window = window
        self._now = now
        self._times: deque[float] = deque(maxlen=budget + 1)
        self.count = 0
        """The number of lines in all."""
        self.first: list[str] = []
        """The first lines, made printable."""

    def add(self, line: bytes) -> bool:
        """Count a line; return whether that is still within the budget."""
        now = self._now()
        self.count += 1
        self._times.append(now)
        if len(self.first) < _SHOWN:
            self.first.append(self.for_log(line[:400].decode("utf-8", "replace")))
        full = len(self._times) == self._times.maxlen
        return not (full and now - self._times[0] < self._window)

    def for_log(self, text: str) -> str:
        """Make text of the child fit for people: short, printable and without secrets."""
        return printable(self._secrets(text), 200)
