"""Opens connections to servers. Of several addresses of a host, some are tried concurrently if need be (RFC 8305)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from gaia_bridge.client.transports.http1 import Abortable, Connection

Make = Callable[[], Connection]
"""Makes a connection that is not open yet."""

_HEAD_START: Final = 0.25
"""Seconds after which the next address of a host is tried concurrently (RFC 8305, section 5)."""


class ConnectError(Exception):
    """No connection could be opened; the cause says why."""


class ConnectTimeoutError(ConnectError):
    """No connection could be opened in time."""


class ProxyError(ConnectError):
    """No connection could be opened by way of a proxy, because of that proxy; the text is a sentence that says why."""


class Way(Protocol):
    """How a server is reached."""

    async def connect(self, make: Make, seconds: float) -> Connection:
        """Open a connection.

        Args:
            make: Makes it.
            seconds: How long it may take, TLS included.

        Raises:
            ConnectError: It cannot be opened.
        """
        ...


class Direct:
    """The way to a server that takes connections itself. Implements `Way`.

    Args:
        host: Its name or address.
        port: Its port.
        tls: What it is verified with; `None` if it speaks no TLS.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._host = host
        self._port = port
        self._tls = tls

    async def connect(self, make: Make, seconds: float) -> Connection:
        """Open a connection; see `Way.connect`."""
        try:
            async with asyncio.timeout(seconds):
                return await first_connected(self._host, self._port, self._tls, make)
        except TimeoutError as error:
            if error.errno is None:
                raise ConnectTimeoutError from None
            raise ConnectError(str(error)) from error
        except (OSError, ValueError, OverflowError) as error:  # also of a host that the system cannot look up
            raise ConnectError(str(error)) from error


C = TypeVar("C", bound=Abortable)


async def first_connected(host: str, port: int, tls: ssl.SSLContext | None, make: Callable[[], C]) -> C:
    """Connect to a host.

    Args:
        host: Its name or address.
        port: The port.
        tls: What it is verified with; `None` if it speaks no TLS.
        make: Makes what speaks over a connection.

    Raises:
        OSError: None of its addresses takes a connection; why the first of them does not.
    """

    async def connect(address: str) -> C:
        name = None if tls is None else host
        _, made = await loop.create_connection(make, address, port, ssl=tls, server_hostname=name)
        return made

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    attempts: list[asyncio.Task[C]] = []
    winner: C | None = None
    try:
        while winner is None and (addresses or not all(attempt.done() for attempt in attempts)):
            if addresses:
                attempts.append(loop.create_task(connect(addresses.pop(0))))
            await asyncio.wait(
                [attempt for attempt in attempts if not attempt.done()],
                timeout=_HEAD_START if addresses else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            connected = [attempt for attempt in attempts if attempt.done() and attempt.exception() is None]
            winner = connected[0].result() if connected else None
        return winner or attempts[0].result()  # which raises why it failed
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(partial(_abandon, winner))
        if winner is None:
            await asyncio.wait(attempts)


def _abandon(winner: C | None, attempt: asyncio.Task[C]) -> None:
    """Close the connection of an attempt, unless it is the one that is used."""
    if not attempt.cancelled() and attempt.exception() is None and (connection := attempt.result()) is not winner:
        connection.abort()
