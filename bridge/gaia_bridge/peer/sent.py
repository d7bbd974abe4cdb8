"""Our requests that wait for the answer of the other side, on a connection that carries all of them in one stream."""

from __future__ import annotations

import asyncio

from gaia_bridge.protocol.json_types import JSON

__all__ = ["SentRequests"]


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
            number: The request that it answers, as it says. Ids that we give are integers; `True` and `1.0` are equal
                to one, and none of ours.
            response: All of it.

        Returns:
            Whether anybody waited: others are late, foreign, or second ones.
        """
        future = self._waiting.pop(number, None) if type(number) is int else None
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
