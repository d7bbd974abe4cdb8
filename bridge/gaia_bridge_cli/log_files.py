"""The log as a file of JSON lines, for programs: bounded, written by several processes, and by a thread of its own."""

from __future__ import annotations

import errno
import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import IO, Any, Final

from gaia_bridge.errors import ConfigError
from gaia_bridge_cli.logs import LineFormatter, call_of
from gaia_bridge_cli.streams import STREAM_FAREWELL

JSON_LOG_BYTES: Final = 10 * 1024 * 1024
"""Bytes of one file of `--log-json`; then the file is rotated."""

JSON_LOG_FILES: Final = 3
"""Older files of `--log-json` that are kept."""

JSON_LOG_QUEUE: Final = 10_000
"""Records that wait to be written to the log file; of more, the newest are left out: nobody waits for a disk."""


class PrivateFile(RotatingFileHandler):
    """A log file that only its owner can read. A full disk stops nothing.

    Several bridges may write to it: one of them begins a new file when it is full, and the others switch to that file.
    """

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Return whether the file is full, after switching to the file that the others write to."""
        if (file := self.stream) and not _has_name(file.fileno(), self.baseFilename):
            file.close()
            self.stream = self._open()  # type: ignore[assignment] # as for `_open`
        return bool(super().shouldRollover(record))

    def _open(self) -> IO[str]:  # type: ignore[override] # the library says TextIOWrapper, and uses any text file
        # To open a pipe without a reader would wait for ever; to write to a full one may wait.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.baseFilename, flags, 0o600)
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(descriptor, True)
        return open(descriptor, "a", encoding="utf-8", errors="replace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Report the failure once on the log, and go on without the file."""
        if self.level < logging.CRITICAL:
            self.setLevel(logging.CRITICAL + 1)
            logger.warning("%s cannot be written any more", self.baseFilename)


def _has_name(descriptor: int, path: str) -> bool:
    """Return whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


logger = logging.getLogger(__name__)


class _JsonFormatter(LineFormatter):
    """A record as one JSON object; the facts of a call are a part of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        call = call_of(record)
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"call": call.to_json()} if call is not None else {}),
            **({"traceback": self.formatException(record.exc_info)} if record.exc_info else {}),
            **({"stack": record.stack_info} if record.stack_info else {}),
        }
        return json.dumps(
            {key: self.redacted(of) if isinstance(of, str) else of for key, of in fields.items()}, default=str
        )


class _CompleteFormatter(logging.Formatter):
    """Formats records that were not formatted when they were queued.

    Args:
        formatter: The formatter for them.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: str | None = getattr(record, "line", None)
        return self._formatter.format(record) if line is None else line


class _BoundedHandler(QueueHandler):
    """Hands records to the thread that writes; if the queue is full, they are counted rather than waited for.

    Args:
        waiting: The queue.
    """

    def __init__(self, waiting: queue.Queue[logging.LogRecord]) -> None:
        super().__init__(waiting)
        self._lost = 0
        self._counting = threading.Lock()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Format the record: objects that it refers to may change. A call does not change, and there are many."""
        if call_of(record) is not None:
            return record
        return logging.makeLogRecord({"line": self.format(record), "levelno": record.levelno})

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            super().enqueue(record)
        except queue.Full:
            with self._counting:
                self._lost += 1

    def lost(self) -> logging.LogRecord | None:
        """Return a record with the number of records lost since the last such record; `None` if none was lost."""
        with self._counting:
            lost, self._lost = self._lost, 0
        if not lost:
            return None
        message = "%d records were left out here: they came faster than they could be written"
        return logger.makeRecord(logger.name, logging.WARNING, __file__, 0, message, (lost,), None)


class _Listener(QueueListener):
    """Writes queued records, and reports lost ones once it has caught up with half of the queue.

    Args:
        handler: The handler that fills the queue.
        waiting: The queue.
        writer: The handler that writes.
    """

    def __init__(
        self, handler: _BoundedHandler, waiting: queue.Queue[logging.LogRecord], writer: logging.Handler
    ) -> None:
        super().__init__(waiting, writer)
        self._handler = handler
        self._waiting = waiting
        self._writer = writer

    def handle(self, record: logging.LogRecord) -> None:
        """Write a record."""
        super().handle(record)
        if self._waiting.qsize() <= self._waiting.maxsize // 2:
            self.say_lost()

    def enqueue_sentinel(self) -> None:
        """End the thread, once there is room in the queue for the signal."""
        queued: queue.Queue[Any] = self._waiting
        queued.put(None, timeout=STREAM_FAREWELL)

    def say_lost(self) -> None:
        """Report the records that were lost, if any."""
        if (lost := self._handler.lost()) is not None:
            self._writer.handle(lost)


def log_to_json(file: Path) -> Callable[[], None]:
    """Write everything from level `info` on to a file, until the returned function is called.

    Args:
        file: The file; it and the older ones that are kept are each bounded in size.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        writer = PrivateFile(file, maxBytes=JSON_LOG_BYTES, backupCount=JSON_LOG_FILES)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ConfigError(
                str(file), "is a pipe that nobody reads", "name a file, or start the reader first"
            ) from None
        raise ConfigError(str(file), f"cannot be written: {error.strerror or error}") from None
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(JSON_LOG_QUEUE)
    handler, root = _BoundedHandler(waiting), logging.getLogger()
    listener, formatter = _Listener(handler, waiting, writer), _JsonFormatter()
    handler.setFormatter(formatter)
    writer.setFormatter(_CompleteFormatter(formatter))
    handler.setLevel(logging.INFO)
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, logging.INFO))
    listener.start()

    def stop() -> None:
        root.removeHandler(handler)
        root.setLevel(before)
        with suppress(queue.Full):  # the disk is too slow or full
            listener.stop()
            listener.say_lost()
        with suppress(OSError):  # reported when the first line could not be written
            writer.close()

    return stop
