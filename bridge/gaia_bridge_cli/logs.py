"""Logging of the program: to standard error, one line for each record whatever is in it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from gaia_bridge.text.escaping import printable
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli.streams import QueuedBytes

if TYPE_CHECKING:
    from gaia_bridge.calls.call_log import CallRecord

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

_OF_CALLS: Final = {"levelname": "INFO", "name": "gaia_bridge.calls.call_log"}
"""What all of these say."""

_LINE_BYTES = 512
"""What the line of a call counts for while it waits to be made; hardly one has more."""

_SECRET = 8
"""Characters of the shortest configured value that is taken out wherever it is."""


class LineFormatter(logging.Formatter):
    """Shows text of peers and agents harmlessly: control characters escaped, tracebacks indented, no secrets."""

    redacted = Redactor()
    """What takes the secrets out: by their shape, and those that it was told."""

    def __init__(self, layout: str = "%(message)s", time_of_day: str | None = None) -> None:
        super().__init__(layout, time_of_day)
        self._layout = layout

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format all but the traceback."""
        record.message = printable(record.message, limit=None)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; what follows its first line is a traceback."""
        call = call_of(record)
        if call is not None and call.method in _NAMES_ONLY:
            return self.line_of(call, record.created)
        first, *traceback = self.redacted(super().format(record)).split("\n")
        return "\n".join([first, *(f"    {printable(line, limit=None)}" for line in traceback)])

    def line_of(self, call: CallRecord, created: float) -> str:
        """The line of a call, as `format` makes it of the record.

        Args:
            call: The call.
            created: When it ended, in seconds since the epoch.
        """
        if call.method not in _NAMES_ONLY:
            from gaia_bridge.calls.call_log import record_of  # no command needs it that serves nobody

            return self.format(record_of(call, created))
        # It has names that clients know, and nothing that anybody said: to look for the shapes of secrets costs more
        # than the rest.
        said = {"asctime": _time_of_day(int(created)), "message": printable(str(call), limit=None), **_OF_CALLS}
        return self.redacted.without_known(self._layout % said)


def call_of(record: logging.LogRecord) -> CallRecord | None:
    """The call that a record is about; a record of an agent may have whatever it likes under that name."""
    return getattr(record, "call", None) if record.name == _OF_CALLS["name"] else None


@lru_cache(maxsize=1)
def _time_of_day(second: int) -> str:
    return time.strftime(_TIME, time.localtime(second))


class _StandardError(logging.Handler):
    """Writes to what `sys.stderr` is at that moment. A log that cannot be written stops nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        call = call_of(record)
        if call is not None and self.take_call(call, record.created):
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass

    def take_call(self, call: CallRecord, created: float) -> bool:
        """Log a call without a record: see `calls.call_log`."""
        queue = getattr(sys.stderr, "buffer", None)
        if not isinstance(queue, QueuedBytes):
            return False
        # It refers to nothing that changes, and there are many: the thread that writes puts it into words.
        queue.write_later(partial(self._line, call, created), _LINE_BYTES)
        return True

    def _line(self, call: CallRecord, created: float) -> bytes:
        if isinstance(self.formatter, LineFormatter):
            line = self.formatter.line_of(call, created)
        else:  # an agent has given it another one
            from gaia_bridge.calls.call_log import record_of

            line = self.format(record_of(call, created))
        return f"{line}\n".encode("utf-8", "backslashreplace")


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


def hide_in_log(secrets: Iterable[str], *, more: bool = False) -> None:
    """Take secrets out of what is logged from now on, also where they are encoded.

    Args:
        secrets: Values; short ones, and paths, are in too many lines that mean something else.
        more: Whether those that were taken out until now still are.
    """
    fit = [secret for secret in secrets if len(secret) >= _SECRET and "/" not in secret]
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.formatter.redacted = handler.formatter.redacted.and_also(fit) if more else Redactor(fit)


def without_secrets(text: str) -> str:
    """A text as it is in the log.

    Args:
        text: What somebody said.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            return handler.formatter.redacted(text)
    return LineFormatter.redacted(text)


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
