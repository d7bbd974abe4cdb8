"""Logging of the program: to standard error, one line for each record whatever is in it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache

from gaia_bridge.cli.streams import QueuedBytes
from gaia_bridge.sanitize.escaping import printable
from gaia_bridge.sanitize.redaction import Redactor

__all__ = ["LineFormatter", "hide_in_log", "keep_log", "log_to_stderr"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_TIME = "%H:%M:%S"
_CHATTY = ("asyncio", "httpcore2", "httpx2", "mcp", "sse_starlette", "uvicorn")
"""Libraries that report every step on a level where people expect news."""

_RELAYED = "mcp.client.stdio"
"""Logs a traceback for every line of a child that is not JSON; the upstream says so itself, in one line."""

_BODIES = ("mcp.server.sse", "sse_starlette.sse")
"""What these log for debugging is every message and every piece of a conversation, which nobody wants in a file."""

_NAMES_ONLY = ("tools/call", "prompts/get")
"""Methods whose line in the log (`calls.call_log`) has no URI, in which anything might be."""

_LINE_BYTES = 512
"""What the line of a call counts for while it waits to be made; hardly one has more."""

_SECRET = 8
"""Characters of the shortest configured value that is taken out wherever it is."""


class LineFormatter(logging.Formatter):
    """Shows text of peers and agents harmlessly: control characters escaped, tracebacks indented, no secrets."""

    redacted = Redactor()
    """What takes the secrets out: by their shape, and those that it was told."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format all but the traceback."""
        record.message = printable(record.message, limit=None)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; what follows its first line is a traceback."""
        if getattr(getattr(record, "call", None), "method", None) in _NAMES_ONLY:
            return self._of_call(record)
        first, *traceback = self.redacted(super().format(record)).split("\n")
        return "\n".join([first, *(f"    {printable(line, limit=None)}" for line in traceback)])

    def _of_call(self, record: logging.LogRecord) -> str:
        """The line of a call, as it would be otherwise, without all that such a record cannot have.

        It has names that clients know, and nothing that anybody said: looking for the shapes of secrets costs more than
        the rest.
        """
        record.message, record.asctime = str(record.msg), _time_of_day(int(record.created))
        return self.redacted.without_known(self.formatMessage(record))


@lru_cache(maxsize=1)
def _time_of_day(second: int) -> str:
    return time.strftime(_TIME, time.localtime(second))


class _StandardError(logging.Handler):
    """Writes to what `sys.stderr` is at that moment. A log that cannot be written stops nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        queue = getattr(sys.stderr, "buffer", None)
        if isinstance(queue, QueuedBytes) and getattr(record, "call", None) is not None:
            # It refers to nothing that changes, and there are many: the thread that writes puts it into words.
            queue.write_later(lambda: self._line(record).encode("utf-8", "backslashreplace"), _LINE_BYTES)
            return
        try:
            sys.stderr.write(self._line(record))
            sys.stderr.flush()
        except (OSError, ValueError):
            pass

    def _line(self, record: logging.LogRecord) -> str:
        return self.format(record) + "\n"


def log_to_stderr(level: str) -> Callable[[], None]:
    """Log from now on.

    Args:
        level: `debug`, `info`, `warning` or `error`.

    Returns:
        A function that ends it.
    """
    root = logging.getLogger()
    handler = _StandardError()
    handler.setFormatter(LineFormatter(_FORMAT, _TIME))
    handler.setLevel(level.upper())  # holds whatever agents make of the level of the root logger
    before = {logger: logger.level for logger in (root, *map(logging.getLogger, (*_CHATTY, *_BODIES, _RELAYED)))}
    root.addHandler(handler)
    root.setLevel(level.upper())
    if level == "debug":
        for logger in map(logging.getLogger, _BODIES):
            logger.setLevel(logging.INFO)
    else:
        logging.getLogger(_RELAYED).setLevel(logging.CRITICAL)
    if level == "info":
        for logger in map(logging.getLogger, _CHATTY):
            logger.setLevel(logging.WARNING)

    def stop() -> None:
        root.removeHandler(handler)
        for logger, old in before.items():
            logger.setLevel(old)

    return stop


def hide_in_log(secrets: Iterable[str]) -> None:
    """Take secrets out of what is logged from now on, also where they are encoded.

    Args:
        secrets: Values; short ones, and paths, are in too many lines that mean something else.
    """
    hidden = Redactor(secret for secret in secrets if len(secret) >= _SECRET and "/" not in secret)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.formatter.redacted = hidden


@contextmanager
def keep_log() -> Generator[None]:
    """Run code that may set up logging for itself, as amd-gaia does when it is imported, and keep ours as it is.

    What such code adds for the terminal is taken away again: it would print every record once more, with all control
    characters in it. Log files that it opens stay its own business.
    """
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers and _on_terminal(handler)]:
            root.removeHandler(handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(min(level, root.level))


def _on_terminal(handler: logging.Handler) -> bool:
    stream = getattr(handler, "stream", None)
    return any(stream is known for known in (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__))
