"""A call that is passed on directly: to its server as soon as it is read, and its result back as soon as it is read.

On the client's side, no task works on it. Whatever is not plain (a question, a failure, a slow server, a client that
cancels or leaves) makes it an ordinary call: the request takes the ordinary way from its beginning, and where that
would send a request to the server, it waits for the response to the one that was sent.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol, runtime_checkable

from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.contract import RequestFacts, Source
from gaia_bridge.text.json_types import JSON

_FIELDS: Final = frozenset({"content", "isError", "resultType", "structuredContent"})
"""Fields of a plain result."""


class DirectOrigin(RequestFacts, Protocol):
    """The side of the client: the facts about each of its requests, and the way back."""

    def answer(self, call: DirectCall, result: JSON) -> bool:
        """Answer with a plain result; return whether that was possible."""
        ...

    def make_ordinary(self, call: DirectCall) -> None:
        """Start the ordinary call."""
        ...

    def release(self, call: DirectCall) -> None:
        """Stop counting the call: an ordinary call counts instead."""
        ...


class DirectRoute(Protocol):
    """The side of the server: one tool of one source."""

    @property
    def target(self) -> tuple[Source, str]:
        """The source, and its name of the tool. The call stays with it, whatever the catalog has later; the source may
        still refuse the call."""
        ...

    @property
    def source(self) -> Source:
        """The source that works on the call: that of `target`, or the one inside of a composed one."""
        ...

    @property
    def deadline(self) -> float:
        """Seconds after which the source gives up a call; a route that gives up within `quick_answer` is not used."""
        ...

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Send the request, now or when its turn comes; return whether that is possible."""
        ...

    def plain_result(self, response: JSON) -> JSON | None:
        """Return the result of a response if it can be passed on as it is, without the fields of its connection."""
        ...

    def answered(self, call: DirectCall, now: float) -> None:
        """Stop counting the call, which was answered at that time of `time.monotonic`."""
        ...

    def release(self, call: DirectCall) -> None:
        """Stop counting the call: an ordinary call counts instead."""
        ...

    def abandon(self, call: DirectCall) -> None:
        """Notify the server that nobody waits for the response any more, or do not send the request at all."""
        ...


@runtime_checkable
class OffersDirect(Protocol):
    """Optional for a source: calls of its tools can be direct."""

    def direct_tool(self, name: str) -> DirectRoute | None:
        """Return the way to a tool, by its published name; `None` if its calls have to be looked at on their way."""
        ...


class DirectCall:
    """One call. Waits in `in_flight.SentRequests` for its response, like a future.

    Args:
        message: The request, as it was read.
        size: Bytes of the request.
        place: The place where the client is answered; it belongs to the origin.
        began: The time of `time.monotonic` when the request was read.
    """

    __slots__ = (
        "_is_done",
        "_waiter",
        "began",
        "cancellation",
        "connection",
        "error",
        "id",
        "is_adopted",
        "is_ordinary",
        "is_taken",
        "is_unsent",
        "is_withdrawn",
        "message",
        "number",
        "origin",
        "place",
        "reasons",
        "response",
        "route",
        "size",
        "target",
    )

    def __init__(
        self, origin: DirectOrigin, route: DirectRoute, message: JSON, size: int, place: Any, began: float
    ) -> None:
        self.origin = origin
        self.route = route
        self.message = message
        self.size = size
        self.place = place
        self.began = began
        self.id: int | str = message["id"]
        self.target: tuple[str, str] = "tools/call", str(message["params"]["name"])
        """Its method, and the public name of the tool."""
        self.number = 0
        """The id of the request to the server."""
        self.connection: Any = None
        """The things that the route keeps about the call, such as the connection that the request was sent on."""
        self.response: JSON | None = None
        """The response, once an ordinary call has to look at it."""
        self.error: Exception | None = None
        self._is_done = False
        self.is_ordinary = False
        """Whether an ordinary call was started for it."""
        self.is_unsent = False
        """Whether the request waits for its turn, and was not sent yet."""
        self.is_withdrawn = False
        """Whether it was never sent: the ordinary call makes it."""
        self.is_taken = False
        """Whether the ordinary call counts on the side of the client."""
        self.is_adopted = False
        """Whether it no longer counts on the side of the server."""
        self.reasons: list[str | None] = []
        """The reasons of cancellations that came before the ordinary call did; the first one counts."""
        self.cancellation: Cancellation | None = None
        """The one that the work of the source knows, if it knows any."""
        self._waiter: asyncio.Future[None] | None = None

    # As a future

    def done(self) -> bool:
        """Return whether an ordinary call can have the response, or the reason why there is none."""
        return self._is_done

    def set_result(self, response: JSON) -> None:
        """Take the response: answer the client, or leave it to the ordinary call."""
        if not self.is_ordinary:
            result = self.route.plain_result(response)
            if result is not None and self.origin.answer(self, result):
                return
        self.response = response
        self._settle()

    def set_exception(self, error: Exception) -> None:
        """Take the reason why there will be no response."""
        self.error = error
        self._settle()

    def exception(self) -> BaseException | None:
        """Return the reason why there will be no response."""
        return self.error

    # As an ordinary call

    def cancel(self, reason: str | None) -> None:
        """Cancel the request: its client does not want the answer any more."""
        self.reasons.append(reason)
        self.make_ordinary()

    def make_ordinary(self) -> None:
        """Start the ordinary call. Does nothing if it was started."""
        if self.is_ordinary:
            return
        self.is_ordinary = True
        if self.is_unsent:  # then there is nothing to adopt
            self.is_withdrawn = self.is_adopted = True
            self.route.abandon(self)
        self.origin.make_ordinary(self)

    def take(self) -> None:
        """Note that an ordinary call counts on the side of the client from now on, or that there will be none."""
        if not self.is_taken:
            self.is_taken = True
            self.origin.release(self)

    def adopt(self) -> None:
        """Note that the ordinary call counts on the side of the server from now on."""
        if not self.is_adopted:
            self.is_adopted = True
            self.route.release(self)

    def dismiss(self, _: object = None) -> None:
        """End the call where no ordinary call has taken it over; the server is notified."""
        self.take()
        if not self.is_adopted:
            self.route.abandon(self)
            self.adopt()

    async def wait(self) -> JSON:
        """Wait for the response; raise the reason if there will be none."""
        if not self.done():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # the traceback leads back to the call
        assert self.response is not None
        return self.response

    def _settle(self) -> None:
        self._is_done = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self.make_ordinary()


def plain_result(response: JSON) -> JSON | None:
    """Return the result of a response if it is plain: blocks of text, perhaps with structured content, and no failure.

    `resultType` is left out.
    """
    try:
        result: JSON = response["result"]
        content: Any = result["content"]
        for block in content:
            if block["type"] != "text" or type(block["text"]) is not str or len(block) != 2:
                return None
    except (KeyError, TypeError, IndexError):
        return None
    if type(content) is not list or not content or "error" in response:
        return None
    return result if len(result) == 1 else _with_known_fields(result)


def _with_known_fields(result: JSON) -> JSON | None:
    if not _FIELDS.issuperset(result) or result.get("isError", False) is not False:
        return None
    if "structuredContent" in result and type(result["structuredContent"]) is not dict:
        return None
    if "resultType" not in result:
        return result
    if result["resultType"] != "complete":
        return None
    return {key: result[key] for key in result if key != "resultType"}


def direct_of(request: object) -> DirectCall | None:
    """Return the direct call that a request takes over; `None` if there is none, or it was never sent."""
    direct = getattr(request, "direct", None)
    return direct if isinstance(direct, DirectCall) and not direct.is_withdrawn else None


def begun_by(source: Source, request: object) -> DirectCall | None:
    """Return the direct call that a request takes over, if that is a call of this source."""
    direct = direct_of(request)
    return direct if direct is not None and direct.route.source is source else None
