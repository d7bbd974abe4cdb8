"""Writes the events of one answer to a client: one task, and a timer for signs of life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio
from starlette.types import Send

_HEAD: Final = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
)
_SIGN: Final = b": ping\r\n\r\n"
"""A comment, which clients skip (HTML, 9.2.5)."""


async def write_events(
    send: Send,
    events: AsyncGenerator[bytes],
    ping: float,
    headers: list[tuple[bytes, bytes]],
    when_gone: Callable[[Callable[[], object]], Callable[[], object]],
) -> None:
    """Write events until there are no more, or the client leaves.

    Args:
        ping: Seconds between two signs of life.
        headers: Headers of the answer beside those of every stream.
        when_gone: Calls a function when the client leaves; returns a function that ends this.
    """
    signs = _Signs(send, ping)
    with anyio.CancelScope() as response:
        remove = when_gone(response.cancel)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEAD, *headers]})
            signs.wait()
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            signs.end()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            remove()
            signs.end()
            await events.aclose()


class _Signs:
    """Sends a sign of life again and again, until the end. A sign that waits for a slow client is not repeated."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[Any] | None = None

    def wait(self) -> None:
        """Set the timer for the next sign."""
        self._timer = self._loop.call_later(self._seconds, self._give)

    def end(self) -> None:
        """Give no more signs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _give(self) -> None:
        self.wait()
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._write())

    async def _write(self) -> None:
        await self._send({"type": "http.response.body", "body": _SIGN, "more_body": True})
