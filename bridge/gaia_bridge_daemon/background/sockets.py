"""Sockets that only their owner can connect to, and the files that a bridge leaves beside them: its lock and its logs.

A bridge that ends as it should leaves nothing. The log of one that failed stays, since its front names it: until
`gaia-bridge down`, or for some days.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from gaia_bridge.client.transports.children.guardian import remove_socket, socket_identity
from gaia_bridge.client.transports.children.guardian_client import GUARDIAN
from gaia_bridge.errors import ListenError
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge_daemon.front.launching import BridgeDownError, alone, connected
from gaia_bridge_daemon.front.place import Place


class Listening(NamedTuple):
    """A socket that is bound. No program can connect before its server listens, and is ready to answer."""

    socket: socket.socket
    remove: Callable[[], None]
    """Removes the socket's file, if it is still ours."""


@contextmanager
def listening(path: str) -> Generator[Listening]:
    """Bind a socket to a path for a server; in the end its file is removed, if it is still ours.

    Args:
        path: The path. No file may be there.

    Raises:
        ListenError: The path cannot be listened on.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mask = os.umask(0o177)
        try:
            sock.bind(path)
        except OSError as error:
            hint = "another bridge runs there: gaia-bridge ps" if os.path.exists(path) else "look at its folder"
            raise ListenError(path, error.strerror or str(error), hint) from None
        finally:
            os.umask(mask)
        FORKS.conceal(sock.fileno())
        mine = socket_identity(path)
        GUARDIAN.watch_socket(path)
        sock.setblocking(False)
        try:
            yield Listening(sock, partial(remove_socket, path, mine))
        finally:
            remove_socket(path, mine)
    finally:
        sock.close()


_ENDINGS = (".front.sock", ".sock", ".lock", ".log", ".log.1")
"""The endings of all files of a place; the longer ones first."""


def remove_left(place: Place, patience: float = 0) -> bool:
    """Remove the files that a bridge left, unless one runs there or is being started; return whether there were any.

    Args:
        place: The place of the bridge.
        patience: Seconds to wait for a process that is starting one.
    """
    if not files_of(place):
        return False
    try:
        with alone(place, time.monotonic() + patience):
            if (running := connected(place)) is not None:
                running.close()
                return False
            paths = [path for path in files_of(place) if path != place.lock]
            for path in (*paths, place.lock):  # the lock last: until then, other programs wait for it
                with suppress(FileNotFoundError):
                    os.unlink(path)
            return bool(paths)
    except (OSError, BridgeDownError):  # another program is busy there
        return False


def places_left(folder: str) -> list[Place]:
    """Return all places of which there is a file, whether a bridge runs there or not.

    Args:
        folder: The folder of the sockets.
    """
    names: set[str] = set()
    for name in os.listdir(folder):
        ending = next((ending for ending in _ENDINGS if name.endswith(ending)), None)
        if ending is not None:
            names.add(name.removesuffix(ending))
    return [Place(folder, name) for name in sorted(names)]


def remove_old(folder: str, seconds: float) -> None:
    """Remove the files of bridges that were left long ago.

    Args:
        folder: The folder of the sockets.
        seconds: The least age of the files.
    """
    for place in places_left(folder):
        if is_old(place, seconds):
            remove_left(place)


def is_old(place: Place, seconds: float) -> bool:
    """Return whether files are left at a place, and all of them are old.

    Args:
        place: The place of a bridge.
        seconds: The least age of the files.
    """
    try:
        # Where another bridge has removed everything meanwhile, there is nothing left.
        latest = max((os.stat(path).st_mtime for path in files_of(place)), default=None)
    except OSError:  # just now
        return False
    return latest is not None and latest < time.time() - seconds


def files_of(place: Place) -> list[str]:
    """Return the existing files of a place."""
    paths = (place.front, place.http, place.log, f"{place.log}.1", place.lock)
    return [path for path in paths if os.path.lexists(path)]
