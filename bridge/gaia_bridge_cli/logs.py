"""Logging of the program: to standard error, one line for each record whatever is in it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from gaia_bridge.constants import OWN_PACKAGES
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli.streams import QueuedBytes

if TYPE_CHECKING:
    from gaia_bridge.calls.call_log import CallRecord

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_TIME = "%H:%M:%S"
_CHATTY = ("asyncio", "httpcore2", "httpx2", "mcp", "sse_starlette", "uvicorn")
"""Libraries that report every step on a level where people expect only events."""

_RELAYED = "mcp.client.stdio"
"""Logs a traceback for every line of a child that is not JSON; the upstream reports that itself, in one line."""

_OF_SDK_SERVERS: Final = "mcp.server.mcpserver.server"
"""Logs the exceptions of tools of `MCPServer`, with all frames between the server and the tool."""

_AROUND_TOOLS: Final = frozenset({"anyio", "mcp", *OWN_PACKAGES, *sys.stdlib_module_names})
"""Packages whose frames are around that of a tool."""

_BODIES = ("mcp.server.sse", "sse_starlette.sse")
"""Loggers whose debug records are every message and every piece of a conversation, which nobody wants in a file."""

_NAMES_ONLY = ("tools/call", "prompts/get")
"""Methods whose line in the log (`calls.call_log`) has no URI, which could hold anything."""

_OF_CALLS: Final = {"levelname": "INFO", "name": "gaia_bridge.calls.call_log"}
"""Values that all these records share."""

_LINE_BYTES = 512
"""The bytes that the line of a call counts for before it is made; hardly one has more."""

_SECRET = 8
"""Characters of the shortest configured value that is masked everywhere."""


class LineFormatter(logging.Formatter):
    """Makes text of peers and agents harmless: control characters escaped, tracebacks indented, no secrets."""

    redacted = Redactor()
    """Masks secrets: by their shape, and those that were registered."""

    def __init__(self, layout: str = "%(message)s", time_of_day: str | None = None) -> None:
        super().__init__(layout, time_of_day)
        self._layout = layout

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format all parts except the traceback."""
        record.message = printable(record.message, limit=None)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; the lines after its first are a traceback."""
        call = call_of(record)
        if call is not None and call.method in _NAMES_ONLY:
            return self.line_of(call, record.created)
        first, *traceback = self.redacted(super().format(record)).split("\n")
        return "\n".join([first, *(f"    {printable(line, limit=None)}" for line in traceback)])

    def line_of(self, call: CallRecord, created: float) -> str:
        """Return the line of a call, as `format` makes it of the record.

        Args:
            call: The call.
            created: When it ended, in seconds since the epoch.
        """
        if call.method not in _NAMES_ONLY:
            from gaia_bridge.calls.call_log import record_of  # only commands that serve need it

            return self.format(record_of(call, created))
        # The line has names that clients know, and no text of users: to search for the shapes of secrets costs more
        # than the rest.
        fields = {"asctime": _time_of_day(int(created)), "message": printable(str(call), limit=None), **_OF_CALLS}
        return self.redacted.without_known(self._layout % fields)


def call_of(record: logging.LogRecord) -> CallRecord | None:
    """Return the call that a record is about; a record of an agent may have anything under that name."""
    return getattr(record, "call", None) if record.name == _OF_CALLS["name"] else None


# Most lines follow another one of the same second.
@lru_cache(maxsize=1)
def _time_of_day(second: int) -> str:
    return time.strftime(_TIME, time.localtime(second))


class _StandardError(logging.Handler):
    """Writes to the present `sys.stderr`. A log that cannot be written stops nothing."""

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
        # A call has no parts that change, and there are many calls: the thread that writes formats them.
        queue.write_later(partial(self._line, call, created), _LINE_BYTES)
        return True

    def _line(self, call: CallRecord, created: float) -> bytes:
        if isinstance(self.formatter, LineFormatter):
            line = self.formatter.line_of(call, created)
        else:  # an agent has set another formatter
            from gaia_bridge.calls.call_log import record_of

            line = self.format(record_of(call, created))
        return f"{line}\n".encode("utf-8", "backslashreplace")


def log_to_stderr(level: str) -> Callable[[], None]:
    """Log to standard error from now on.

    Args:
        level: `debug`, `info`, `warning` or `error`.

    Returns:
        A function that ends the logging.
    """
    root = logging.getLogger()
    handler = _StandardError()
    handler.setFormatter(LineFormatter(_FORMAT, _TIME))
    handler.setLevel(level.upper())  # holds whatever level agents set on the root logger
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
    """Mask secrets in the log from now on, also where they are encoded.

    Args:
        secrets: The values; short ones and paths are ignored, because they occur in too many lines.
        more: Whether the secrets that were masked until now still are.
    """
    fit = [secret for secret in secrets if len(secret) >= _SECRET and "/" not in secret]
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.formatter.redacted = handler.formatter.redacted.and_also(fit) if more else Redactor(fit)


def without_secrets(text: str) -> str:
    """Return a text with secrets masked as in the log.

    Args:
        text: The text.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            return handler.formatter.redacted(text)
    return LineFormatter.redacted(text)


@contextmanager
def keep_log() -> Generator[None]:
    """Run code that may set up logging for itself, as amd-gaia does when it is imported, and keep ours as it is.

    Handlers that such code adds for the terminal are removed: they would print every record once more, with all control
    characters in it. Log files that it opens are left alone.
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
        logging.getLogger(_OF_SDK_SERVERS).addFilter(_reduce_to_tool)


def _reduce_to_tool(record: logging.LogRecord) -> bool:
    """Reduce the traceback of a tool that failed to its exception and frames, but for `--debug`; a filter of a logger.

    The frames around them, and the exception that wraps the tool's, are the same in every call.
    """
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and not logging.getLogger().isEnabledFor(logging.DEBUG):
        while error.__cause__ is not None:
            error = error.__cause__
        traceback = error.__traceback__
        while traceback is not None and _package(traceback.tb_frame) in _AROUND_TOOLS:
            traceback = traceback.tb_next
        if traceback is not None:
            record.exc_info = (type(error), error, traceback)
    return True


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _on_terminal(handler: logging.Handler) -> bool:
    stream = getattr(handler, "stream", None) or getattr(getattr(handler, "console", None), "file", None)  # of Rich
    return any(stream is terminal for terminal in (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__))
