"""One log line per call: client, method, target, duration, outcome and sizes, never the contents.

The thread that writes the log formats the line; the caller only hands over texts and numbers. If the level is not
enabled, a call costs one test of the level.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

_SHOWN: Final = 120
"""Characters of a name that are logged."""
KEPT: Final = 4 * _SHOWN
"""Characters of a name that are kept until it is logged, with its blanks."""
_TOOLS: Final = 20
"""Tools that the line of one turn names."""
_RECORD: Final = vars(logging.LogRecord(logger.name, logging.INFO, __file__, 0, "", None, None))
"""The attributes that all records of calls share: computing them for each would cost more than the rest."""
_REMEMBERED: Final = 256
"""Beginnings of lines: a client calls the same tools again and again."""


class CallRecord(Struct, frozen=True, gc=False):
    """The facts that are logged about one call."""

    client: str
    """Name and version of the client, as it says."""
    number: int
    """Identifies its connection or session."""
    method: str
    target: str
    source: str
    outcome: str
    seconds: float
    bytes_in: int
    bytes_out: int
    tools: tuple[str, ...] = ()
    """The tools that a turn of an agent called."""

    def __str__(self) -> str:
        """Return the line for the log."""
        tools = f", called {', '.join(_named(self.tools))}" if self.tools else ""
        return (
            f"{_who(self.client, self.number)} {self.method} {_what(self.target)} of {self.source}: {self.outcome} "
            f"in {round(self.seconds * 1000, 1):g} ms, {self.bytes_in} B in, {self.bytes_out} B out{tools}"
        )

    def to_json(self) -> JSON:
        """Return the same facts for programs."""
        call = {
            "client": _who(self.client, self.number),
            "source": self.source,
            "method": self.method,
            "target": _what(self.target),
            "ms": round(self.seconds * 1000, 1),
            "outcome": self.outcome,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }
        return {**call, "tools": _named(self.tools)} if self.tools else call


@lru_cache(_REMEMBERED)
def _who(client: str, number: int) -> str:
    return f"{one_line(client, _SHOWN)} #{number & 0xFFFF:04x}"


@lru_cache(_REMEMBERED)
def _what(target: str) -> str:
    return one_line(target.partition("?")[0], _SHOWN)


def tell_of(make: Callable[[], CallRecord]) -> None:
    """Log the line of a call, if calls are logged."""
    if is_wanted():
        leave(make())


def is_wanted() -> bool:
    """Return whether calls are logged."""
    return logger.isEnabledFor(logging.INFO)


def leave(call: CallRecord) -> None:
    """Log the line of a call."""
    now, take = time.time(), _only_taker()
    if take is None or not take(call, now):
        logger.handle(record_of(call, now))


def record_of(call: CallRecord, created: float) -> logging.LogRecord:
    """Return the log record of a call, which ended so many seconds after the epoch."""
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__ = {**_RECORD, "msg": call, "call": call, "created": created, "msecs": created % 1 * 1000}
    return record


def _only_taker() -> Callable[[CallRecord, float], bool] | None:
    """Return the method that takes calls without a record, which costs more than the line; `None` if there is none.

    That is the method `take_call` of the only handler of these records, if it has one and nothing is filtered. The
    method returns whether it took the call.
    """
    handlers: list[logging.Handler] = []
    place: logging.Logger | None = logger
    while place is not None:
        handlers += place.handlers
        place = place.parent if place.propagate else None
    if len(handlers) != 1 or logger.filters or logger.disabled:
        return None
    [only] = handlers
    take: Callable[[CallRecord, float], bool] | None = getattr(only, "take_call", None)
    return None if only.filters or only.level > logging.INFO else take


def size_of(value: Any) -> int:
    """Return the size of a value as JSON in bytes; 0 for `None`, and for a value that has no JSON."""
    try:
        return 0 if value is None else len(to_json(value))
    except ValueError:
        return 0


def _named(tools: tuple[str, ...]) -> list[str]:
    counted = Counter(tools)
    named = [one_line(name, _SHOWN) + (f" x{times}" if times > 1 else "") for name, times in counted.items()]
    return named if len(named) <= _TOOLS else [*named[:_TOOLS], f"{len(named) - _TOOLS} more"]


def is_traced() -> bool:
    """Return whether anybody collects spans: then the SDK is loaded, and not the API alone, which makes none."""
    return "opentelemetry.sdk" in sys.modules
