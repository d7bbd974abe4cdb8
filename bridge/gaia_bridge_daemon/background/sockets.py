"""Sockets in the file system that only their owner can connect to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from gaia_bridge.client.transports.guardian import remove_socket, socket_identity
from gaia_bridge.client.transports.guardian_client import GUARDIAN
from gaia_bridge.errors import ListenError
from gaia_bridge.runtime.forking import FORKS


class Listening(NamedTuple):
    """A socket that is bound. Nobody can connect to it before its server listens, when all is there to answer with."""

    socket: socket.socket
    remove: Callable[[], None]
    """Removes its file, if it is still ours."""


@contextmanager
def listening(path: str) -> Generator[Listening]:
    """Have a path for a server; in the end it is removed, if it is still ours.

    Args:
        path: Where. Nothing may be there.

    Raises:
        ListenError: It cannot be listened on.
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
