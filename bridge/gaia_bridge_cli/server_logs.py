"""Keeps the error output of upstream servers in files for `gaia-bridge logs NAME`.

One file for each server, of bounded size, readable by its owner alone. The lines were redacted and made
printable before they come here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import file_name

if TYPE_CHECKING:
    from gaia_bridge_cli.log_files import PrivateFile

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 512 * 1024
"""Bytes of one file; there are two for each server, so that a new file does not leave `logs` without lines."""

_FORMAT: Final = "%(asctime)s [%(process)d] %(message)s"
"""The process distinguishes the bridges of several editor windows."""


def default_log_folder() -> Path:
    """Return the folder of the files: `~/.gaia/logs`.

    Raises:
        ConfigError: This user has no home folder.
    """
    try:
        return home_folder() / ".gaia" / "logs"
    except RuntimeError:
        raise ConfigError("the log folder", "there is no home folder to keep it in", "set HOME") from None


class ServerLogs:
    """The log files of all servers.

    Args:
        folder: The folder, created when the first line comes; `None` keeps no files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, PrivateFile | None] = {}

    def write(self, server: str, line: str) -> None:
        """Keep one line; if its file cannot be written, which is reported once, the line goes into our own log."""
        if server not in self._files:
            self._files[server] = self._opened(server)
        if (file := self._files[server]) is not None:
            file.handle(logging.LogRecord(server, logging.INFO, "", 0, line, None, None))
        else:
            logger.info("%s: %s", server, line)

    def reader(self, server: str) -> LogReader:
        """Return a reader of all lines that are kept of a server, and of those that follow."""
        if self._folder is None:
            return LogReader(())
        newest = self._folder / f"{file_name(server)}.log"
        return LogReader((newest.with_name(f"{newest.name}.1"), newest))

    def close(self) -> None:
        """Close all files."""
        files, self._files = self._files, {}
        for file in files.values():
            if file is not None:
                with suppress(OSError):
                    file.close()

    def _opened(self, server: str) -> PrivateFile | None:
        if self._folder is None:
            return None
        from gaia_bridge_cli.log_files import PrivateFile

        path = self._folder / f"{file_name(server)}.log"
        try:
            make_private_folder(self._folder)
            file = PrivateFile(path, maxBytes=MAX_BYTES, backupCount=1)
        except OSError as error:
            logger.warning("%s is not kept: %s", path, error.strerror)
            return None
        file.setFormatter(logging.Formatter(_FORMAT))
        return file


class LogReader:
    """Reads the lines of a file that grows, and that is begun anew under its name when it is full.

    Files are identified by their inodes, not by their names, and the last ones stay open: lines that are added to a
    file after it was renamed are read all the same. Close it in the end, or use it as a context manager.

    Args:
        paths: The names of the file, its older parts first. None of them need exist.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._parts: list[_Part] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> list[str]:
        """Return the lines that were completed since the last call, the oldest first.

        Raises:
            ConfigError: A file cannot be read.
        """
        self._find()
        surplus = len(self._parts) - len(self._paths)
        lines: list[str] = []
        for index, part in enumerate(self._parts):
            lines += part.read()
            if index < surplus:  # it has no name any more, and its last line will stay incomplete
                lines += part.unfinished()
                part.close()
        del self._parts[: max(0, surplus)]
        return lines

    def unfinished(self) -> list[str]:
        """Return lines that have begun and are not complete yet."""
        return [line for part in self._parts for line in part.unfinished()]

    def close(self) -> None:
        """Close the files."""
        while self._parts:
            self._parts.pop().close()

    def _find(self) -> None:
        """Open the existing files that are not open yet."""
        parts: list[_Part] = []
        for path in reversed(self._paths):  # so that a file that is just renamed is met twice, and not missed
            try:
                part = _Part(FileIO(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
            if any(part.is_same_as(other) for other in (*self._parts, *parts)):
                part.close()
            else:
                parts.append(part)
        self._parts += reversed(parts)


class _Part:
    """One file, with the position up to which it was read."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._begun = b""

    def is_same_as(self, other: _Part) -> bool:
        return os.path.sameopenfile(self._file.fileno(), other._file.fileno())

    def read(self) -> list[str]:
        """Return the lines that were completed."""
        if os.fstat(self._file.fileno()).st_size < self._file.tell():  # the file was truncated
            self._file.seek(0)
            self._begun = b""
        *complete, self._begun = (self._begun + self._file.read()).split(b"\n")
        return [line.decode(errors="replace") for line in complete]

    def unfinished(self) -> list[str]:
        return [self._begun.decode(errors="replace")] if self._begun else []

    def close(self) -> None:
        self._file.close()
