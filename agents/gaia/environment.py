"""Settings of agents: the environment of this process, and behind it the file `.env` of the current folder.

A variable of the process wins over a line of the file, so that `MCP_FETCH=False my-agent` does what it says. The file
has lines `NAME=value`, optionally quoted, with `#` comments and `export` allowed; nothing in a value is expanded or
run. It is read again whenever it changed.

Its values stay in here. They are not written into `os.environ`, so that no child process, such as an MCP server, gets
to see a key that was meant for the model: what a server needs, its configuration passes on by name,
`MCPServerConfig("weather", ..., env={"API_KEY": setting("WEATHER_API_KEY", "")})`.
"""

from __future__ import annotations

import io
import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ["FILE_NAME", "MAX_BYTES", "file_setting", "setting"]

logger = logging.getLogger(__name__)

FILE_NAME: Final = ".env"
"""Looked for in the current folder only, not in the folders above it."""

_BLANKS: Final = re.compile(r"[^\S\r\n]{256}")
"""More blanks in a row than any line has. What looks for a comment behind a value takes the square of their number:
minutes for a file of nothing else."""

MAX_BYTES: Final = 256 * 1024
"""Of such a file that are read; the largest have a few KiB, and what was named so by mistake has more."""


def setting(name: str, default: str | None = None) -> str | None:
    """Look up a setting.

    Args:
        name: Of the variable, such as `PROVIDER`.
        default: Returned where it is set nowhere.

    Returns:
        Its value in the environment of the process, also if that is empty; else the one in `.env`; else the default.
        A file that cannot be used, and a line that cannot, are a warning, once until the file changes.
    """
    value = os.environ.get(name)
    if value is None:
        value = _file_values().get(name)
    return default if value is None else value


def file_setting(name: str) -> str | None:
    """Look up a setting in `.env` alone: whoever wrote that file need not be whoever started the process.

    Args:
        name: Of the variable.
    """
    return _file_values().get(name)


class _Reading(Struct, frozen=True):
    """The file's state and content when it was last read."""

    path: Path | None
    state: object
    """Tells whether the file changed since."""
    values: Mapping[str, str]


_reading = _Reading(None, None, {})


def _file_values() -> Mapping[str, str]:
    global _reading  # one per process; two threads that read at once find the same
    try:
        path = Path.cwd() / FILE_NAME
    except OSError:  # the current folder was deleted
        return {}
    state = _state_of(path)
    reading = _reading
    if (reading.path, reading.state) != (path, state):
        reading = _reading = _Reading(path, state, {} if state is None else _read(path))
    return reading.values


def _state_of(path: Path) -> object:
    """Return a value that changes with a file, its permissions too; `None` if there is no file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: Path) -> dict[str, str]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("it is no regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES:,} bytes")
        text = content.decode("utf-8-sig")
        if blanks := _BLANKS.search(text):
            line = text.count("\n", 0, blanks.start()) + 1
            raise OSError(f"line {line} has hundreds of blanks in a row")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        logger.warning("%s, line %d: this is not UTF-8; nothing in the file is used. Save it as UTF-8.", path, line)
        return {}
    except OSError as error:
        logger.warning("%s cannot be read and is not used: %s", path, error.strerror or error)
        return {}
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    from dotenv.parser import parse_stream  # few folders have such a file

    for binding in parse_stream(io.StringIO(text, newline="")):
        if binding.error or (binding.key is not None and binding.value is None):  # not shown: it may be a secret
            logger.warning(
                "%s, line %d: this is no NAME=value and is left out; a value with spaces, # or quotes needs quotes",
                path,
                binding.original.line + _blank_lines(binding.original.string),
            )
        elif binding.key is not None:
            values[binding.key] = binding.value or ""
    return values


def _blank_lines(statement: str) -> int:
    """Count the blank lines that a statement begins with."""
    return statement[: len(statement) - len(statement.lstrip())].count("\n")
