"""Who hears how far the other side is with our requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ProgressReceivers", "Receive"]

Receive = Callable[[float, float | None, str | None], None]
"""Takes one report: progress, total, message."""


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
        """A progress notification came. What is none, or about nothing of ours, is dropped.

        Args:
            token: What it is about, as it says.
            params: Its parameters.
        """
        receive = self._receivers.get(token) if type(token) is int else None
        progress = _number(params.get("progress"))
        if receive is None or progress is None:
            return
        message = params.get("message")
        receive(progress, _number(params.get("total")), message if isinstance(message, str) else None)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
