"""The user's own files in `~/.gaia`: that they can be written, and that nobody else can read or change them."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gaia_bridge.config.file_reader import writable_by_others
from gaia_bridge.config.paths import default_servers_path, default_trust_path, expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.doctor.checks import Subject
from gaia_bridge_desk.doctor.findings import Finding, Kind, Level, Repair
from gaia_bridge_desk.doctor.repairing import OF_OTHERS, narrow
from gaia_bridge_desk.doctor.surroundings import Surroundings

_FINE = Kind("file.fine", Level.OK, "the user's own files are as they should be", "nobody else can read or change them")
_NO_HOME = Kind(
    "file.no-home",
    Level.ERROR,
    "there is no home folder",
    "there is no place for the configuration, approvals and logins",
    "make it, or set HOME to one that is there",
)
_UNWRITABLE = Kind(
    "file.unwritable",
    Level.ERROR,
    "a folder of the user's own files cannot be written",
    "servers cannot be added or approved, logins and tokens not kept",
    "make it yours and writable: chmod u+rwx, or chown",
)
_SECRET_OPEN = Kind(
    "file.secret-open",
    Level.ERROR,
    "others can read a file with secrets",
    "whoever reads it can use your tokens and logins",
    "chmod go-rwx the file, and renew what is in it if the machine has other users",
    mended=True,
)
_CHANGEABLE = Kind(
    "file.changeable",
    Level.ERROR,
    "others can change a file that says what is started",
    "another user could have a program of theirs run as you; the bridge refuses such approvals",
    "chmod go-w the file",
    mended=True,
)
_NOT_YOURS = Kind(
    "file.not-yours",
    Level.ERROR,
    "a file of the user's own belongs to somebody else",
    "that user can change what is started; it often comes of a command with sudo",
    "chown it to yourself",
)

_FOLDER: Final = Path("~/.gaia")
_SECRET_FOLDERS: Final = ("secrets", "oauth", "backups")
_TOKEN: Final = "bridge-token"
_MOST: Final = 5_000
"""Files of one folder that are looked at."""


def _check(at: Surroundings) -> list[Finding]:
    try:
        folder = expanded(_FOLDER)
    except ConfigError as error:
        return [_NO_HOME.found(str(error))]
    if not folder.parent.is_dir():
        return [_NO_HOME.found(f"the home folder {folder.parent} is not there", str(folder.parent))]
    if not os.path.lexists(folder):
        if os.access(folder.parent, os.W_OK | os.X_OK):
            return [_FINE.found(f"{folder} is created when it is needed", str(folder))]
        return [_UNWRITABLE.found(f"{folder} is not there, and cannot be made", str(folder))]
    found = [*_of_folder(folder)]
    if not found:
        for path in _with_secrets(folder):
            found += _of_secret(path)
        for path in dict.fromkeys([default_servers_path(), default_trust_path(), *_configured(at)]):
            found += _of_launch_lines(path)
    return found or [_FINE.found(f"{folder} and what is in it are yours alone", str(folder))]


def _of_folder(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield _UNWRITABLE.found(f"{folder} is no folder", str(folder), f"move it away: mv {folder} {folder}.old")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield _UNWRITABLE.found(f"{folder} cannot be written", str(folder), f"chmod u+rwx {shlex.quote(str(folder))}")
    else:
        yield from _of_launch_lines(folder)


def _with_secrets(folder: Path) -> Iterator[Path]:
    """The files that hold secrets, or may."""
    yield folder / _TOKEN
    for name in _SECRET_FOLDERS:
        try:
            with os.scandir(folder / name) as entries:
                found = [Path(each.path) for each, _ in zip(entries, range(_MOST), strict=False)]
        except OSError:  # most have no such folder
            continue
        yield from sorted(found)


def _configured(at: Surroundings) -> list[Path]:
    """The files of servers that are in use; those of a project are its own."""
    return [layer.path for layer in at.servers.layers]


def _of_secret(path: Path) -> Iterator[Finding]:
    about = _about(path)
    if about is None or not stat.S_ISREG(about.st_mode):
        return
    if about.st_uid != os.getuid():
        yield _NOT_YOURS.found(f"{path} belongs to user {about.st_uid}", str(path), _own(path))
    elif about.st_mode & 0o077:
        command = f"chmod go-rwx {shlex.quote(str(path))}"
        repair = None if path.is_symlink() else Repair(command, partial(narrow, path, OF_OTHERS))
        yield _SECRET_OPEN.found(f"{path} has the mode {stat.S_IMODE(about.st_mode):04o}", str(path), command, repair)


def _of_launch_lines(path: Path) -> Iterator[Finding]:
    about = _about(path)
    if about is None or writable_by_others(about) is None:
        return
    if about.st_uid != os.getuid():
        yield _NOT_YOURS.found(f"{path} belongs to user {about.st_uid}", str(path), _own(path))
        return
    mode = stat.S_IMODE(about.st_mode)
    command = f"chmod go-w {shlex.quote(str(path))}"
    repair = None if path.is_symlink() else Repair(command, partial(narrow, path, 0o022))
    yield _CHANGEABLE.found(f"{path} has the mode {mode:04o}", str(path), command, repair)


def _about(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _own(path: Path) -> str:
    return f"sudo chown $USER {shlex.quote(str(path))}"


FILES = Subject("Files", (_FINE, _NO_HOME, _UNWRITABLE, _SECRET_OPEN, _CHANGEABLE, _NOT_YOURS), _check)
