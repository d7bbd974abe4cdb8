"""What one child writes to its error output: always read, never kept whole, redacted line by line (P-8, F-013)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.redact import Redactor
from gaia_bridge.text import MAX_SHOWN, printable

__all__ = ["ErrorOutput"]

logger = logging.getLogger(__name__)

_LINE: Final = 4 * MAX_SHOWN
"""Bytes of a line that are looked at; a log shows no more."""


class ErrorOutput(asyncio.Protocol):
    """Reads a child's error output on the event loop, so that the child never blocks on it.

    Args:
        server: Whose output it is, for the log.
        secrets: Values that it must not show.
        kept: Bytes of the latest lines that are kept.
        on_line: Told every line.
    """

    def __init__(self, server: str, secrets: Redactor, kept: int, on_line: Callable[[str], None] | None) -> None:
        self._server = server
        self._redacted = secrets
        self._kept = kept
        self._on_line = on_line
        self._lines: deque[str] = deque()
        self._bytes = 0
        self._begun = b""
        self.ended = False
        """Whether nothing comes any more."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The latest lines, the oldest first."""
        return tuple(self._lines)

    @property
    def last_line(self) -> str:
        """The latest line; empty if there is none."""
        return self._lines[-1] if self._lines else ""

    def data_received(self, data: bytes) -> None:
        """Take the next bytes."""
        first, *others = data.split(b"\n")
        # A line that never ends is not waited for: what is too much of it is not kept.
        self._begun += first[: max(0, _LINE - len(self._begun))]
        for following in others:
            self._add(self._begun)
            self._begun = following[:_LINE]

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self.ended = True
        self._add(self._begun)
        self._begun = b""

    def _add(self, line: bytes) -> None:
        text = printable(self._redacted(line.decode("utf-8", "replace")).strip())
        if not text:
            return
        self._lines.append(text)
        self._bytes += len(text)
        while self._bytes > self._kept:
            self._bytes -= len(self._lines.popleft())
        logger.info("%s: %s", self._server, text)
        if self._on_line is not None:
            self._on_line(text)
