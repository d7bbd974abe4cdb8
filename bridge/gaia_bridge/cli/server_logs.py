"""What upstream servers write to their error output, kept in files for `gaia-bridge logs NAME`.

One file for each server, of bounded size, readable by its owner alone (S-36). The lines were redacted and made
printable before they come here.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Final

from gaia_bridge.errors import ConfigError

__all__ = ["ServerLogs", "default_log_folder"]

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 512 * 1024
"""Of one file; there are two for each server, so that there is something to see right after a new one was begun."""

_FORMAT: Final = "%(asctime)s [%(process)d] %(message)s"
"""The process tells apart the bridges of several editor windows."""


def default_log_folder() -> Path:
    """Where the files lie: `~/.gaia/logs`.

    Raises:
        ConfigError: This user has no home folder.
    """
    try:
        return Path.home() / ".gaia" / "logs"
    except RuntimeError:
        raise ConfigError("the log folder", "there is no home folder to keep it in", "set HOME") from None


class _PrivateFile(RotatingFileHandler):
    """A log file for its owner's eyes. A full disk stops nothing (F-114)."""

    def _open(self) -> IO[str]:  # type: ignore[override] # the library says TextIOWrapper, and uses any text file
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return open(descriptor, "a", encoding="utf-8", errors="replace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Say it once on the log, and go on without the file."""
        if self.level < logging.CRITICAL:
            self.setLevel(logging.CRITICAL + 1)
            logger.warning("%s cannot be written any more", self.baseFilename)


class ServerLogs:
    """The log files of all servers.

    Args:
        folder: Where they lie, made when the first line comes; `None` keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, _PrivateFile | None] = {}

    def write(self, server: str, line: str) -> None:
        """Keep one line; a file that cannot be written is reported once, and then done without."""
        if server not in self._files:
            self._files[server] = self._opened(server)
        if (file := self._files[server]) is not None:
            file.handle(logging.LogRecord(server, logging.INFO, "", 0, line, None, None))

    def tail(self, server: str, lines: int) -> list[str]:
        """The last lines that were kept of a server, the oldest first.

        Raises:
            ConfigError: The file cannot be read.
        """
        found: deque[str] = deque(maxlen=lines)
        if self._folder is None:
            return []
        newest = _path(self._folder, server)
        for path in (newest.with_name(f"{newest.name}.1"), newest):
            try:
                with path.open(encoding="utf-8", errors="replace") as file:
                    found.extend(line.rstrip("\n") for line in file)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
        return list(found)

    def close(self) -> None:
        """Close all files."""
        files, self._files = self._files, {}
        for file in files.values():
            if file is not None:
                with suppress(OSError):
                    file.close()

    def _opened(self, server: str) -> _PrivateFile | None:
        if self._folder is None:
            return None
        path = _path(self._folder, server)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = _PrivateFile(path, maxBytes=MAX_BYTES, backupCount=1)
        except OSError as error:
            logger.warning("%s is not kept: %s", path, error.strerror)
            return None
        file.setFormatter(logging.Formatter(_FORMAT))
        return file


def _path(folder: Path, server: str) -> Path:
    return folder / f"{server}.log"
