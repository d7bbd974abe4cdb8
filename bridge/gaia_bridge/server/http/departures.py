"""How an application learns that its client left, without a task that waits for `receive`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

DISCONNECT: Final = "gaia_bridge.disconnect"
"""The name of an ASGI extension of our listener, which other servers have not. Its `on_disconnect(callback)` calls back
when the client leaves before its answer is complete, and returns a function that ends this."""


class Departure:
    """Whether the client of a request left before its answer was complete, and whom to tell.

    It knows neither the connection nor the request, which would make circles that wait for the garbage collector.
    """

    __slots__ = ("_callbacks", "_happened")

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._happened = False

    def on_disconnect(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the client leaves, at once if it did; returns a function that ends this."""
        if self._happened:
            callback()
            return lambda: None
        token = object()
        self._callbacks[token] = callback
        return lambda: self._callbacks.pop(token, None) and None

    def happen(self) -> None:
        """The client left."""
        self._happened = True
        while self._callbacks:
            _, callback = self._callbacks.popitem()
            try:
                callback()
            except Exception:
                logger.exception("a callback for the disconnect of a client failed")
