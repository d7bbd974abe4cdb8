"""Our requests that wait for the answer of the other side, on a connection that carries all of them in one stream."""

from __future__ import annotations

import asyncio

from gaia_bridge.text.json_types import JSON

_DIGITS = 18
"""More would be no id of ours, and costs something to convert."""


def own_id(value: object) -> int | None:
    """The id of a request of ours as the other side repeats it; `None` if it cannot be one.

    Ours are integers. Some servers write every id as text, and the official SDKs read such an id as the number. A
    number with a fraction of zero is the same number to JavaScript. `True` equals one, and is no id.
    """
    if type(value) is int:
        return value
    if type(value) is str:
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _DIGITS else None
    return int(value) if type(value) is float and value.is_integer() else None


class SentRequests:
    """The requests of one connection that are not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[JSON]] = {}
        self._lost: Exception | None = None

    def add(self, number: int) -> asyncio.Future[JSON]:
        """Expect the response to a request; await it, and in the end `forget` it.

        Raises:
            Exception: What the connection has ended with.
        """
        if self._lost is not None:
            raise self._lost
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        return future

    def forget(self, number: int) -> None:
        """Expect it no longer."""
        self._waiting.pop(number, None)

    def resolve(self, number: object, response: JSON) -> bool:
        """Hand a response to whoever waits for it.

        Args:
            number: The request that it answers, as it says; see `own_id`.
            response: All of it.

        Returns:
            Whether anybody waited: others are late, foreign, or second ones.
        """
        answered = own_id(number)
        future = None if answered is None else self._waiting.pop(answered, None)
        if future is None or future.done():
            return False
        future.set_result(response)
        return True

    def reject(self, number: int, error: Exception) -> bool:
        """End one request without its response; returns whether anybody waited for it."""
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return False
        _fail(future, error)
        return True

    def fail(self, error: Exception) -> None:
        """The connection is over: nobody waits any longer, now or later."""
        self._lost = error
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                _fail(future, error)


def _fail(future: asyncio.Future[JSON], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # whoever waited may be on its way out; no complaint about that
