"""A turn that is being played on the background loop, and read elsewhere: in a thread, or on another event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import anyio

from gaia_bridge.chat_types import Piece, Reply, TurnEvent
from gaia_bridge.runtime.lent_loop import Lease

__all__ = ["Play", "Tell", "TurnStream", "discard"]

Tell = Callable[[str | TurnEvent], Awaitable[None]]
"""Given pieces of text as they come, and what happens between them, if that was asked for."""

Play = Callable[[Tell], Awaitable[Reply]]
"""Plays a turn."""


async def discard(piece: str | TurnEvent) -> None:
    """Discard a piece: a `Tell` for callers that wait for the whole answer."""


class TurnStream:
    """One turn, which begins when it is first read. Its coroutines run on the background loop.

    Args:
        lease: The right to run on that loop.
        play: Plays the turn.
        pieces: How many wait for a slow reader, before the turn waits too.
    """

    def __init__(self, lease: Lease, play: Play, pieces: int) -> None:
        self._lease = lease
        self._play = play
        self._pieces = pieces
        self._running: _TurnState | None = None

    async def next(self) -> list[Piece]:
        """Wait for more: pieces, and at last the reply. Empty when that was it.

        Raises:
            Exception: What the turn ended with.
        """
        if self._running is None:
            self._running = _TurnState(self._pieces)
            self._lease.start(self._run)
        running = self._running
        pieces: list[Piece] = []
        with suppress(anyio.EndOfStream, anyio.WouldBlock):
            pieces.append(await running.receive.receive())
            while True:
                pieces.append(running.receive.receive_nowait())
        if not pieces:
            await running.over.wait()
            if running.error is not None:
                raise running.error
        return pieces

    def end(self) -> None:
        """End the turn, if it is not over, and wait until it is.

        Usable anywhere but in coroutines, also where nobody can wait, as in garbage collection on the loop itself.
        """
        with self._loop_may_be_gone():
            self._lease.start(self._cancel)  # cannot be called off, as the waiting can be
            if self._lease.is_current:
                self._lease.start(self._stop)
            else:
                self._lease.run(self._stop)

    async def aend(self) -> None:
        """`end` for coroutines, on any event loop."""
        with self._loop_may_be_gone():
            self._lease.start(self._cancel)
            await self._lease.wait(self._stop)

    @contextmanager
    def _loop_may_be_gone(self) -> Generator[None]:
        try:
            yield
        except RuntimeError:  # it has ended, and the turn with it
            if self._running is not None:
                self._running.receive.close()

    async def _stop(self) -> None:
        await self._cancel()
        if self._running is not None:
            await self._running.over.wait()

    async def _cancel(self) -> None:
        if self._running is not None:
            self._running.scope.cancel()
            self._running.receive.close()  # here: whoever waits for the end may be cancelled once more

    async def _run(self) -> None:
        running = self._running
        assert running is not None
        try:
            with running.scope, running.send:
                await running.send.send(await self._play(running.send.send))
        except Exception as error:  # raised where it is read
            running.error = error
        finally:
            running.over.set()


class _TurnState:
    """The state of a turn that has begun; made on the loop."""

    def __init__(self, pieces: int) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[Piece](pieces)
        self.scope = anyio.CancelScope()
        self.over = anyio.Event()
        self.error: Exception | None = None
