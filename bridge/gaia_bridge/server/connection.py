"""One client, however it is connected: the facts about it, its requests, and our requests to it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

from gaia_bridge.calls.in_flight import ReceivedRequests, SentRequests
from gaia_bridge.calls.progress import Receive, Reports, pass_on
from gaia_bridge.errors import AnswerError, ProtocolError
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.protocol.messages import encoded_notification, encoded_request
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

DEFAULT_LOG_LEVEL: Final = "info"
"""The level that a client of the handshake era is sent before it sets one; the specification leaves it open."""


class Channel(Protocol):
    """A stream of messages to a client."""

    @property
    def can_ask(self) -> bool:
        """Whether the client's answers to questions on this channel come back."""
        ...

    def send(self, message: bytes, /) -> Coroutine[Any, Any, None]:
        """Send one message; waits while the client is slow to read. A message that nobody reads any more is dropped."""
        ...

    def end(self) -> None:
        """Close the stream where the client can resume it, so that it comes back for the rest."""
        ...


Send = Callable[[bytes], Coroutine[Any, Any, None]]
"""A function that sends one message."""


class PlainChannel:
    """A channel whose stream no client can resume: implements `Channel`."""

    def __init__(self, send: Send, *, can_ask: bool = True) -> None:
        self.send = send
        self.can_ask = can_ask

    def end(self) -> None:
        """Do nothing: the stream cannot be resumed."""


async def _drop(message: bytes) -> None:
    pass


NOWHERE: Final = PlainChannel(_drop, can_ask=False)
"""The channel of a client that has none, or has one no longer."""


class ClientConnection:
    """One client: of the handshake era a session, later a stream, or a single request.

    Args:
        standing: Carries the messages that belong to none of the client's requests.
        revision: The client's revision, where it is known; agreed on in the handshake otherwise.
        asked: The largest id of a request that it was sent before: those of this connection are larger.
        client_folder: The folder that the client was started in, if it is a program of this user.
        is_shared: Whether it carries requests of several clients, as an agent's connection does.
    """

    def __init__(
        self,
        standing: Channel,
        revision: str | None = None,
        *,
        asked: int = 0,
        client_folder: str | None = None,
        is_shared: bool = False,
    ) -> None:
        self.standing = standing
        self.is_shared = is_shared
        self.client_folder = client_folder
        self.revision = revision or LATEST_HANDSHAKE
        self.initialize_result: JSON | None = None
        """The params of the client's `initialize`."""
        self.is_greeted = revision is not None
        """Whether it may send other requests: its handshake was answered, or it needs none."""
        self.is_initialized = False
        """Whether it has announced that its handshake is complete."""
        self.cut: Callable[[], None] | None = None
        """Ends its stream, if all its answers go on one stream that can be ended."""
        self.sent_capabilities: JSON | None = None
        """The capabilities that the client was sent; `None` before that."""
        self.log_level = DEFAULT_LOG_LEVEL
        self.received = ReceivedRequests()
        """The requests of the client that are not answered yet."""
        self._last_id = asked
        self._when_closed: list[Callable[[], None]] = []
        self._aside: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def key(self) -> str:
        """A secret of this connection, made when it is first needed, in any thread."""
        # One step, so that two threads get the same.
        made: str = self.__dict__.setdefault("_key", secrets.token_hex(16))
        return made

    @property
    def client_info(self) -> JSON:
        """The client's name and version from the handshake; empty if there was none."""
        return {} if self.initialize_result is None else self.initialize_result["clientInfo"]

    @property
    def client_capabilities(self) -> JSON:
        """The capabilities that the client declared in the handshake; empty if there was none."""
        return {} if self.initialize_result is None else self.initialize_result["capabilities"]

    # Requests to the client. Most are asked nothing, and have no tables for that.

    @cached_property
    def _sent(self) -> SentRequests:
        return SentRequests()

    @cached_property
    def _progress(self) -> dict[int, Receive]:
        return {}

    async def ask(self, channel: Channel, method: str, params: JSON, reports: Reports | None) -> JSON:
        """Ask the client, and return the result of its answer.

        Args:
            reports: Receives the client's progress, where anybody wants it.

        Raises:
            AnswerError: It cannot be asked, refused, or is gone.
        """
        if not channel.can_ask:
            raise AnswerError(f"{method}: this connection has no way back to the client")
        if self._closed:
            raise AnswerError(f"{method}: the client is gone")
        self._last_id += 1
        number = self._last_id
        answer = self._sent.add(number)
        if reports is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), meta.PROGRESS_TOKEN_KEY: number}}
            self._progress[number] = lambda report: self._run_aside(reports(report))
        try:
            await channel.send(encoded_request(number, method, params or None))
            return _result_of(await answer)
        except ProtocolError as error:
            raise AnswerError(f"the client refused {method}: {error.message}", error) from error
        except asyncio.CancelledError:
            taken_back = {"requestId": number, "reason": "the answer is no longer needed"}
            self._run_aside(channel.send(encoded_notification("notifications/cancelled", taken_back)))
            await asyncio.sleep(0)  # it goes out before the answer, with which the stream may end
            raise
        finally:
            self._sent.forget(number)
            self._progress.pop(number, None)

    def answered(self, message: JSON) -> None:
        """Take a response. One that answers no open question is dropped."""
        if not self._sent.resolve(message.get("id"), message):
            logger.debug("a response came to no open question: %r", message.get("id"))

    def progressed(self, params: Mapping[str, Any]) -> None:
        """Pass on the client's progress with the answer to a question."""
        pass_on(params, self._progress.get)

    # The end.

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection ends; at once if it has."""
        if self._closed:
            callback()
        else:
            self._when_closed.append(callback)

    def close(self) -> None:
        """End the connection, because the client is gone: open questions fail, and its requests are cancelled."""
        self._closed = True
        self.received.cancel_all()
        if "_sent" in self.__dict__:  # else no question was ever asked, and the table is not made for this
            self._sent.fail(ProtocolError(INTERNAL_ERROR, "the client is gone"))
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("the end of a connection was not taken well")

    def _run_aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that nobody waits for; the event loop itself keeps no task alive."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


def _result_of(response: JSON) -> JSON:
    """Return the result of a response; raise the error that it has instead, however malformed."""
    if is_object(result := response.get("result")):
        return result
    error: Any = response.get("error")
    error = error if is_object(error) else {}
    code, message = error.get("code"), error.get("message")
    code, message = code if isinstance(code, int) else INTERNAL_ERROR, message if isinstance(message, str) else ""
    raise ProtocolError(code, message, error.get("data"))
