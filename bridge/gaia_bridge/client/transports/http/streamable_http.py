"""Streamable HTTP: every message is a POST of its own, and the answer to it one JSON object or an event stream.

Up to 2025-11-25 the server may keep a session, send messages in a standing stream, and allow broken streams to be
resumed; since 2026-07-28 there are only requests and their streams (MCP, basic/transports).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio

from gaia_bridge.client.transport import Receiver, SessionExpiredError, UpstreamError
from gaia_bridge.client.transports.budgets import FloodError
from gaia_bridge.client.transports.http.answers import (
    EVENT_STREAM,
    JSON_TYPE,
    SESSION,
    error_response,
    is_stream,
    is_transient,
    knows_no_session,
    may_know_no_session,
    messages_of,
    session_of,
)
from gaia_bridge.client.transports.http.http1 import Watcher
from gaia_bridge.client.transports.http.http_client import BrokenOffError, HttpClient, HttpReply, Posted
from gaia_bridge.client.transports.http.http_link import HttpLink, HttpTransport
from gaia_bridge.client.transports.http.http_values import retry_after
from gaia_bridge.client.transports.http.sse_parser import EventReader, OversizedEventError
from gaia_bridge.client.transports.json_rpc import encoded_message, is_response, response_to
from gaia_bridge.protocol.headers import METHOD_HEADER, REVISION_HEADER, encoded_value, name_header
from gaia_bridge.protocol.meta import PROTOCOL_VERSION_KEY
from gaia_bridge.protocol.revisions import is_modern
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON, value_at

logger = logging.getLogger(__name__)

_ACCEPTED: Final = f"{JSON_TYPE}, {EVENT_STREAM}"
_CHECK_ID: Final = 2**31 - 1
"""The id of the link's own pings; the ids of other requests stay below."""
_USABLE_ID: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?")
"""Event ids that a header carries unchanged; the limit of the length is ours."""
_DOUBLINGS: Final = 10


class _StreamableHttpLink(HttpLink):
    """A link over Streamable HTTP."""

    def __init__(self, http: HttpClient, receiver: Receiver, limits: UpstreamLimits) -> None:
        super().__init__(http, receiver, limits)
        self._revision: str | None = None
        self._session: str | None = None
        self._standing: asyncio.Event | None = None

    def agree(self, revision: str) -> None:
        """Set the agreed protocol revision, which later messages follow."""
        self._revision = revision

    async def request(
        self, message: JSON, headers: Mapping[str, str] | None = None, posted: Posted | None = None
    ) -> JSON:
        """Send a request and wait for its response. See `HttpLink.request`; header values have to be encoded."""
        modern = self._is_modern(message)
        with self._until_closed():
            try:
                if posted is None:
                    reply = await self._post(message, {**(headers or {}), **self._headers_of(message, modern)})
                else:
                    reply = await self._http.reply_to(posted)
                response = await self._answer(message, reply, resumable=not modern)
                if self._session is not None and may_know_no_session(response):
                    await self._check_session()
            except asyncio.CancelledError:
                self.withdraw(message)
                raise
            return response

    def post_at_once(self, message: JSON, headers: Mapping[str, str], watcher: Watcher) -> Posted | None:
        """Send a request; see `HttpLink.post_at_once`."""
        fields = {"content-type": JSON_TYPE, **headers, **self._headers_of(message, self._is_modern(message))}
        return self._http.post(fields, encoded_message(message), watcher)

    def withdraw(self, message: JSON) -> None:
        """Notify the server that nobody waits any more; since 2026-07-28, closing the connection does that."""
        if not self._is_modern(message):
            self._tell_cancelled(message, self._own_headers())

    async def _tell(self, message: JSON) -> None:
        modern = self._is_modern(message)
        await self._deliver(message, self._headers_of(message, modern))
        if not modern and message.get("method") == "notifications/initialized" and self._standing is None:
            standing = self._standing = asyncio.Event()
            self.spawn(self._stand(standing)).add_done_callback(lambda _: standing.set())
            # Messages of the server before the stream is open are lost, also its questions about our next request.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.standing_timeout):
                    await standing.wait()

    # What is sent

    def _is_modern(self, message: JSON) -> bool:
        revision = self._revision if self._revision is not None else _named_revision(message)
        return revision is not None and is_modern(revision)

    def _headers_of(self, message: JSON, modern: bool) -> dict[str, str]:
        """Return the headers that repeat parts of the body."""
        method = message.get("method")
        if method == "initialize":
            return {"accept": _ACCEPTED}
        headers = self._own_headers()
        if not modern:
            return headers
        headers[REVISION_HEADER] = _named_revision(message) or self._revision or ""
        if isinstance(method, str):
            headers[METHOD_HEADER] = encoded_value(method)
            headers |= name_header(message)
        return headers

    def _own_headers(self, accept: str = _ACCEPTED) -> dict[str, str]:
        headers = {"accept": accept}
        if self._session is not None:
            headers[SESSION] = self._session
        if self._revision is not None:
            headers[REVISION_HEADER] = self._revision
        return headers

    # What comes back

    async def _answer(self, message: JSON, reply: HttpReply, resumable: bool) -> JSON:
        request_id: int = message["id"]
        response: JSON | None
        try:
            if not reply.ok:
                response = await self._rejected(request_id, reply)
            else:
                if message["method"] == "initialize":
                    self._session = session_of(reply)
                if reply.content_type == EVENT_STREAM:
                    return await self._streamed(request_id, reply, resumable)
                response = self._sifted(await messages_of(reply, self._words_of), request_id)
        except BaseException:
            await reply.close()
            raise
        await self._finish(reply)
        if response is None:
            raise UpstreamError("answered with what is no JSON-RPC response")
        return response

    def _sifted(self, parts: list[JSON], request_id: int | None) -> JSON | None:
        """Pass on all messages but responses; return the response to a request; an error if one is to another."""
        response: JSON | None = None
        for message in parts:
            if not is_response(message):
                self._receiver.message(message, request_id)
            elif request_id is not None and response is None:
                response = response_to(request_id, message)
        return response

    async def _rejected(self, request_id: int, reply: HttpReply) -> JSON:
        """Return the JSON-RPC error of a response with an error status.

        An error is raised for one about our session, for a status alone, and for authorization or a later retry.
        """
        response = await error_response(request_id, reply)
        if self._session is not None and await knows_no_session(reply, response):
            raise self._expired()
        if response is None or reply.status == 401 or "retry-after" in reply.headers:
            raise await self._refused(reply)
        return response

    async def _streamed(self, request_id: int, reply: HttpReply | None, resumable: bool) -> JSON:
        """Read the response from an event stream. If that breaks, a legacy server may continue in another one."""
        position = StreamPosition(self._limits)
        resumes = 0
        while True:
            if reply is not None:
                try:
                    return await self._hear(reply, position, request_id)
                except BrokenOffError:
                    if not (resumable and position.is_resumable):
                        raise
            if resumes == self._limits.resumes:
                raise BrokenOffError(f"its event stream ended; {resumes} attempts to take it up again were in vain")
            resumes += 1
            await asyncio.sleep(position.pause())
            reply = await self._resumed(position)

    async def _resumed(self, position: StreamPosition) -> HttpReply | None:
        """Open the stream that continues from a position, or return `None` if there is none for the moment."""
        try:
            reply = await self._open_stream(position)
        except UpstreamError:
            return None
        if is_stream(reply):
            return reply
        await self._turned_away(reply, position)
        if is_transient(reply.status):
            return None
        raise BrokenOffError(f"its event stream ended, and taking it up again was refused with HTTP {reply.status}")

    async def _open_stream(self, position: StreamPosition) -> HttpReply:
        return await self._http.send("GET", {**self._own_headers(EVENT_STREAM), **position.headers}, insist=False)

    async def _turned_away(self, reply: HttpReply, position: StreamPosition) -> None:
        position.put_off(retry_after(reply.headers.get("retry-after")))
        await reply.close()

    async def _hear(self, reply: HttpReply, position: StreamPosition, request_id: int | None) -> JSON:
        """Pass on the messages of a stream until the response to a request; with `None`, until it ends."""
        stream = self._events_of(reply)
        try:
            while (event := await stream.next()) is not None:
                if event.type != "message":
                    continue
                parts = self._messages_in(event.data, request_id)
                position.messages += len(parts)
                response = self._sifted(parts, request_id)
                if response is not None:
                    await self._finish(reply)
                    return response
            raise BrokenOffError("its event stream ended")
        except OversizedEventError as error:
            await reply.close()
            raise UpstreamError(f"sent {error}") from None
        except BaseException:
            await reply.close()
            raise
        finally:
            position.note(stream)

    # The standing stream, and the session

    async def _stand(self, answered: asyncio.Event) -> None:
        """Keep a stream open for the server's own messages, for as long as it offers one.

        `answered` is set when the server has answered for the first time, or could not be reached.
        """
        clock = asyncio.get_running_loop().time
        position = StreamPosition(self._limits)
        failures = 0
        offered = False
        while self._lost is None:
            began, heard = clock(), position.messages
            try:
                reply = await self._open_stream(position)
                answered.set()
                if is_stream(reply):
                    offered = True
                    await self._hear(reply, position, None)
                await self._turned_away(reply, position)
                if not is_transient(reply.status):
                    if offered and reply.status in (404, 410) and self._session is not None:
                        self._expired()
                    return
            except FloodError as error:
                self._give_up(str(error))
                return
            except UpstreamError as error:
                answered.set()
                logger.debug("the standing stream: the server %s", error)
            lively = position.messages > heard or clock() - began >= self._limits.retry_cap
            failures = 0 if lively else failures + 1
            await asyncio.sleep(position.pause(failures))

    async def _check_session(self) -> None:
        """End the link if the server answers a ping with an error about the session, too.

        The request that failed is not repeated, since the server may have done the work; the next one is made in a new
        session.
        """
        ping: JSON = {"jsonrpc": "2.0", "id": _CHECK_ID, "method": "ping"}
        with suppress(UpstreamError), anyio.move_on_after(self._limits.ping_timeout):
            reply = await self._post(ping, self._own_headers())
            if may_know_no_session(await self._answer(ping, reply, resumable=False)):
                self._expired()

    async def _refused(self, reply: HttpReply) -> UpstreamError:
        if reply.status in (404, 410) and self._session is not None:
            return self._expired()
        return await super()._refused(reply)

    def _expired(self) -> SessionExpiredError:
        """End the link, since the session is over; return the error."""
        if not isinstance(self._lost, SessionExpiredError):
            self._lost = SessionExpiredError()
            self._receiver.ended(str(self._lost))
        return SessionExpiredError()

    async def _say_farewell(self) -> None:
        if self._session is None or isinstance(self._lost, SessionExpiredError):
            return
        try:
            reply = await self._http.send("DELETE", self._own_headers(), insist=False)
        except UpstreamError as error:
            logger.debug("ending the session: the server %s", error)
        else:
            await reply.close()


class StreamableHttpTransport(HttpTransport):
    """The transport to a server over Streamable HTTP; created like `HttpTransport`.

    Opening a link sends nothing: the first request shows whether the server is reachable.
    """

    link_type = _StreamableHttpLink


def _named_revision(message: JSON) -> str | None:
    """Return the revision in a message's `_meta`, as messages have it since 2026-07-28."""
    revision = value_at(message, "params", "_meta", PROTOCOL_VERSION_KEY)
    return revision if isinstance(revision, str) and is_modern(revision) else None


class StreamPosition:
    """The position in an event stream up to which everything was received."""

    def __init__(self, limits: UpstreamLimits) -> None:
        self.messages = 0
        self._limits = limits
        self._last_id = ""
        self._retry = 0.0
        self._put_off = 0.0

    @property
    def is_resumable(self) -> bool:
        """Whether the server has set a usable event id, from which it can continue."""
        return bool(_USABLE_ID.fullmatch(self._last_id))

    @property
    def headers(self) -> dict[str, str]:
        """The header that asks the server to continue from here; empty without an event id."""
        return {"last-event-id": self._last_id} if self.is_resumable else {}

    def note(self, stream: EventReader) -> None:
        """Keep the event id and the retry time of a stream for the next one."""
        self._last_id = stream.parser.last_id or self._last_id
        self._retry = self._retry if stream.parser.retry is None else stream.parser.retry
        self._put_off = 0.0

    def put_off(self, retry_after: float | None) -> None:
        """Delay the next request for a stream, after an answer that was no stream; its `Retry-After` is in seconds."""
        self._put_off = min(retry_after or 0.0, self._limits.retry_after_cap)

    def pause(self, failures: int = 0) -> float:
        """Return the seconds to wait before the stream is requested again; each failure in a row doubles them."""
        floor = self._limits.retry_floor * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS)
        return max(min(max(self._retry, floor), self._limits.retry_cap), self._put_off)
