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
from typing import IO, Any

from gaia_bridge.constants import JSON_LOG_BYTES, JSON_LOG_FILES, JSON_LOG_QUEUE, STREAM_FAREWELL
from gaia_bridge.errors import ConfigError
from gaia_bridge_cli.logs import LineFormatter, call_of


class PrivateFile(RotatingFileHandler):
    """A log file for its owner's eyes. A full disk stops nothing.

    Several bridges may write to it: one of them begins a new file when it is full, and the others go over to that.
    """

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Whether the file is full, which is first of all the file that the others write to."""
        if (file := self.stream) and not _has_name(file.fileno(), self.baseFilename):
            file.close()
            self.stream = self._open()  # type: ignore[assignment] # as for `_open`
        return bool(super().shouldRollover(record))

    def _open(self) -> IO[str]:  # type: ignore[override] # the library says TextIOWrapper, and uses any text file
        # To open a pipe that nobody reads would wait for ever; to write to one that is full may wait.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.baseFilename, flags, 0o600)
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(descriptor, True)
        return open(descriptor, "a", encoding="utf-8", errors="replace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Say it once on the log, and go on without the file."""
        if self.level < logging.CRITICAL:
            self.setLevel(logging.CRITICAL + 1)
            logger.warning("%s cannot be written any more", self.baseFilename)


def _has_name(descriptor: int, path: str) -> bool:
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


logger = logging.getLogger(__name__)


class _JsonFormatter(LineFormatter):
    """A record as one object; what is told of a call is a part of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        call = call_of(record)
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"call": call.to_json()} if call is not None else {}),
            **({"traceback": self.formatException(record.exc_info)} if record.exc_info else {}),
            **({"stack": record.stack_info} if record.stack_info else {}),
        }
        return json.dumps(
            {key: self.redacted(of) if isinstance(of, str) else of for key, of in said.items()}, default=str
        )


class _Writing(logging.Formatter):
    """Formats what was not formatted when it was queued.

    Args:
        formatter: How.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: str | None = getattr(record, "line", None)
        return self._formatter.format(record) if line is None else line


class _Queued(QueueHandler):
    """Hands records to the thread that writes; those that find no place are counted rather than waited for.

    Args:
        waiting: The queue.
    """

    def __init__(self, waiting: queue.Queue[logging.LogRecord]) -> None:
        super().__init__(waiting)
        self._lost = 0
        self._counting = threading.Lock()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Format the record: what it refers to may change. What is told of a call does not, and there are many."""
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
        """A record that says how many were not queued since the last one that did; `None` if all were."""
        with self._counting:
            lost, self._lost = self._lost, 0
        if not lost:
            return None
        said = "%d records were left out here: they came faster than they could be written"
        return logger.makeRecord(logger.name, logging.WARNING, __file__, 0, said, (lost,), None)


class _Listener(QueueListener):
    """Writes what is queued, and says what could not be, once it has caught up with half of the queue.

    Args:
        handler: What fills the queue.
        waiting: The queue.
        writer: Where it goes.
    """

    def __init__(self, handler: _Queued, waiting: queue.Queue[logging.LogRecord], writer: logging.Handler) -> None:
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
        """Have the thread end, once there is room to tell it so."""
        queued: queue.Queue[Any] = self._waiting
        queued.put(None, timeout=STREAM_FAREWELL)

    def say_lost(self) -> None:
        """Say what could not be written, if anything."""
        if (lost := self._handler.lost()) is not None:
            self._writer.handle(lost)


def log_to_json(file: Path) -> Callable[[], None]:
    """Write everything from level `info` on to a file, until the returned function is called.

    Args:
        file: Where; of it and the older ones that are kept, each is bounded in size.

    Raises:
        ConfigError: It cannot be written.
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
    handler, root = _Queued(waiting), logging.getLogger()
    listener, formatter = _Listener(handler, waiting, writer), _JsonFormatter()
    handler.setFormatter(formatter)
    writer.setFormatter(_Writing(formatter))
    handler.setLevel(logging.INFO)
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, logging.INFO))
    listener.start()

    def stop() -> None:
        root.removeHandler(handler)
        root.setLevel(before)
        with suppress(queue.Full):  # the disk does not take it
            listener.stop()
            listener.say_lost()
        with suppress(OSError):  # which was said when the first line could not be written
            writer.close()

    return stop
