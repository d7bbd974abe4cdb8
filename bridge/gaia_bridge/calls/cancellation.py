"""Hands the client's reason for cancelling a request to the tasks that work for the request, unchanged.

The other way round, a task can report that the deadline of the request passed: the result looks like any failure.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancellation:
    """Why one request ended, for the tasks that work for it."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """The reason that the client gave, if any."""
        self.too_late = False
        """Whether its deadline passed."""
        self.unreached = False
        """Whether a server was not reached, or lost before it answered."""

    def enter(self) -> None:
        """Make the calling task, and those that it starts, work for the request."""
        _current.set(self)

    @contextmanager
    def entered(self) -> Generator[None]:
        """While the request is worked on."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Cancellation | None] = ContextVar("gaia_bridge_cancellation", default=None)


def cancel_reason(otherwise: str) -> str:
    """The client's reason for cancelling the request that the calling task works for.

    Args:
        otherwise: What to say if it gave none, or did not cancel it at all.
    """
    current = _current.get()
    return otherwise if current is None or current.reason is None else current.reason


def note_failure(*, too_late: bool = False, unreached: bool = False) -> None:
    """Report why the calling task's request failed.

    Args:
        too_late: Whether its deadline passed.
        unreached: Whether a server was not reached, or lost before it answered.
    """
    if (current := _current.get()) is not None:
        current.too_late |= too_late
        current.unreached |= unreached


def was_too_late() -> bool:
    """Whether the deadline of the calling task's request passed."""
    current = _current.get()
    return current is not None and current.too_late


def was_unreached() -> bool:
    """Whether a server was not reached that the calling task's request is for, or lost before it answered."""
    current = _current.get()
    return current is not None and current.unreached


def forget_unreached() -> None:
    """The request is tried again."""
    if (current := _current.get()) is not None:
        current.unreached = False
