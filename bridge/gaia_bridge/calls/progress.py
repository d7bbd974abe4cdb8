"""How far requests are: ours, and the answers to questions that servers asked.

The bridge does not pass on the progress token of a server: it asks the client for progress with a token of its own. A
context variable of the task that works on the answer says where that progress goes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.model import Progress
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY, forwarded_meta
from gaia_bridge.text.json_types import JSON

Receive = Callable[[Progress], None]
"""Takes one report."""

_reports: ContextVar[Reports | None] = ContextVar("gaia_bridge_answering", default=None)


class ProgressReceivers:
    """By the progress tokens of one connection, which are numbers."""

    def __init__(self) -> None:
        self._receivers: dict[int, Receive] = {}

    def add(self, token: int, receive: Receive) -> None:
        """Have the progress of a request reported, until it is forgotten."""
        self._receivers[token] = receive

    def forget(self, token: int) -> None:
        """Nobody wants to know any longer."""
        self._receivers.pop(token, None)

    def tell(self, token: object, params: Mapping[str, Any]) -> None:
        """A progress notification came. What is none, or about nothing of ours, is dropped."""
        number = own_id(token)
        receive = None if number is None else self._receivers.get(number)
        progress = _number(params.get("progress"))
        if receive is None or progress is None:
            return
        message = params.get("message")
        text = message if isinstance(message, str) else None
        receive(Progress(progress, _number(params.get("total")), text, forwarded_meta(params)))


def progress_params(token: object, report: Progress) -> JSON:
    """The parameters of a progress notification.

    Args:
        token: What it is about, as the side that made the request says.
    """
    params: JSON = {PROGRESS_TOKEN_KEY: token, "progress": report.progress}
    if report.total is not None:
        params["total"] = report.total
    if report.message is not None:
        params["message"] = report.message
    if report.meta is not None:
        params["_meta"] = report.meta
    return params


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class Reports(Protocol):
    """Receives progress."""

    async def __call__(self, report: Progress) -> None:
        """Report progress."""
        ...


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
