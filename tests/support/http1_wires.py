"""One HTTP/1.1 connection without a network: what the server sends is cut as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.http.http1 import Http1Connection

__all__ = ["Answer", "Keeper", "Wire", "answer_of", "wired"]

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


class Keeper:
    """Who keeps connections, and counts."""

    def __init__(self) -> None:
        self.free = 0
        self.closed = 0

    def opened(self, connection: Http1Connection) -> None:
        pass

    def freed(self, connection: Http1Connection) -> None:
        self.free += 1

    def lost(self, connection: Http1Connection) -> None:
        self.closed += 1


class Wire(asyncio.Transport):
    """The transport below a connection.

    Args:
        connection: Which is opened.
    """

    def __init__(self, connection: Http1Connection) -> None:
        super().__init__()
        self.connection = connection
        self.sent = b""
        self.is_paused = False
        self.takes = True
        """Whether the server takes what is sent."""
        self._closing = False
        connection.connection_made(self)

    def write(self, data: Any) -> None:
        self.sent += data
        if not self.takes:
            self.connection.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        self.end()

    def end(self, failure: Exception | None = None) -> None:
        """End the connection."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, failure)


def wired(keeper: Keeper | None = None) -> Wire:
    """An open connection."""
    loop = asyncio.get_running_loop()
    return Wire(Http1Connection(keeper or Keeper(), Share(0.1, 0.25, loop.time)))


def answer_of(pieces: Iterable[bytes]) -> Answer:
    """What comes of the pieces that a server sends before it closes the connection.

    Raises:
        ClosedError: They are not all of it.
        Http1Error: They are no answer.
    """

    async def receive() -> Answer:
        wire = wired()
        response = wire.connection.send(b"GET / HTTP/1.1\r\n\r\n", 1)
        for piece in pieces:
            wire.connection.data_received(piece)
        wire.end()
        await response.begin()
        body = b""
        while part := await response.read():
            body += part
        return response.status, response.headers, body

    return asyncio.run(receive())
