"""The requests in flight on a connection: ours, which wait for their answers, and those of the other side."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gaia_bridge.text.json_types import JSON

_DIGITS = 18
"""Digits of an id of ours, at most: more are no id of ours, and cost something to convert."""
RequestId = int | str | float
"""The type of a request's id. Servers may give theirs fractions (JSON-RPC 2.0, section 4); MCP has none."""


def own_id(value: object) -> int | None:
    """Return the id of a request of ours as the other side repeats it; `None` if it cannot be one.

    Ours are integers. Some servers write every id as text, and the official SDKs read such an id as the number. A
    number with a fraction of zero is the same number to JavaScript. `True` equals one, and is no id.
    """
    if type(value) is int:
        return value
    if type(value) is str:
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _DIGITS else None
    return int(value) if type(value) is float and value.is_integer() else None


class Waiter(Protocol):
    """Waits for one response, as a future does."""

    def done(self) -> bool: ...
    def set_result(self, result: JSON, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...
    def exception(self) -> BaseException | None: ...


class SentRequests:
    """The requests that this side has sent on one connection and that are not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiter] = {}
        self._lost: Exception | None = None

    def add(self, number: int) -> asyncio.Future[JSON]:
        """Expect the response to a request, in the end to be forgotten; raise the error that ended the connection."""
        if self._lost is not None:
            raise self._lost
        future: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        return future

    def expect(self, number: int, waiter: Waiter) -> None:
        """Expect the response to a request on a connection that is not over, for anything that waits like a future."""
        self._waiting[number] = waiter

    def forget(self, number: int) -> None:
        """Stop expecting the response to a request."""
        self._waiting.pop(number, None)

    def resolve(self, number: object, response: JSON) -> bool:
        """Hand a response to the task that waits for it, by the id that it repeats; see `own_id`.

        Return whether anybody waited: others are late, foreign, or second ones.
        """
        answered = number if type(number) is int else own_id(number)
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
        """Fail all requests, and each later one: the connection is over."""
        self._lost = error
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                _fail(future, error)


def _fail(future: Waiter, error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # whoever waited may be on its way out; no complaint about that


class Cancellable(Protocol):
    """A request in flight."""

    def cancel(self, reason: str | None) -> None:
        """Cancel the request: its sender does not want the answer any more."""
        ...


class ReceivedRequests:
    """The requests that the other side has sent on one connection and that are not answered yet."""

    __slots__ = ("in_flight",)

    def __init__(self) -> None:
        self.in_flight: dict[RequestId, Cancellable] = {}
        """The requests by their ids."""

    def __len__(self) -> int:
        return len(self.in_flight)

    def begin(self, request_id: RequestId, request: Cancellable, earlier: Cancellable | None = None) -> bool:
        """Register a request that is being worked on; it may take the place of an earlier object for the same request.

        Return whether it is allowed: its id must not be that of another one in flight (basic, "Requests").
        """
        if earlier is not None and self.in_flight.get(request_id) is earlier:
            self.in_flight[request_id] = request
        return self.in_flight.setdefault(request_id, request) is request

    def end(self, request_id: RequestId, request: Cancellable) -> None:
        """Remove a request; another one of the same id, which was refused, leaves the first in flight."""
        if self.in_flight.get(request_id) is request:
            del self.in_flight[request_id]

    def cancel(self, request_id: object, reason: object) -> None:
        """Cancel a request of the other side, which does not want its answer any more, if there is such a request."""
        if isinstance(request_id, bool) or not isinstance(request_id, int | str | float):
            return
        request = self.in_flight.get(request_id)
        if request is None and not isinstance(request_id, float):  # some write the digits of a number as text here
            request = next((other for key, other in self.in_flight.items() if str(key) == str(request_id)), None)
        if request is not None:
            request.cancel(reason if isinstance(reason, str) else None)

    def cancel_all(self) -> None:
        """Cancel all requests: the other side is gone."""
        for request in list(self.in_flight.values()):
            request.cancel(None)
