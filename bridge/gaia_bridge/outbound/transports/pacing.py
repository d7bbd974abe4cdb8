"""Connections of HTTP that are read no faster than what comes can be worked on without stopping the loop (F-301).

A server can keep its reader busy with next to nothing: interim answers, chunks of one byte, blank lines in an event
stream. Most of that is taken apart below us, and without a pause as long as there is more of it. What a piece of data
has cost shows when the next one is asked for: if nothing else ran in between, all that this thread has worked since.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore2

from gaia_bridge.outbound.transports.budgets import Share

__all__ = ["PacedBackend"]

_Option = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class PacedBackend(httpcore2.AsyncNetworkBackend):
    """Opens such connections.

    Args:
        share: Gives each of them its share of the loop's time.
    """

    def __init__(self, share: Callable[[], Share]) -> None:
        self._share = share
        self._inner: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is not ours
        local_address: str | None = None,
        socket_options: Iterable[_Option] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a connection."""
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _PacedStream(stream, self._share())

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class _PacedStream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, share: Share) -> None:
        self._inner = inner
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._handed_out: float | None = None  # when, unless something else has run since

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._handed_out is not None:
            pause = self._share.spend(time.thread_time() - self._handed_out)
            if pause:
                await asyncio.sleep(pause)
        data = await self._inner.read(max_bytes, timeout)
        self._handed_out = time.thread_time()
        self._loop.call_soon(self._something_else_runs)
        return data

    def _something_else_runs(self) -> None:
        self._handed_out = None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return _PacedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._share)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
