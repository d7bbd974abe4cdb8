"""What a child writes to its error output: passed on, counted, and the last of it kept and understood."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Final

from gaia_bridge.client.transport import StartTimeoutError, UpstreamError
from gaia_bridge.model import ServerSpec

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
        self.cause: str | None = None
        """Why it does not start, and what to do, as far as they say it."""

    def note(self, line: str) -> None:
        """One more line came."""
        self.count += 1
        self.last.append(line)
        if self._heard is not None:
            self._heard(line)

    def explained(self, spec: ServerSpec, error: UpstreamError, last: str) -> str:
        """Why the server failed, as far as it says so; its last line, where that is none of the usual causes.

        Args:
            spec: Its entry.
            error: How it failed.
            last: The last line of its connection, if it had one.
        """
        from gaia_bridge.config.launching.failure_causes import cause_for  # most servers do not fail

        late = isinstance(error, StartTimeoutError)
        cause = cause_for(spec, self.last, os.environ, timed_out=late)
        self.cause = None if cause is None else str(cause)
        if self.cause is not None:
            return self.cause
        words = last or next(reversed(self.last), "")
        return f"its last line of error output: {words}" if words else ""
