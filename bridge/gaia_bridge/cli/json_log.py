"""The log as a file of JSON lines, for programs: rotated, and written by a thread of its own."""

from __future__ import annotations

import json
import logging
import queue
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path

from gaia_bridge.cli.logs import LineFormatter
from gaia_bridge.errors import ConfigError
from gaia_bridge.settings import JSON_LOG_BYTES, JSON_LOG_FILES, JSON_LOG_QUEUE

__all__ = ["log_to_json"]


class _JsonFormatter(LineFormatter):
    """A record as one object; what `extra={"call": ...}` said of a call is a part of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"call": call} if (call := getattr(record, "call", None)) is not None else {}),
            **({"traceback": self.formatException(record.exc_info)} if record.exc_info else {}),
            **({"stack": record.stack_info} if record.stack_info else {}),
        }
        return json.dumps(
            {key: self.redacted(of) if isinstance(of, str) else of for key, of in said.items()}, default=str
        )


class _Queued(QueueHandler):
    """Hands records to the thread that writes; those that find no place are dropped rather than waited for."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Format the record: what it refers to may change."""
        return logging.makeLogRecord({"msg": self.format(record), "levelno": record.levelno})

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        with suppress(queue.Full):
            super().enqueue(record)


def log_to_json(file: Path) -> Callable[[], None]:
    """Write everything from level `info` on to a file, until the returned function is called.

    Args:
        file: Where; of it and the older ones that are kept, each is bounded in size.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        writer = RotatingFileHandler(file, maxBytes=JSON_LOG_BYTES, backupCount=JSON_LOG_FILES, encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(file), f"cannot be written: {error.strerror or error}") from None
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(JSON_LOG_QUEUE)
    handler, listener, root = _Queued(waiting), QueueListener(waiting, writer), logging.getLogger()
    handler.setFormatter(_JsonFormatter())
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
        writer.close()

    return stop
