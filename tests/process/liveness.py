"""Proof of death without waiting: a process holds a connection to the test, and the kernel closes it when it dies."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["LIVENESS_PORT", "Liveness", "show_signs_of_life", "watching"]

LIVENESS_PORT: Final = "LIVENESS_PORT"
"""The environment variable that names the port of the test."""
_HOST: Final = "127.0.0.1"
_connections: list[socket.socket] = []


class Liveness:
    """The processes that showed signs of life.

    Args:
        listener: What they connect to.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._alive: dict[str, socket.socket] = {}

    @property
    def port(self) -> int:
        """For `LIVENESS_PORT`."""
        port: int = self._listener.getsockname()[1]
        return port

    def wait_born(self, *names: str) -> None:
        """Wait until processes of these names showed signs of life."""
        while not set(names) <= self._alive.keys():
            connection, _ = self._listener.accept()
            self._alive[connection.recv(100).decode()] = connection

    def wait_dead(self, *names: str, seconds: float) -> None:
        """Wait until the processes of these names are dead."""
        for name in names:
            connection = self._alive.pop(name)
            connection.settimeout(seconds)
            assert connection.recv(1) == b"", f"{name} lives"
            connection.close()

    def close(self) -> None:
        """Stop watching."""
        for connection in self._alive.values():
            connection.close()


@contextmanager
def watching(seconds: float) -> Generator[Liveness]:
    """Watch processes.

    Args:
        seconds: How long one may take to show signs of life.
    """
    with socket.create_server((_HOST, 0)) as listener:
        listener.settimeout(seconds)
        liveness = Liveness(listener)
        try:
            yield liveness
        finally:
            liveness.close()


def show_signs_of_life(name: str) -> None:
    """In the process that is watched: connect, and stay so until death."""
    connection = socket.create_connection((_HOST, int(os.environ[LIVENESS_PORT])))
    connection.send(name.encode())
    _connections.append(connection)
