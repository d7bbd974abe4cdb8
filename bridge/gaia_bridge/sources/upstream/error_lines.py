"""What a child writes to its error output: passed on, counted, and the last of it kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["ErrorLines"]

_LAST_LINES: Final = 20
"""Lines of error output that the status shows, of the latest start: why a server does not start is mostly there.
Clients are not told: they may be somebody else's."""


class ErrorLines:
    """The error output of one server.

    Args:
        heard: Told every line, redacted.
    """

    def __init__(self, heard: Callable[[str], None] | None) -> None:
        self._heard = heard
        self.count = 0
        """How many lines there were."""
        self.last = deque[str](maxlen=_LAST_LINES)
        """The last ones of the latest start."""

    def note(self, line: str) -> None:
        """One more line came."""
        self.count += 1
        self.last.append(line)
        if self._heard is not None:
            self._heard(line)
