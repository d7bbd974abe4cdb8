"""How far a client is with the answer to a question that a server asked: its progress, on the way to that server.

The server's progress token ends where its question comes in; whoever puts the question to the client asks for progress
with a token of its own. In between, the task that works on the answer knows whom to tell.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Reports", "reporting", "reports"]


class Reports(Protocol):
    """Receives progress."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell of it."""
        ...


_reports: ContextVar[Reports | None] = ContextVar("gaia_bridge_answering", default=None)


def reports() -> Reports | None:
    """Whom to tell how far the answer is that is being worked on here; `None` if nobody wants to know."""
    return _reports.get()


@contextmanager
def reporting(to: Reports | None) -> Generator[None]:
    """Have the answer that is worked on in this block reported."""
    token = _reports.set(to)
    try:
        yield
    finally:
        _reports.reset(token)
