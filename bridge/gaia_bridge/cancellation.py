"""Why the request that code works for was cancelled: what the client said reaches whoever works for it, as it is."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Cancellation", "cancel_reason"]


class Cancellation:
    """What is known of the end of one request, for the tasks that work for it."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """What the client gave, if anything."""

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
