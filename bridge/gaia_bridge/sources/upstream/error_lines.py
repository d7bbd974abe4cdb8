"""The error output of a child: passed on, counted, and its last lines kept and explained."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.client.transport import StartTimeoutError, UpstreamError
from gaia_bridge.model import ServerSpec

_LAST_LINES: Final = 20
"""Lines of error output in the status, of the latest start: mostly, they explain why a server does not start.
Clients do not get them: they may belong to somebody else."""


class ErrorLines:
    """The error output of one server.

    Args:
        heard: Called with every line, redacted.
    """

    def __init__(self, heard: Callable[[str], None] | None) -> None:
        self._heard = heard
        self.count = 0
        self.last = deque[str](maxlen=_LAST_LINES)
        """The last lines of the latest start."""
        self.cause: str | None = None
        """The cause of the failed start, and the remedy, as far as the lines show them."""

    def note(self, line: str) -> None:
        """Add a line."""
        self.count += 1
        self.last.append(line)
        if self._heard is not None:
            self._heard(line)

    def explained(self, spec: ServerSpec, error: UpstreamError, last: str) -> str:
        """Explain why the server failed, by its error output; by its last line, if that shows no usual cause."""
        from gaia_bridge.config.launching.failure_causes import cause_for  # most servers do not fail

        late = isinstance(error, StartTimeoutError)
        cause = cause_for(spec, self.last, os.environ, timed_out=late)
        self.cause = None if cause is None else str(cause)
        if self.cause is not None:
            return self.cause
        words = last or next(reversed(self.last), "")
        return f"its last line of error output: {words}" if words else ""
