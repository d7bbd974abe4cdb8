"""Identifies the process and user at the other end of a connection to a socket in the file system."""

from __future__ import annotations

import os
import socket
import struct
from typing import Protocol

_CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of Linux: process, user, group."""

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID, _XUCRED_BYTES = 0, 1, 2, 76
"""macOS: `struct xucred`, which begins with a version and the user."""


class Socket(Protocol):
    """A connected socket, or an event loop's view of one."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return the value of an option of so many bytes."""
        ...


def is_of_this_user(connection: Socket) -> bool:
    """Return whether the other end of a connection belongs to the user that we run as, or to root.

    It takes no descriptor of its own, so that it also works where no more files may be open.
    """
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            user: int = _CREDENTIALS.unpack(credentials)[1]
        else:
            user = struct.unpack_from("2I", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES))[1]
    except OSError:
        return False
    return user in (os.geteuid(), 0)


def peer_process(connection: socket.socket) -> int | None:
    """Return the process that listens at the other end; `None` if the system does not report it."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid: int = _CREDENTIALS.unpack(credentials)[0]
        else:
            pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    except OSError:
        return None
    return pid or None
