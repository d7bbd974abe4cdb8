"""Blocking work for several servers at once: the slowest decides how long it takes, not the sum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

__all__ = ["side_by_side"]

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to all items, each in a thread of its own.

    The threads are daemons: whoever gives up waiting can leave.

    Returns:
        What it returned, in the order of the items.

    Raises:
        BaseException: What it raised for the first item for which it did.
    """
    futures: list[Future[R]] = []
    for item in items:
        future: Future[R] = Future()
        threading.Thread(target=_settle, args=(future, partial(function, item)), daemon=True).start()
        futures.append(future)
    return [future.result() for future in futures]


def _settle(future: Future[R], call: Callable[[], R]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: B036 - raised again where it is waited for
        future.set_exception(error)
