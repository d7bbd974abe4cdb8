"""A turn that is being played on the background loop, and read elsewhere: in a thread, or on another event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from gaia_bridge.background import Lease
from gaia_bridge.chats import Reply

__all__ = ["Play", "Playing", "Tell", "discard"]

Tell = Callable[[str], Awaitable[None]]
"""Given pieces of text as they come."""

Play = Callable[[Tell], Awaitable[Reply]]
"""Plays a turn."""


async def discard(text: str) -> None:
    """A `Tell` for whoever waits for the whole answer."""


class Playing:
    """One turn. All of it is used on the background loop.

    Args:
        lease: The right to run on that loop.
        play: Plays the turn.
        pieces: How many wait for a slow reader, before the turn waits too.
    """

    def __init__(self, lease: Lease, play: Play, pieces: int) -> None:
        self._play = play
        self._send, self._receive = anyio.create_memory_object_stream[str | Reply](pieces)
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._error: Exception | None = None
        lease.start(self._run)

    async def next(self) -> list[str | Reply]:
        """Wait for more: pieces of text, and at last the reply. Empty when that was it.

        Raises:
            Exception: What the turn ended with.
        """
        pieces: list[str | Reply] = []
        with suppress(anyio.EndOfStream, anyio.WouldBlock):
            pieces.append(await self._receive.receive())
            while True:
                pieces.append(self._receive.receive_nowait())
        if not pieces:
            await self._over.wait()
            if self._error is not None:
                raise self._error
        return pieces

    async def stop(self) -> None:
        """End the turn, if it is not over, and wait until it is."""
        self._scope.cancel()
        await self._over.wait()
        self._receive.close()

    async def _run(self) -> None:
        try:
            with self._scope, self._send:
                await self._send.send(await self._play(self._send.send))
        except Exception as error:  # raised where it is read
            self._error = error
        finally:
            self._over.set()
