"""What clients have asked for and not been given yet is bounded, in bytes, for each client and for the process.

A client may ask for more than it reads, and a server may answer faster than answers can be written. Without a bound all
of that waits here as objects. So a call waits before it is made while too much waits for its client, and of calls whose
answers may be large only so many are made at once. Knows nothing of how answers are carried: whoever carries them tells
when one has left (`Outlet`).
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle, get_running_loop
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Self

import anyio

from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError
from gaia_bridge.settings import BacklogLimits

__all__ = ["Backlog", "Outlet", "Turn", "current_outlet"]

logger = logging.getLogger(__name__)

_current: ContextVar[Outlet | None] = ContextVar("outlet", default=None)


def current_outlet() -> Outlet | None:
    """Where the answer to the request that is being worked on will leave, if that is known."""
    return _current.get()


class Outlet:
    """One way to a client: an HTTP response, or a stream that carries all of its answers.

    Args:
        is_stream: Whether it carries all that the client is answered.
        cut: Ends the way, when what waits there is too much for the process; without it, it ends by itself.
    """

    def __init__(self, *, is_stream: bool = False, cut: Callable[[], None] | None = None) -> None:
        self.is_stream = is_stream
        self.cut = cut
        self._turns: dict[str, Turn] = {}
        self._closed = False

    @contextmanager
    def entered(self) -> Generator[Self]:
        """What is asked within leaves here. At the end, nothing waits any more."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)
            self.close()

    def enter(self, context: Context) -> None:
        """What is asked in that context leaves here."""
        context.run(_current.set, self)

    def expect(self, request_id: object, turn: Turn) -> None:
        """An answer will leave here."""
        self.left(request_id)  # another call of that name, against the rules
        if self._closed:
            turn.over()
        else:
            self._turns[str(request_id)] = turn

    def left(self, request_id: object) -> None:
        """An answer was handed to whoever carries it on, and is counted there."""
        if (turn := self._turns.pop(str(request_id), None)) is not None:
            turn.over()

    def left_in(self, size: int) -> None:
        """So many bytes were handed on: the answers that fit into them, in the order in which they were asked for."""
        for request_id, turn in list(self._turns.items()):
            if 0 < turn.size <= size:
                size -= turn.size
                self.left(request_id)

    def close(self) -> None:
        """Nothing leaves here any more."""
        self._closed = True
        for request_id in list(self._turns):
            self.left(request_id)


class Turn:
    """One call, from before it is made until its answer has left. Made by `Backlog.begin`.

    Args:
        backlog: What it belongs to.
        client: Who asked.
        target: What was called.
        outlet: Where its answer leaves, if that is known.
        may_be_large: Whether it is one of those of which only so many are made at once.
    """

    def __init__(
        self, backlog: Backlog, client: Hashable, target: Hashable, outlet: Outlet | None, may_be_large: bool
    ) -> None:
        self.outlet = outlet
        self.size = 0
        """Bytes of its answer, once there is one that has not left."""
        self._backlog = backlog
        self._client = client
        self._target = target
        self._over = False
        self._slow: TimerHandle | None = None
        if may_be_large:
            limits = backlog.limits
            seconds = limits.large_interval if backlog.is_large(target) else limits.interval
            self._slow = get_running_loop().call_later(seconds, self._make_way)

    def answered(self, size: int) -> None:
        """There is an answer, which now waits to leave; without an outlet, it has left.

        Args:
            size: Its bytes.
        """
        self._make_way()
        self._backlog.note(self._target, size)
        if self.outlet is None:
            self.over()
        elif not self._over:
            self.size = size
            self._backlog.hold(self._client, size)

    def over(self) -> None:
        """The answer has left, or there will be none."""
        if not self._over:
            self._over = True
            self._make_way()
            size, self.size = self.size, 0
            self._backlog.let_go(self._client, size)

    def _make_way(self) -> None:
        """Whoever takes long, or is done, keeps nobody from being called."""
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
            self._backlog.make_way(self._client)


class _Client:
    """What is on its way to one client."""

    def __init__(self) -> None:
        self.turns = 0
        """Calls that are not over."""
        self.large = 0
        """Of these, those that were made just now and whose answers may be large."""
        self.held = 0
        self.outlet: Outlet | None = None
        """Where its last call was to be answered; a client that can be cut off has one stream."""
        self.waiting: deque[tuple[anyio.Event, bool]] = deque()


class Backlog:
    """What is on its way to all clients. Only on the event loop.

    Args:
        limits: How much.
    """

    def __init__(self, limits: BacklogLimits) -> None:
        self.limits = limits
        self.held = 0
        """Bytes of answers that have not left."""
        self._clients: dict[Hashable, _Client] = {}
        self._large: dict[Hashable, bool] = {}

    async def begin(self, client: Hashable, target: Hashable, outlet: Outlet | None) -> Turn:
        """Wait until a call may be made.

        Args:
            client: Who calls.
            target: What is called.
            outlet: Where the answer will leave, if that is known.

        Raises:
            ProtocolError: Too much has waited for the client for too long.
        """
        known = self._clients.setdefault(client, _Client())
        may_be_large = self._large.get(target, True)
        known.turns += 1
        try:
            if self._may_begin(known, may_be_large):
                known.large += may_be_large
            else:
                await self._wait(known, may_be_large)
        except BaseException:
            self._end(client)
            raise
        known.outlet = outlet
        return Turn(self, client, target, outlet, may_be_large)

    def is_large(self, target: Hashable) -> bool:
        """Whether the last answer of a target was large; not if it was never called."""
        return self._large.get(target, False)

    def note(self, target: Hashable, size: int) -> None:
        """How large an answer was."""
        self._large.pop(target, None)
        self._large[target] = size >= self.limits.large
        while len(self._large) > self.limits.targets:
            del self._large[next(iter(self._large))]

    def hold(self, client: Hashable, size: int) -> None:
        """An answer waits for a client."""
        self._clients[client].held += size
        self.held += size
        if self.held > self.limits.total_bytes:
            self._cut_off()

    def let_go(self, client: Hashable, size: int) -> None:
        """An answer of that size waits no longer, and its call is over."""
        self._clients[client].held -= size
        self.held -= size
        self._end(client)

    def make_way(self, client: Hashable) -> None:
        """One call that may have a large answer keeps no other waiting."""
        known = self._clients[client]
        known.large -= 1
        self._wake(known)

    def _may_begin(self, known: _Client, may_be_large: bool) -> bool:
        if known.held >= self.limits.client_bytes:
            return False
        return not may_be_large or known.large < self.limits.at_once

    async def _wait(self, known: _Client, may_be_large: bool) -> None:
        turn = anyio.Event()
        known.waiting.append((turn, may_be_large))
        try:
            with anyio.move_on_after(self.limits.patience):
                await turn.wait()
        except BaseException:
            self._leave(known, turn, may_be_large)
            raise
        if not turn.is_set():
            self._leave(known, turn, may_be_large)
            raise ProtocolError(
                INTERNAL_ERROR,
                f"{known.held:,} bytes of answers wait for this client, and {known.turns:,} of its calls are not "
                f"over; nothing changed in {self.limits.patience:g} s. Read the answers, and call again",
            )

    def _leave(self, known: _Client, turn: anyio.Event, may_be_large: bool) -> None:
        if turn.is_set():  # it came just now
            known.large -= may_be_large
            self._wake(known)
        else:
            known.waiting.remove((turn, may_be_large))

    def _wake(self, known: _Client) -> None:
        while known.waiting and self._may_begin(known, known.waiting[0][1]):
            turn, may_be_large = known.waiting.popleft()
            known.large += may_be_large
            turn.set()

    def _end(self, client: Hashable) -> None:
        known = self._clients[client]
        known.turns -= 1
        if known.turns:
            self._wake(known)
        else:
            del self._clients[client]

    def _cut_off(self) -> None:
        """End the way on which most is waiting, of those that can be ended; the others end by themselves."""
        for slowest in sorted(self._clients.values(), key=lambda known: known.held, reverse=True):
            if slowest.outlet is not None and slowest.outlet.cut is not None:
                logger.warning("a client was cut off: it left %d bytes of its answers unread", slowest.held)
                slowest.outlet.cut()
                return
