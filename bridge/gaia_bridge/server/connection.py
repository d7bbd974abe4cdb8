"""One client, however it is connected: what is known of it, what it asked, and what it was asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from gaia_bridge.calls.question_progress import Reports
from gaia_bridge.errors import AnswerError, ProtocolError
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.protocol.encoding import encoded_notification, encoded_request
from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.protocol.shapes import is_identifier

__all__ = ["Cancellable", "Channel", "Connection", "Nowhere"]

logger = logging.getLogger(__name__)

DEFAULT_LOG_LEVEL: Final = "info"
"""What a client of the handshake era is sent before it sets a level; the specification leaves it to the server."""


class Channel(Protocol):
    """A stream of messages to a client."""

    @property
    def can_ask(self) -> bool:
        """Whether the client's answers to what it is asked on it come back."""
        ...

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the client is slow to read. What nobody reads any more goes nowhere."""
        ...

    def end(self) -> None:
        """Close the stream where the client can resume it, so that it comes back for the rest."""
        ...


class Nowhere:
    """The channel of a client that has none: implements `Channel`."""

    can_ask = False

    async def send(self, message: bytes) -> None:
        """Nobody hears it."""

    def end(self) -> None:
        """There is none."""


class Cancellable(Protocol):
    """A request in flight."""

    def cancel(self, reason: str | None) -> None:
        """The client does not want its answer any more."""
        ...


class _Question(NamedTuple):
    """A request to the client that is not answered yet."""

    answer: asyncio.Future[JSON]
    told: Reports | None

    def fail(self, error: ProtocolError) -> None:
        """It will not be answered."""
        self.answer.set_exception(error)
        self.answer.exception()  # whoever asked may be about to give up, and then nobody looks


class Connection:
    """One client: of the handshake era a session, later a stream, or a single request.

    Args:
        standing: Carries what belongs to none of the client's requests.
        revision: What the client speaks, where that is known; agreed on in the handshake otherwise.
    """

    def __init__(self, standing: Channel, revision: str | None = None) -> None:
        self.standing = standing
        self.revision = revision or LATEST_HANDSHAKE
        self.initialize_result: JSON | None = None
        """The params of the client's `initialize`."""
        self.is_greeted = revision is not None
        """Whether it may ask for anything else: its handshake was answered, or it needs none."""
        self.is_initialized = False
        """Whether it has said that its handshake is complete."""
        self.cut: Callable[[], None] | None = None
        """Ends its stream, where all that it is answered goes on one that can be ended."""
        self.told: JSON | None = None
        """The capabilities that it was told."""
        self.log_level = DEFAULT_LOG_LEVEL
        self._in_flight: dict[int | str, Cancellable] = {}
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._when_closed: list[Callable[[], None]] = []
        self._aside: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def client_info(self) -> JSON:
        """How the client introduced itself in the handshake; empty if there was none."""
        return {} if self.initialize_result is None else self.initialize_result["clientInfo"]

    @property
    def client_capabilities(self) -> JSON:
        """What the client declared in the handshake; nothing if there was none."""
        return {} if self.initialize_result is None else self.initialize_result["capabilities"]

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._in_flight

    # Requests of the client.

    def began(self, request_id: int | str, request: Cancellable) -> bool:
        """A request is being worked on.

        Returns:
            Whether it may be: its id must not be that of another one in flight (basic, "Requests").
        """
        return self._in_flight.setdefault(request_id, request) is request

    def ended(self, request_id: int | str, request: Cancellable) -> None:
        """It no longer is; another of the same id, which was refused, leaves it in flight."""
        if self._in_flight.get(request_id) is request:
            del self._in_flight[request_id]

    def cancel(self, request_id: object, reason: object) -> None:
        """The client does not want the answer to one of its requests any more."""
        if not is_identifier(request_id):
            return
        request = self._in_flight.get(request_id)
        if request is None:  # some clients write the digits of a number as text here
            request = next((known for key, known in self._in_flight.items() if str(key) == str(request_id)), None)
        if request is not None:
            request.cancel(reason if isinstance(reason, str) else None)

    # Requests to the client.

    async def ask(self, channel: Channel, method: str, params: JSON, told: Reports | None) -> JSON:
        """Ask the client, and return the result of its answer.

        Args:
            channel: The stream that it is asked on.
            method: The method of the request.
            params: Its parameters.
            told: Hears how far the client is, where anybody wants to know.

        Raises:
            AnswerError: It cannot be asked, refused, or is gone.
        """
        if not channel.can_ask:
            raise AnswerError(f"{method}: this connection has no way back to the client")
        if self._closed:
            raise AnswerError(f"{method}: the client is gone")
        self._asked += 1
        number = self._asked
        question = _Question(asyncio.get_running_loop().create_future(), told)
        self._questions[str(number)] = question
        if told is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), meta.PROGRESS_TOKEN_KEY: number}}
        try:
            await channel.send(encoded_request(number, method, params or None))
            return await question.answer
        except ProtocolError as error:
            raise AnswerError(f"the client refused {method}: {error.message}", error) from error
        except asyncio.CancelledError:
            taken_back = {"requestId": number, "reason": "the answer is no longer needed"}
            self._run_aside(channel.send(encoded_notification("notifications/cancelled", taken_back)))
            await asyncio.sleep(0)  # it is said before the answer, with which the stream may end
            raise
        finally:
            del self._questions[str(number)]

    def answered(self, message: Mapping[str, Any]) -> None:
        """A response came. What answers nothing that is still open is dropped."""
        question = self._questions.get(str(message.get("id")))
        if question is None or question.answer.done():
            logger.debug("a response came to no open question: %r", message.get("id"))
            return
        if is_object(result := message.get("result")):
            question.answer.set_result(result)
            return
        question.fail(_error_of(message.get("error")))

    def progressed(self, params: Mapping[str, Any]) -> None:
        """The client says how far it is with the answer to a question."""
        question = self._questions.get(str(params.get(meta.PROGRESS_TOKEN_KEY)))
        progress, total, message = params.get("progress"), params.get("total"), params.get("message")
        if question is None or question.told is None or not _is_number(progress):
            return
        total = total if _is_number(total) else None
        self._run_aside(question.told(progress, total, message if isinstance(message, str) else None))

    # The end.

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection ends; at once if it has."""
        if self._closed:
            callback()
        else:
            self._when_closed.append(callback)

    def close(self, *, interrupt: bool = True) -> None:
        """The client is gone: nothing is asked or answered any more.

        Args:
            interrupt: Whether what it asked for is given up.
        """
        self._closed = True
        for request in list(self._in_flight.values()) if interrupt else ():
            request.cancel(None)
        for question in self._questions.values():
            if not question.answer.done():
                question.fail(ProtocolError(INTERNAL_ERROR, "the client is gone"))
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("the end of a connection was not taken well")

    def _run_aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for; the event loop itself keeps no task alive."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


def _error_of(error: object) -> ProtocolError:
    """The error of a response, whatever is in it."""
    told = error if is_object(error) else {}
    code, message = told.get("code"), told.get("message")
    return ProtocolError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "",
        told.get("data"),
    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
