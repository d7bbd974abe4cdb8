"""A log file of bounded size that several processes write to."""

from __future__ import annotations

import logging
import os
from logging.handlers import RotatingFileHandler
from typing import IO

logger = logging.getLogger(__name__)


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
