"""Hands the client's reason for cancelling a request to the tasks that work for the request, unchanged.

The other way round, a task can report that the deadline of the request passed: the result looks like any failure.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct


class Cancellation(Struct, eq=False):
    """The reason why one request ended, for the tasks that work for it."""

    reason: str | None = None
    too_late: bool = False
    """Whether the deadline of the request passed."""
    unreached: bool = False
    """Whether a server was not reached, or lost before it answered."""

    def enter(self) -> None:
        """Make the calling task, and those that it starts, work for the request."""
        _current.set(self)

    def take_reason(self) -> None:
        """Take the reason of the request that the calling task works for: other tasks work for it here."""
        if (current := _current.get()) is not None:
            self.reason = current.reason

    def report(self) -> None:
        """Report to the request that the calling task works for why this one failed."""
        note_failure(too_late=self.too_late, unreached=self.unreached)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Make the block work for the request."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Cancellation | None] = ContextVar("gaia_bridge_cancellation", default=None)


def cancel_reason(otherwise: str) -> str:
    """Return the client's reason for cancelling the request that the calling task works for; a text if it gave none."""
    current = _current.get()
    return otherwise if current is None or current.reason is None else current.reason


def note_failure(*, too_late: bool = False, unreached: bool = False) -> None:
    """Report why the calling task's request failed: too late, or because a server was not reached, or lost."""
    if (current := _current.get()) is not None:
        current.too_late |= too_late
        current.unreached |= unreached


def was_too_late() -> bool:
    """Return whether the deadline of the calling task's request passed."""
    current = _current.get()
    return current is not None and current.too_late


def was_unreached() -> bool:
    """Return whether a server that the calling task's request needs was not reached, or lost before it answered."""
    current = _current.get()
    return current is not None and current.unreached


def forget_unreached() -> None:
    """Forget that a server was not reached: the request is tried again."""
    if (current := _current.get()) is not None:
        current.unreached = False
