"""The error output of one child: always read, never kept whole, redacted line by line."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.text.escaping import MAX_SHOWN, printable
from gaia_bridge.text.redaction import LineRedactor, Redactor

logger = logging.getLogger(__name__)

_LINE: Final = 4 * MAX_SHOWN
"""The most bytes of a line that are processed; a log shows no more."""
_KEPT: Final = 20
"""Lines that are kept: mostly, the last ones explain why a server does not start."""
_LINES: Final = 1_000
"""The most lines within a second that are processed. A flood of more would block the event loop for all others."""


class ErrorOutput(asyncio.Protocol):
    """Reads a child's error output on the event loop, so that the child never blocks on it.

    Args:
        secrets: Removes secrets from the lines.
        heard: Called with every line that is processed, before `on_line`.
    """

    def __init__(
        self,
        server: str,
        secrets: Redactor,
        on_line: Callable[[str], None] | None,
        now: Callable[[], float],
        heard: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._server = server
        self._redacted = LineRedactor(secrets)
        self._now = now
        self._window = now()
        self._left = _LINES
        self._left_out = 0
        self._latest = b""
        self._on_line = on_line
        self.lines = deque[str](maxlen=_KEPT)
        """The latest lines, the oldest first."""
        self._begun = b""
        self._heard = heard
        self.ended = False
        """Whether the output has ended."""

    @property
    def last_line(self) -> str:
        """The latest line; empty if there is none."""
        self._catch_up()
        return self.lines[-1] if self.lines else ""

    def data_received(self, data: bytes) -> None:
        if (now := self._now()) - self._window >= 1:
            self._catch_up()
            self._window, self._left = now, _LINES
        while self._left and data:
            # A line may never end, so bytes beyond the limit are dropped at once.
            line, end, data = data.partition(b"\n")
            self._begin(line)
            if end:
                self._left -= 1
                self._add(self._begun)
                self._begun = b""
        if data:
            self._leave_out(data)

    def _begin(self, line: bytes) -> None:
        self._begun += line[: max(0, _LINE - len(self._begun))]

    def _leave_out(self, data: bytes) -> None:
        """Count lines and drop them, all but the last, which may be the reason of the child's end."""
        number = data.count(b"\n")
        lines, _, rest = data.rpartition(b"\n")
        if number:
            self._left_out += number
            *before, latest = lines.rsplit(b"\n", 1)
            self._latest = (latest if before else self._begun + latest)[:_LINE]
            self._begun = b""
        self._begin(rest)

    def _catch_up(self) -> None:
        if self._left_out:
            number, self._left_out = self._left_out, 0
            if number > 1:
                self._add(f"({number - 1:,} lines were left out: too many within a second)".encode())
            self._add(self._latest)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._catch_up()
        self._add(self._begun)
        self._begun = b""

    def _add(self, line: bytes) -> None:
        text = printable(self._redacted(line.decode("utf-8", "replace")).strip())
        if not text:
            return
        self.lines.append(text)
        logger.debug("%s: %s", self._server, text)
        self._heard(text)
        if self._on_line is not None:
            self._on_line(text)
