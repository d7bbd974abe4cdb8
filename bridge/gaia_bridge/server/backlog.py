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
from msgspec import Struct, field

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


class CallTurn(Struct, eq=False):
    """One call, from before it waits to be made until its answer has left. Made by `Backlog.begin`."""

    backlog: Backlog
    client: Hashable
    target: Target
    size: int = 0
    """Bytes of its answer, while the answer waits to leave."""
    is_over: bool = False
    _expected: int = 0
    _slow: TimerHandle | None = None

    def expect(self, size: int) -> None:
        """Count the call for a while as one with a large answer, of which only so many are made at once.

        Args:
            size: Bytes that the answer is expected to have; 0 if that is unknown.
        """
        limits = self.backlog.limits
        self._expected = size
        seconds = limits.large_interval if size else limits.interval
        self._slow = get_running_loop().call_later(seconds, self._make_way)

    def answered(self, size: int) -> None:
        """Remember the size of the answer, and count the answer, which now waits to leave, by its bytes."""
        if self._slow is not None:
            self._make_way()
        sizes = self.backlog.sizes
        if sizes.pop(self.target, None) is None and len(sizes) >= self.backlog.limits.targets:
            del sizes[next(iter(sizes))]
        sizes[self.target] = max(size, 1)
        if not self.is_over:
            self.size = size
            self.backlog.hold(self.client, size)

    def over(self) -> None:
        """End the call: the answer has left, or there will be none."""
        if not self.is_over:
            self.is_over = True
            if self._slow is not None:
                self._make_way()
            self.backlog.let_go(self)

    def _make_way(self) -> None:
        """Stop counting the call as one with a large answer: it takes long, or is done."""
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
            self.backlog.make_way(self.client, self._expected)


class _Client(Struct, eq=False):
    """The calls and answers on their way to one client."""

    turns: dict[HasTarget, None] = field(default_factory=dict)
    """Calls that are not over: a dictionary, because a set would cost a call of a function for each."""
    large: int = 0
    """Of these, the calls that were made just now and whose answers may be large."""
    expected: int = 0
    """Bytes of the answers to these, by the last answers of their targets."""
    held: int = 0
    cut: Callable[[], None] | None = None
    """Ends the stream on which the client is answered, if all its answers have one and it can be ended."""
    waiting: deque[tuple[anyio.Event, int | None]] = field(default_factory=deque)

    def count(self, expected: int | None, calls: int = 1) -> None:
        """Count calls whose answers may be large; does nothing for others, of which `None` is expected."""
        if expected is not None:
            self.large += calls
            self.expected += calls * expected


class Backlog:
    """The calls and answers on their way to all clients. Only on the event loop."""

    def __init__(self, limits: BacklogLimits) -> None:
        self.limits = limits
        self.held = 0
        """Bytes of answers that have not left."""
        self._most_held = 0
        """The most bytes that were held since memory was given back."""
        self._clients: dict[Hashable, _Client] = {}
        self.sizes: dict[Target, int] = {}
        """Bytes of the last answer of each target."""

    @property
    def targets(self) -> list[Target]:
        """The targets of the calls that are not over."""
        return [turn.target for state in self._clients.values() for turn in state.turns]

    async def begin(self, client: Hashable, target: Target, cut: Callable[[], None] | None = None) -> CallTurn:
        """Wait until a call of a tool, prompt or resource may be made.

        Args:
            cut: Ends the stream to the client, where all its answers have one and it can be ended.

        Raises:
            ProtocolError: Too much has waited for the client for too long.
        """
        state = self._clients.get(client)
        if state is None:
            state = self._clients[client] = _Client()
        size = self.sizes.get(target, 0)
        expected = None if 0 < size < self.limits.large else size
        turn = CallTurn(self, client, target)
        state.turns[turn] = None
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
            turn.expect(expected)
        return turn

    def begin_direct(self, client: Hashable, call: HasTarget) -> bool:
        """Count a direct call whose answer is expected to be small; return whether it may be made at once."""
        target = call.target
        if target not in self.sizes or self.sizes[target] >= self.limits.large:
            return False
        if client not in self._clients:
            state = self._clients[client] = _Client()
        elif (state := self._clients[client]).waiting or state.held + state.expected >= self.limits.client_bytes:
            return False
        state.turns[call] = None
        return True

    def end_direct(self, client: Hashable, call: HasTarget, size: int = 0) -> None:
        """Stop counting a direct call; remember the size of its answer, if it has had one."""
        if size and call.target in self.sizes:  # else it was forgotten meanwhile
            self.sizes[call.target] = size
        state = self._clients[client]
        del state.turns[call]
        if not state.turns:
            del self._clients[client]
        elif state.waiting:
            self._wake(state)

    def begin_at_once(self, client: Hashable, target: Target) -> CallTurn:
        """Return the turn of a call that is being made already."""
        state = self._clients.get(client)
        if state is None:
            state = self._clients[client] = _Client()
        turn = CallTurn(self, client, target)
        state.turns[turn] = None
        return turn

    def hold(self, client: Hashable, size: int) -> None:
        """Count an answer that waits for a client."""
        self._clients[client].held += size
        self.held += size
        self._most_held = max(self.held, self._most_held)
        if self.held > self.limits.total_bytes:
            self._cut_off()

    def let_go(self, turn: CallTurn) -> None:
        """Stop counting a call, which is over, and its answer."""
        state = self._clients[turn.client]
        state.held -= turn.size
        self.held -= turn.size
        turn.size = 0
        del state.turns[turn]
        if state.turns:
            self._wake(state)
        else:
            del self._clients[turn.client]
        if self._most_held > self.limits.client_bytes and self.held < self.limits.large:
            self._most_held = 0
            get_running_loop().run_in_executor(None, return_free_memory)

    def make_way(self, client: Hashable, expected: int) -> None:
        """Stop counting one call that may have a large answer, and wake calls that waited for it."""
        state = self._clients[client]
        state.count(expected, -1)
        self._wake(state)

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
            self._wake(state)
        else:
            state.waiting.remove((turn, expected))

    def _wake(self, state: _Client) -> None:
        while state.waiting and self._may_begin(state, state.waiting[0][1]):
            turn, expected = state.waiting.popleft()
            state.count(expected)
            turn.set()

    def _cut_off(self) -> None:
        """End the stream on which most is waiting, of those that can be ended; the others end by themselves."""
        for slowest in sorted(self._clients.values(), key=lambda state: state.held, reverse=True):
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
