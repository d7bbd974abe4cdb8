"""Why the request that code works for was cancelled: what the client said reaches whoever works for it, as it is.

And the other way round: that its time was up, which its result does not tell from any other failure.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Cancellation", "cancel_reason", "note_too_late", "was_too_late"]


class Cancellation:
    """What is known of the end of one request, for the tasks that work for it."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """What the client gave, if anything."""
        self.too_late = False
        """Whether it was not done in time."""

    def enter(self) -> None:
        """From here on, the calling task works for the request, and so do those that it starts."""
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


def note_too_late() -> None:
    """The request that the calling task works for was not done in time."""
    if (current := _current.get()) is not None:
        current.too_late = True


def was_too_late() -> bool:
    """Whether that was said of the request that the calling task works for."""
    current = _current.get()
    return current is not None and current.too_late
