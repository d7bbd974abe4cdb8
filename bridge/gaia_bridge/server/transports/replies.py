"""The answer to a request over HTTP: plain JSON where it comes soon and alone, else the end of an event stream."""

from __future__ import annotations

import asyncio

from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.codes import REQUEST_CANCELLED
from gaia_bridge.protocol.messages import encoded_error
from gaia_bridge.server.call import Call
from gaia_bridge.server.dispatcher import Answer
from gaia_bridge.server.transports.event_stream import EventStream


def never_empty(call: Call, answer: Answer) -> Answer:
    """An answer as it is sent over HTTP, where a cancelled request is answered too.

    In the handshake era, a stream ends with a response; later, whoever cancels a request has left.
    """
    if answer.body:
        return answer
    return Answer(encoded_error(call.id, ProtocolError(REQUEST_CANCELLED, "Request cancelled")), REQUEST_CANCELLED)


class Reply:
    """What comes of one request.

    Args:
        stream: Carries what is said before the answer, and the answer after it.
    """

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.answer: Answer | None = None
        """The answer, where nothing was said before it."""
        self._waiter: asyncio.Future[None] | None = None
        stream.on_open = self.wake

    async def take(self, call: Call, answer: Answer) -> None:
        """The request is answered."""
        if not answer.body:
            answer = never_empty(call, answer)
        if self.stream.is_open:
            self.stream.finish(answer.body)
        else:
            self.answer = answer
            self.wake()

    async def first(self, patience: float | None) -> bool:
        """Wait for what comes first: the answer, or something that is said before it.

        Args:
            patience: Seconds; `None` to wait for ever.

        Returns:
            Whether there is anything yet. `wake` ends the waiting early.
        """
        if self.answer is None and not self.stream.is_open:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = None if patience is None else loop.call_later(patience, self.wake)
            try:
                await self._waiter
            finally:
                if timer is not None:
                    timer.cancel()
        return self.answer is not None or self.stream.is_open

    def close(self) -> None:
        """Hold on to nothing: an answer may be large, and must not wait for the garbage collector."""
        self.stream.on_open = None
        self.answer = None

    def wake(self) -> None:
        """Wait no longer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
