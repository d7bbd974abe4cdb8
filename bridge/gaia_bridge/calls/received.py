"""The requests of the other side that are worked on here: of a client's at a server, and of a server's at a client."""

from __future__ import annotations

from typing import Protocol

RequestId = int | str | float
"""What a request can be known by. Servers may give theirs fractions (JSON-RPC 2.0, section 4); MCP has none."""


class Cancellable(Protocol):
    """A request in flight."""

    def cancel(self, reason: str | None) -> None:
        """Whoever made it does not want its answer any more."""
        ...


class ReceivedRequests:
    """The requests of one connection that are not answered yet."""

    __slots__ = ("_in_flight",)

    def __init__(self) -> None:
        self._in_flight: dict[RequestId, Cancellable] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def begin(self, request_id: RequestId, request: Cancellable) -> bool:
        """A request is being worked on.

        Returns:
            Whether it may be: its id must not be that of another one in flight (basic, "Requests").
        """
        return self._in_flight.setdefault(request_id, request) is request

    def end(self, request_id: RequestId, request: Cancellable) -> None:
        """It no longer is; another of the same id, which was refused, leaves it in flight."""
        if self._in_flight.get(request_id) is request:
            del self._in_flight[request_id]

    def cancel(self, request_id: object, reason: object) -> None:
        """The other side does not want the answer to one of its requests any more, if there is such a request."""
        if isinstance(request_id, bool) or not isinstance(request_id, int | str | float):
            return
        request = self._in_flight.get(request_id)
        if request is None and not isinstance(request_id, float):  # some write the digits of a number as text here
            request = next((known for key, known in self._in_flight.items() if str(key) == str(request_id)), None)
        if request is not None:
            request.cancel(reason if isinstance(reason, str) else None)

    def cancel_all(self) -> None:
        """The other side is gone."""
        for request in list(self._in_flight.values()):
            request.cancel(None)
