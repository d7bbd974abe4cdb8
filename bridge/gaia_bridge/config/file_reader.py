"""Reads a JSON file strictly, never blocks, and reports who else could have written the file."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from gaia_bridge.config.problems import EntryError, kind_of
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, RepeatedKeyError, is_object, unique_keys

MAX_BYTES: Final = 1024 * 1024
"""Bytes of one file. Real ones have a few KiB; a larger file was named by mistake."""

_POSIX: Final = os.name == "posix"
_STRICT_JSON: Final = "the file must be strict JSON: no comments, no trailing commas"


class JsonFile(NamedTuple):
    """The content of a file, and its status."""

    document: JSON
    text: str
    status: os.stat_result


def read_json(path: Path) -> JsonFile:
    """Read a JSON file strictly: one object, no duplicate keys, no NaN, UTF-8 with or without a byte order mark.

    Never blocks: anything but a regular file is refused before it is read.

    Raises:
        ConfigError: The file cannot be read or is no such file; the message gives line and column if known.
    """
    return json_file(path, *read_bytes(path, MAX_BYTES))


def json_file(path: Path, content: bytes, status: os.stat_result) -> JsonFile:
    """Parse a file that was read already, as `read_json` does.

    Raises:
        ConfigError: It is no such file; the message gives line and column if known.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start + 1} is not UTF-8", "save the file as UTF-8") from None
    return JsonFile(_parsed(path, text), text, status)


def read_bytes(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a regular file of a bounded size.

    Raises:
        ConfigError: The file cannot be read, is larger, or is a directory, a pipe or a device.
    """
    try:
        with open(path, "rb", opener=_open_regular) as file:
            content, status = file.read(limit + 1), os.fstat(file.fileno())
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(str(path).replace("\0", "\\0"), "no path can contain a NUL character") from None
    if len(content) > limit:
        raise ConfigError(str(path), f"the file is larger than {limit:,} bytes", "is it the right file?")
    return content, status


def writable_by_others(status: os.stat_result) -> str | None:
    """Describe who besides this user could have written a file, or `None`: they would decide what is started."""
    if not _POSIX:
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}, who can change what is started"
    if _open_to_others(status, stat.S_IWGRP, stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        return f"other users can change what is started (mode {mode:04o}, expected 0600): run chmod go-w"
    return None


def readable_by_others(status: os.stat_result) -> bool:
    """Return whether anyone besides this user can read a file."""
    return _POSIX and _open_to_others(status, stat.S_IRGRP, stat.S_IROTH)


def _open_to_others(status: os.stat_result, group: int, world: int) -> bool:
    return bool(status.st_mode & world) or bool(status.st_mode & group and not _is_own_group(status.st_gid))


def _is_own_group(gid: int) -> bool:
    """Return whether a group is this user's private one, as most systems create: mode 0664 shares nothing then."""
    import grp  # neither exists everywhere
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _parsed(path: Path, text: str) -> JSON:
    try:
        document: object = json.loads(
            text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(place, f"is not valid JSON: {error.msg}", _STRICT_JSON) from None
    except (EntryError, RepeatedKeyError) as problem:
        raise ConfigError(str(path), str(problem)) from None
    except RecursionError:
        raise ConfigError(str(path), "objects and lists are nested too deep") from None
    except ValueError:
        raise ConfigError(str(path), "a number has too many digits") from None
    if not is_object(document):
        raise ConfigError(str(path), f"the file holds {kind_of(document)}", "expected an object: {...}")
    return document


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise ConfigError(path, "is a directory" if stat.S_ISDIR(mode) else "is not a regular file")


def _refuse_constant(name: str) -> NoReturn:
    raise EntryError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise EntryError("a number is too large")
    return value
