"""How far a client is with the answer to a question that a server asked: its progress, on the way to that server.

The bridge does not pass on the server's progress token: it asks the client for progress with a token of its own. A
context variable of the task that works on the answer says where that progress goes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from gaia_bridge.model import Progress


class Reports(Protocol):
    """Receives progress."""

    async def __call__(self, report: Progress) -> None:
        """Report progress."""
        ...


_reports: ContextVar[Reports | None] = ContextVar("gaia_bridge_answering", default=None)


def reports() -> Reports | None:
    """Receives the progress of the answer that the calling task works on; `None` if it was not asked for."""
    return _reports.get()


@contextmanager
def reporting(to: Reports | None) -> Generator[None]:
    """Report the progress of the answer that this block works on."""
    token = _reports.set(to)
    try:
        yield
    finally:
        _reports.reset(token)
