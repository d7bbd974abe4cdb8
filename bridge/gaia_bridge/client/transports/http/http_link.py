"""The common base of the two HTTP transports: a client, background tasks that end with the link, last messages."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Final

import anyio
import httpx2

from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.calls.deadlines import Interruptible
from gaia_bridge.calls.in_flight import Waiter
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.client.transports.budgets import Budget
from gaia_bridge.client.transports.http.answers import is_json, knows_no_method
from gaia_bridge.client.transports.http.http1 import Watcher
from gaia_bridge.client.transports.http.http_client import Authorization, HttpClient, HttpReply, Posted
from gaia_bridge.client.transports.http.refusals import words_of
from gaia_bridge.client.transports.http.sse_parser import EventReader
from gaia_bridge.client.transports.json_rpc import (
    NoMessageError,
    cancellation,
    encoded_message,
    is_message,
    messages,
    plain_response,
    request_id_of,
)
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)

_OK: Final = 200


class HttpLink(ABC):
    """Base of the links over HTTP, which own their client. Subclasses implement `transport.Link`."""

    def __init__(self, http: HttpClient, receiver: Receiver, limits: UpstreamLimits) -> None:
        self._http = http
        self._receiver = receiver
        self._limits = limits
        self._lost: ConnectionLostError | None = None
        now = asyncio.get_running_loop().time
        window = limits.garbage_window
        self._idle = Budget(limits.blank_lines, window, now, "lines that carry nothing")
        self._garbage = Budget(limits.garbage_lines, window, now, "events that are no MCP messages")
        self._open_requests: set[Interruptible] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._begun: dict[int, _Begun] = {}
        """The requests that were begun with `begin`, by their ids."""
        self._last_errands: set[asyncio.Task[None]] = set()

    @property
    def error_of_end(self) -> ConnectionLostError:
        """The error of requests that are open when the link ends."""
        return self._lost or ConnectionLostError()

    @property
    def last_words(self) -> str:
        """Always empty: the error output of a server behind HTTP is not visible."""
        return ""

    async def open(self) -> None:  # noqa: B027 - nothing, unless a link says otherwise
        """Prepare the link for the first message."""

    @abstractmethod
    async def request(
        self, message: JSON, headers: Mapping[str, str] | None = None, posted: Posted | None = None
    ) -> JSON:
        """Send a request and wait for its response. See `Link.request`.

        Args:
            posted: The request, if it was sent by `post_at_once`.
        """

    def begin(self, message: JSON, waiter: Waiter, headers: Mapping[str, str] | None) -> bool:
        """Send a request, at once on an idle connection, or in a task of its own. See `DirectLink.begin`."""
        if self._lost is not None:
            return False
        begun = self._begun[message["id"]] = _Begun(self, self._begun, message, waiter, headers or {})
        begun.start()
        return True

    def abandon(self, number: int) -> None:
        """Cancel such a request. See `DirectLink.abandon`."""
        if number in self._begun:
            self._begun.pop(number).abandon()

    def post_at_once(self, message: JSON, headers: Mapping[str, str], watcher: Watcher) -> Posted | None:
        """Send a request whose plain response needs no task, if this link can; see `HttpClient.post`."""
        return None

    def withdraw(self, message: JSON) -> None:  # noqa: B027 - nothing, unless a link says otherwise
        """Notify the server that nobody waits for the response to a request any more."""

    async def notify(self, message: JSON) -> None:
        seconds = self._limits.write_timeout
        with self._until_closed(), anyio.move_on_after(seconds) as patience:
            await self._tell(message)
        if patience.cancelled_caught:
            raise UpstreamError(f"did not take a message within {seconds:g} s")

    @abstractmethod
    async def _tell(self, message: JSON) -> None:
        """Send a message that has no response."""

    @abstractmethod
    def agree(self, revision: str) -> None:
        """Set the agreed protocol revision. See `Link.agree`."""

    async def close(self) -> None:
        """Release everything: open requests fail, last messages are sent within `limits.farewell`."""
        self._lost = self._lost or ConnectionLostError()
        with anyio.CancelScope(shield=True):
            self._interrupt()
            _cancel(self._background - self._last_errands)
            with anyio.move_on_after(self._limits.farewell):
                if self._last_errands:
                    await asyncio.wait(self._last_errands)
                await self._say_farewell()
            remaining = set(self._background)
            _cancel(remaining)
            if remaining:
                await asyncio.wait(remaining)
            await self._http.close()

    async def _say_farewell(self) -> None:  # noqa: B027 - nothing, unless a link says otherwise
        """Send the server a last message, if there is one."""

    async def _post(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> HttpReply:
        return await self._http.send(
            "POST", {"content-type": "application/json", **headers}, encoded_message(message), url
        )

    async def _deliver(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> None:
        """Send a message that has no response; raise `UpstreamError` if the server does not accept it."""
        reply = await self._post(message, headers, url)
        try:
            if not reply.ok and not await knows_no_method(reply):
                raise await self._refused(reply)
        finally:
            await self._finish(reply)

    def _messages_in(self, event: str, request_id: int | None = None) -> list[JSON]:
        """Parse the messages in an event. Empty events and some invalid ones are tolerated.

        Raises:
            FloodError: There are too many empty or invalid events.
            UpstreamError: The event is an unreadable response to the request on whose stream it came, or a batch of
                too many.
        """
        problem = "sent no JSON-RPC message"
        try:
            parts = [message for message in messages(event) if is_message(message)] if event else []
        except UpstreamError as error:
            answered = request_id_of(event.encode("utf-8", "replace"))
            if request_id is not None and (answered == request_id or not isinstance(error, NoMessageError)):
                raise
            parts, problem = [], str(error)
        if not event:
            self._idle.add(1)
        elif not parts:
            logger.debug("an event is left out: the server %s", problem)
            self._garbage.add(1)
        return parts

    def _events_of(self, reply: HttpReply) -> EventReader:
        return EventReader(reply.read, self._limits.message_bytes, self._idle)

    def _give_up(self, reason: str) -> None:
        """End the link, because of the server's behaviour."""
        if self._lost is None:
            self._lost = ConnectionLostError(f"{reason}; whether it did the work is unknown")
            self._receiver.ended(reason)
            self._interrupt()

    def _interrupt(self) -> None:
        """Fail all open requests, since the link is over."""
        for waiting in self._open_requests:
            waiting.interrupt()
        for begun in [*self._begun.values()]:
            begun.interrupt(self.error_of_end)

    async def _words_of(self, reply: HttpReply) -> str:
        """Return the text of a response for people, without secrets."""
        return Redactor(self._http.secrets)(await words_of(reply, self._limits.farewell))

    async def _refused(self, reply: HttpReply) -> UpstreamError:
        """Return the error for a status, with the text of the response."""
        words = await self._words_of(reply)
        if reply.status != 401:
            return reply.refusal(words)
        problem = "does not accept our authorisation" if self._http.authorises else "wants authorisation"
        return UpstreamError(f"{problem} (HTTP 401){words and f': {words}'}")

    @contextmanager
    def _until_closed(self) -> Generator[None]:
        """Interrupt the block as soon as the link is over; raise the error of its end."""
        if self._lost is not None:
            raise self._lost
        waiting = Interruptible()
        self._open_requests.add(waiting)
        try:
            with waiting:
                yield
        finally:
            self._open_requests.discard(waiting)
        if waiting.interrupted:
            raise self.error_of_end

    def _tell_cancelled(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> None:
        """Send the server a cancellation in the background. `initialize` is never cancelled."""
        if message["method"] != "initialize" and self._lost is None:
            errand = self.spawn(self._errand(cancellation(message["id"]), headers, url))
            self._last_errands.add(errand)
            errand.add_done_callback(self._last_errands.discard)

    async def _errand(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None) -> None:
        with anyio.move_on_after(self._limits.farewell):
            try:
                await self._deliver(message, headers, url)
            except UpstreamError as error:
                logger.debug("a server that should know of a cancellation %s", error)

    async def _finish(self, reply: HttpReply) -> None:
        """Close a reply without waiting. If its rest ends soon, the connection is kept."""
        if reply.ended or self._lost is not None:
            await reply.close()
        else:
            reply.finish(self._limits.farewell)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do some work in the background, until the link is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class _Begun:
    """A request that was begun with `HttpLink.begin`. No task waits for a plain response on a connection that was idle.

    A `Watcher` of the response.
    """

    __slots__ = ("_begun", "_cancellation", "_headers", "_link", "_message", "_posted", "_task", "_waiter")

    def __init__(
        self, link: HttpLink, begun: dict[int, _Begun], message: JSON, waiter: Waiter, headers: Mapping[str, str]
    ) -> None:
        self._link = link
        self._begun = begun
        self._message = message
        self._waiter = waiter
        self._headers = headers
        self._posted: Posted | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancellation: Cancellation | None = None

    def start(self) -> None:
        """Send the request."""
        try:
            self._posted = self._link.post_at_once(self._message, self._headers, self)
        except UpstreamError:
            self._posted = None  # the task has the same error
        if self._posted is None:
            self._carry_on()

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return whether a response may be plain; see `Watcher`."""
        return status == _OK and "content-encoding" not in headers and is_json(headers.get("content-type"))

    def ready(self) -> None:
        """Take the response; see `Watcher`."""
        assert self._posted is not None
        number: int = self._message["id"]
        body = self._posted.response.whole
        response = None if body is None else plain_response(body)
        if response is None or response["id"] != number or "result" not in response or "error" in response:
            self._carry_on()
        else:
            del self._begun[number]
            self._waiter.set_result(response)

    def abandon(self) -> None:
        """Cancel the request, for the reason of the request that the calling task works for."""
        if self._cancellation is not None:
            self._cancellation.take_reason()
        elif self._posted is not None:  # no task reads the response, or it has not begun to
            self._posted.response.close()
            self._link.withdraw(self._message)
        if self._task is not None:
            self._task.cancel()

    def interrupt(self, error: UpstreamError) -> None:
        """Fail the request, if no task works on it."""
        if self._task is None:
            del self._begun[self._message["id"]]
            if self._posted is not None:
                self._posted.response.close()
            self._waiter.set_exception(error)

    def _carry_on(self) -> None:
        """Let a task send the request, or read the response to it."""
        self._task = self._link.spawn(self._carry())
        self._task.add_done_callback(self._end)

    async def _carry(self) -> None:
        self._cancellation = Cancellation()
        self._cancellation.enter()
        try:
            response = await self._link.request(self._message, self._headers, self._posted)
        except Exception as error:
            self._waiter.set_exception(error)
        else:
            self._waiter.set_result(response)

    def _end(self, task: asyncio.Task[None]) -> None:
        is_wanted = self._begun.pop(self._message["id"], None) is not None
        if is_wanted and task.cancelled() and not self._waiter.done():  # by `close`
            self._waiter.set_exception(self._link.error_of_end)


class HttpTransport:
    """Base of the transports over HTTP; `auth` authorizes our requests, if the server demands that."""

    link_type: ClassVar[type[HttpLink]]

    def __init__(self, spec: HttpServerSpec, limits: UpstreamLimits, *, auth: Authorization | None = None) -> None:
        self._spec = spec
        self._limits = limits
        self._auth = auth

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link; see `Transport.connect`."""
        link = self.link_type(HttpClient(self._spec, self._limits, self._auth), receiver, self._limits)
        try:
            await link.open()
            yield link
        finally:
            await link.close()


def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
