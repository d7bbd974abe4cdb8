"""The progress of requests: of ours, and of the answers to questions that servers asked.

The bridge does not pass on the progress token of a server: it asks the client for progress with a token of its own. A
context variable of the task that works on the answer says where that progress goes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.model import Progress
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY, forwarded_meta
from gaia_bridge.text.json_types import JSON

Receive = Callable[[Progress], None]
"""A function that takes one report."""
Reports = Callable[[Progress], Coroutine[Any, Any, None]]
"""A coroutine function that takes one report."""
_reports: ContextVar[Reports | None] = ContextVar("gaia_bridge_answering", default=None)


def pass_on(params: Mapping[str, Any], receiver_of: Callable[[int], Receive | None]) -> None:
    """Pass on a progress notification to the receiver for its token, which is a number.

    A malformed one, or one about no request of ours, is dropped.
    """
    number, progress, message = own_id(params.get(PROGRESS_TOKEN_KEY)), params.get("progress"), params.get("message")
    receive = None if number is None else receiver_of(number)
    if receive is not None and (made := _number(progress)) is not None:
        text = message if isinstance(message, str) else None
        receive(Progress(made, _number(params.get("total")), text, forwarded_meta(params)))


def progress_params(token: object, report: Progress) -> JSON:
    """Return the parameters of a progress notification, with the token of the side that made the request."""
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


def reports() -> Reports | None:
    """Return the receiver of progress of the calling task's answer; `None` if nobody asked for progress."""
    return _reports.get()


@contextmanager
def reporting(to: Reports | None) -> Generator[None]:
    """Report the progress of the answer that this block works on to `to`."""
    token = _reports.set(to)
    try:
        yield
    finally:
        _reports.reset(token)
