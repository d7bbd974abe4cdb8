"""Bounds, in bytes, the answers that clients have asked for and not been given yet, per client and per process.

A client may ask for more than it reads, and a server may answer faster than answers can be written. Without a bound all
of that waits here as objects. So a call waits before it is made while too much waits for its client, and of calls whose
answers may be large only so many are made at once. Knows nothing of how answers are carried: whoever carries them tells
when one has left (`CallTurn.over`).
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle, get_running_loop
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

import anyio
from msgspec import Struct

from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError
from gaia_bridge.settings import BacklogLimits

logger = logging.getLogger(__name__)

Target = tuple[str, str]
"""A method, and the name or URI that it is about."""


class HasTarget(Protocol):
    """A call that is counted: a turn, or a direct call."""

    @property
    def target(self) -> Target:
        """The target of the call."""
        ...


class _Client(Struct, eq=False):
    """The calls and answers on their way to one client."""

    key: Hashable
    waiting: deque[tuple[anyio.Event, int | None]]
    """Calls that wait for their turn, each with the bytes of the answer that is expected."""
    turns: dict[HasTarget, None] = {}
    """Calls that are not over: a dictionary, because a set would cost a call of a function for each."""
    large: int = 0
    """Of these, the calls that were made just now and whose answers may be large."""
    expected: int = 0
    """Bytes of the answers to these, by the last answers of their targets."""
    held: int = 0
    cut: Callable[[], None] | None = None
    """Ends the stream on which the client is answered, if all its answers have one and it can be ended."""

    def count(self, expected: int | None, calls: int = 1) -> None:
        """Count calls whose answers may be large; does nothing for others, of which `None` is expected."""
        if expected is not None:
            self.large += calls
            self.expected += calls * expected


class CallTurn(Struct, eq=False):
    """One call, from before it waits to be made until its answer has left. Made by `Backlog.begin`."""

    backlog: Backlog
    client: _Client
    target: Target
    size: int = 0
    """Bytes of its answer, while the answer waits to leave."""
    is_over: bool = False
    expected: int | None = None
    """Bytes that its answer is expected to have, if the answer may be large; 0 if that is unknown."""
    slow: TimerHandle | None = None
    """The timer while the call counts as one with a large answer."""

    def answered(self, size: int) -> None:
        """Remember the size of the answer, and count the answer, which now waits to leave, by its bytes."""
        self.make_way()
        backlog = self.backlog
        sizes = backlog.sizes
        if sizes.pop(self.target, None) is None and len(sizes) >= backlog.limits.targets:
            del sizes[next(iter(sizes))]
        sizes[self.target] = max(size, 1)
        if not self.is_over:
            self.size = size
            self.client.held += size
            backlog.held += size
            backlog.most_held = max(backlog.held, backlog.most_held)
            if backlog.held > backlog.limits.total_bytes:
                backlog.cut_off()

    def over(self) -> None:
        """End the call: the answer has left, or there will be none."""
        if self.is_over:
            return
        self.is_over = True
        self.make_way()
        backlog, client = self.backlog, self.client
        client.held -= self.size
        backlog.held -= self.size
        self.size = 0
        del client.turns[self]
        if client.turns:
            backlog.wake(client)
        else:
            del backlog.clients[client.key]
        if backlog.most_held > backlog.limits.client_bytes and backlog.held < backlog.limits.large:
            backlog.most_held = 0
            get_running_loop().run_in_executor(None, return_free_memory)

    def make_way(self) -> None:
        """Stop counting the call as one with a large answer: it takes long, or is done. Wake calls that waited."""
        if self.slow is not None:
            self.slow.cancel()
            self.slow = None
            self.client.count(self.expected, -1)
            self.backlog.wake(self.client)


class Backlog:
    """The calls and answers on their way to all clients. Only on the event loop."""

    def __init__(self, limits: BacklogLimits) -> None:
        self.limits = limits
        self.held = 0
        """Bytes of answers that have not left."""
        self.most_held = 0
        """The most bytes that were held since memory was given back."""
        self.clients: dict[Hashable, _Client] = {}
        self.sizes: dict[Target, int] = {}
        """Bytes of the last answer of each target."""

    @property
    def targets(self) -> list[Target]:
        """The targets of the calls that are not over."""
        return [turn.target for state in self.clients.values() for turn in state.turns]

    async def begin(self, client: Hashable, target: Target, cut: Callable[[], None] | None = None) -> CallTurn:
        """Wait until a call of a tool, prompt or resource may be made.

        Args:
            cut: Ends the stream to the client, where all its answers have one and it can be ended.

        Raises:
            ProtocolError: Too much has waited for the client for too long.
        """
        turn = self.begin_at_once(client, target)
        state, limits, size = turn.client, self.limits, self.sizes.get(target, 0)
        expected = None if 0 < size < limits.large else size
        try:
            if not self._may_begin(state, expected):
                await self._wait(state, expected)
            elif expected is not None:
                state.count(expected)
        except BaseException:
            turn.over()
            raise
        state.cut = cut
        if expected is not None:
            turn.expected = expected
            seconds = limits.large_interval if expected else limits.interval
            turn.slow = get_running_loop().call_later(seconds, turn.make_way)
        return turn

    def begin_direct(self, client: Hashable, call: HasTarget) -> bool:
        """Count a direct call whose answer is expected to be small; return whether it may be made at once."""
        target = call.target
        if target not in self.sizes or self.sizes[target] >= self.limits.large:
            return False
        if client not in self.clients:
            state = self.clients[client] = _Client(client, deque())
        elif (state := self.clients[client]).waiting or state.held + state.expected >= self.limits.client_bytes:
            return False
        state.turns[call] = None
        return True

    def end_direct(self, client: Hashable, call: HasTarget, size: int = 0) -> None:
        """Stop counting a direct call; remember the size of its answer, if it has had one."""
        if size and call.target in self.sizes:  # else it was forgotten meanwhile
            self.sizes[call.target] = size
        state = self.clients[client]
        del state.turns[call]
        if not state.turns:
            del self.clients[client]

    def begin_at_once(self, client: Hashable, target: Target) -> CallTurn:
        """Return the turn of a call that is being made already."""
        state = self.clients.get(client)
        if state is None:
            state = self.clients[client] = _Client(client, deque())
        turn = CallTurn(self, state, target)
        state.turns[turn] = None
        return turn

    def _may_begin(self, state: _Client, expected: int | None) -> bool:
        if state.held + state.expected >= self.limits.client_bytes:
            return False
        return expected is None or state.large < self.limits.at_once

    async def _wait(self, state: _Client, expected: int | None) -> None:
        turn = anyio.Event()
        state.waiting.append((turn, expected))
        try:
            with anyio.move_on_after(self.limits.patience):
                await turn.wait()
        except BaseException:
            self._leave(state, turn, expected)
            raise
        if not turn.is_set():
            self._leave(state, turn, expected)
            raise ProtocolError(
                INTERNAL_ERROR,
                f"{state.held:,} bytes of answers wait for this client, and {len(state.turns):,} of its calls are not "
                f"over; nothing changed in {self.limits.patience:g} s. Read the answers, and call again",
            )

    def _leave(self, state: _Client, turn: anyio.Event, expected: int | None) -> None:
        if turn.is_set():  # it came just now
            state.count(expected, -1)
            self.wake(state)
        else:
            state.waiting.remove((turn, expected))

    def wake(self, state: _Client) -> None:
        """Let the calls of a client begin that waited for their turn."""
        while state.waiting and self._may_begin(state, state.waiting[0][1]):
            turn, expected = state.waiting.popleft()
            state.count(expected)
            turn.set()

    def cut_off(self) -> None:
        """End the stream on which most is waiting, of those that can be ended; the others end by themselves."""
        for slowest in sorted(self.clients.values(), key=lambda state: state.held, reverse=True):
            if slowest.cut is not None:
                logger.warning("a client was cut off: it left %d bytes of its answers unread", slowest.held)
                slowest.cut()
                return


def return_free_memory() -> None:
    """Return the memory that the allocator keeps for later. Takes milliseconds: call it in a thread, and seldom.

    After many large blocks, glibc keeps blocks of that size on its heap, where one that is in use keeps all below it
    (`mallopt(3)`, M_MMAP_THRESHOLD). Does nothing with other C libraries.
    """
    import ctypes  # takes long to load, and most processes never need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
