"""Checks the folder of the bridge's sockets: that only its user can enter it, and for sockets without a listener."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from gaia_bridge.settings import BackgroundLimits
from gaia_bridge_daemon.background.sockets import files_of, is_old, places_left, remove_left
from gaia_bridge_daemon.front.launching import BridgeDownError, alone
from gaia_bridge_daemon.front.place import Place, is_private, runtime_path
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, NothingDoneError, Repair, Subject
from gaia_bridge_desk.doctor.repairing import OF_OTHERS, narrow
from gaia_bridge_desk.doctor.surroundings import Surroundings

_FINE = Kind(
    "socket.fine", Level.OK, "the folder of the sockets is as it should be", "editors reach the bridge by these sockets"
)
_FOLDER_OPEN = Kind(
    "socket.folder-open",
    Level.ERROR,
    "others can open the folder of the sockets",
    "the bridge refuses to listen in it: another user could take its place",
    "chmod go-rwx the folder",
    is_repairable=True,
)
_FOLDER_ODD = Kind(
    "socket.folder-odd",
    Level.ERROR,
    "the folder of the sockets belongs to somebody else, or is no folder",
    "the bridge refuses to listen in it: another user could take its place",
    "remove it, or have XDG_RUNTIME_DIR name a folder of your own",
)
_UNWRITABLE = Kind(
    "socket.unwritable",
    Level.ERROR,
    "the folder of the sockets cannot be made or written",
    "no bridge can be started in the background, and editors get no answer",
    "make it writable, or have XDG_RUNTIME_DIR name a folder of your own",
)
_LONG = Kind(
    "socket.path-long",
    Level.INFO,
    "the path of the usual folder is too long for sockets",
    "the system takes about a hundred characters; the sockets are in /tmp instead, in a folder of your own",
)
_STALE = Kind(
    "socket.stale",
    Level.WARNING,
    "a socket is there, and nobody listens at it",
    "the bridge behind it was killed with its guardian; an editor that was given the socket itself reaches nobody",
    "remove it; the next bridge makes it anew: gaia-bridge up",
    is_repairable=True,
)
_MODE = Kind(
    "socket.mode",
    Level.ERROR,
    "others may connect to a socket",
    "whoever can connect could use your servers; the bridge itself still refuses other users",
    "chmod go-rwx the socket",
    is_repairable=True,
)
_OWNER = Kind(
    "socket.owner",
    Level.ERROR,
    "a socket belongs to another user",
    "editors would talk to a program of that user",
    "find out who put it there; remove it",
)
_NO_SOCKET = Kind(
    "socket.no-socket",
    Level.ERROR,
    "what lies in the place of a socket is none",
    "the bridge cannot listen there",
    "look at it, and remove it",
)
_LEFTOVER = Kind(
    "socket.leftover",
    Level.INFO,
    "logs, or a lock, of a bridge that has not run for long",
    "they take some space, and nobody reads them; the next bridge that is started removes them",
    "remove them",
    is_repairable=True,
)

_ENDING: Final = ".sock"


def is_listened_at(path: str, seconds: float) -> bool:
    """Return whether a process takes connections at a socket, or would if its queue were not full.

    Args:
        path: The socket.
        seconds: The longest wait.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(path)
        except TimeoutError:
            return True
        except OSError as error:
            return isinstance(error, BlockingIOError | PermissionError)
    return True


def _check(at: Surroundings) -> list[Finding]:
    folder = runtime_path(at.environ)
    findings: list[Finding] = []
    if folder.startswith("/tmp/gaia-bridge"):
        findings.append(_LONG.finding(f"sockets are in {folder}", folder))
    if not os.path.lexists(folder):
        return [*findings, *_to_be_made(folder)]
    if not is_private(folder):
        return [*findings, _not_private(folder)]
    if not os.access(folder, os.W_OK | os.X_OK):
        lacks = stat.S_IMODE(os.lstat(folder).st_mode) & stat.S_IRWXU != stat.S_IRWXU  # else the disk is read-only
        remedy = f"chmod u+rwx {shlex.quote(folder)}" if lacks else None
        return [*findings, _UNWRITABLE.finding(f"{folder} cannot be written", folder, remedy)]
    names = sorted(os.listdir(folder))
    findings += [each for name in names if name.endswith(_ENDING) for each in _of_socket(folder, name, at)]
    findings += _leftovers(folder)
    if not any(finding.level in (Level.WARNING, Level.ERROR) for finding in findings):
        findings.insert(0, _FINE.finding(f"sockets are in {folder}, which only you can open", folder))
    return findings


def _to_be_made(folder: str) -> list[Finding]:
    """Return a finding about a folder that does not exist yet: whether it can be made."""
    parent = os.path.dirname(folder)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.access(parent, os.W_OK | os.X_OK):
        return [_UNWRITABLE.finding(f"{folder} is not there, and cannot be made in {parent}", folder)]
    return [_FINE.finding(f"sockets will be in {folder}, which is made when a bridge is started", folder)]


def _not_private(folder: str) -> Finding:
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        what = f"belongs to user {about.st_uid}" if stat.S_ISDIR(about.st_mode) else "is no folder"
        return _FOLDER_ODD.finding(f"{folder} {what}", folder)
    command = f"chmod go-rwx {shlex.quote(folder)}"
    repair = Repair(command, partial(narrow, folder, OF_OTHERS, stat.S_ISDIR))
    return _FOLDER_OPEN.finding(f"{folder} has the mode {stat.S_IMODE(about.st_mode):04o}", folder, command, repair)


def _of_socket(folder: str, name: str, at: Surroundings) -> Iterator[Finding]:
    path = os.path.join(folder, name)
    try:
        about = os.lstat(path)
    except FileNotFoundError:  # its bridge has just ended
        return
    if not stat.S_ISSOCK(about.st_mode):
        yield _NO_SOCKET.finding(f"{path} is no socket", path)
    elif about.st_uid != os.getuid():
        yield _OWNER.finding(f"{path} belongs to user {about.st_uid}", path)
    elif not is_listened_at(path, at.limits.connect_timeout):
        place = Place(folder, name.removesuffix(_ENDING).removesuffix(".front"))
        repair = Repair(f"remove {path}", partial(_remove_stale, path, place, at.limits.connect_timeout))
        yield _STALE.finding(f"nobody listens at {path}", path, f"rm {shlex.quote(path)}", repair)
    elif about.st_mode & 0o077:
        command = f"chmod go-rwx {shlex.quote(path)}"
        repair = Repair(command, partial(narrow, path, OF_OTHERS, stat.S_ISSOCK))
        yield _MODE.finding(f"{path} has the mode {stat.S_IMODE(about.st_mode):04o}", path, command, repair)


def _leftovers(folder: str) -> Iterator[Finding]:
    """Yield findings about old files of bridges without a socket; those with a socket are reported as such."""
    for place in places_left(folder):
        paths = files_of(place)
        if not {place.front, place.http}.intersection(paths) and is_old(place, BackgroundLimits().log_kept):
            command = shlex.join(["rm", *paths])
            repair = Repair(f"remove {' '.join(paths)}", partial(_remove_leftover, place))
            yield _LEFTOVER.finding(f"{', '.join(paths)}: left of a bridge", paths[0], command, repair)


def _remove_stale(path: str, place: Place, seconds: float) -> None:
    with _alone(place):
        if os.path.lexists(path) and is_listened_at(path, seconds):
            raise NothingDoneError("somebody listens at it by now")
        _unlink(path)


def _remove_leftover(place: Place) -> None:
    if is_old(place, BackgroundLimits().log_kept):
        remove_left(place)
    if files_of(place):
        raise NothingDoneError("it is in use again")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        raise NothingDoneError("it is gone already") from None


@contextmanager
def _alone(place: Place) -> Generator[None]:
    """Hold a lock with which no bridge can be started at a place; a lock file that was made for this is removed.

    Raises:
        NothingDoneError: A bridge is being started.
    """
    was_there = os.path.lexists(place.lock)
    try:
        with alone(place, time.monotonic()):
            try:
                yield
            finally:
                if not was_there:
                    with suppress(FileNotFoundError):
                        os.unlink(place.lock)
    except BridgeDownError:
        raise NothingDoneError("a bridge is being started there") from None


SOCKETS = Subject(
    "Sockets",
    (_FINE, _FOLDER_OPEN, _FOLDER_ODD, _UNWRITABLE, _LONG, _STALE, _MODE, _OWNER, _NO_SOCKET, _LEFTOVER),
    _check,
)
