"""Streamable HTTP up to 2025-11-25: sessions, streams that can be resumed, batches (basic/transports)."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

from gaia_bridge.protocol.codes import INVALID_PARAMS, INVALID_REQUEST
from gaia_bridge.protocol.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    encoded,
    encoded_error,
    is_request,
    too_many_sessions,
    unexpected_batch,
)
from gaia_bridge.protocol.parameters import parameter_problem
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE, UNSTATED_REVISION
from gaia_bridge.server.call import Call
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.server.transports.event_stream import EventStream, never_empty
from gaia_bridge.server.transports.http_direct import HttpDirectClient
from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.server.transports.sessions import SESSION_HEADER, Session, Sessions
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.json_types import JSON, is_array, is_object

logger = logging.getLogger(__name__)

_ALLOWED: Final = [(b"allow", b"GET, POST, DELETE")]
_NO_SESSION: Final = Refusal(INVALID_REQUEST, "Bad Request: Missing session ID")
_NO_HANDSHAKE: Final = Refusal(
    INVALID_REQUEST,
    f"{_NO_SESSION.message}. A session begins with 'initialize'; single calls without one go to POST / of this bridge.",
)
"""The answer to people with curl and the like that begin with a call."""


_NOT_ACCEPTED: Final = Refusal(
    INVALID_REQUEST, "Not Acceptable: Client must accept application/json or text/event-stream, better both"
)
_NO_EVENTS: Final = Refusal(INVALID_REQUEST, "Not Acceptable: Client must accept text/event-stream")


class HandshakeHttp:
    """One endpoint, for clients with sessions."""

    def __init__(self, dispatcher: Dispatcher, limits: HttpLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self.sessions = Sessions(limits)

    async def __call__(self, exchange: HttpExchange) -> None:
        """Answer one request."""
        identity = exchange.headers.get(SESSION_HEADER)
        session = None if identity is None else self.sessions.get(identity)
        if session is None and exchange.direct is not None and isinstance(exchange.direct.origin, HttpDirectClient):
            session = exchange.direct.origin.session  # which has ended since the call began, and cancelled it
        if exchange.method not in ("GET", "POST", "DELETE"):
            await exchange.refuse(Refusal(INVALID_REQUEST, "Method Not Allowed"), 405, _ALLOWED)
        elif session is not None:
            session.was_used = True
            session.open += 1
            try:
                if exchange.method == "POST":
                    await self._post(session, exchange)
                elif exchange.method == "GET":
                    await self._listen(session, exchange)
                else:
                    self.sessions.end(session)
                    await exchange.nothing(200, session.named)
            finally:
                session.leave(time.monotonic())
        elif identity is not None:
            await exchange.refuse(Refusal(INVALID_REQUEST, "Session not found"), 404)
        elif exchange.method == "POST":
            await self._first(exchange)
        elif exchange.method == "GET" and not exchange.accepts[1]:
            await exchange.refuse(_NO_EVENTS, 406)
        else:
            await exchange.refuse(_NO_SESSION)

    async def _first(self, exchange: HttpExchange) -> None:
        """Answer a message without a session; only a handshake is served."""
        message = exchange.content
        if not any(exchange.accepts):
            await exchange.refuse(_NOT_ACCEPTED, 406)
        elif is_array(message):
            await exchange.refuse(unexpected_batch())
        elif is_object(message) and message.get("method") == "initialize" and is_request(message):
            await self._open(exchange, message)
        else:
            await exchange.refuse(_NO_HANDSHAKE)

    async def _open(self, exchange: HttpExchange, message: JSON) -> None:
        """Answer `initialize`. Other messages open no session, and a handshake that fails leaves nothing behind."""
        if problem := self._handshake_problem(message):
            await exchange.refuse(problem)
        elif self.sessions.is_full:
            retry = [(b"retry-after", b"%d" % self._limits.retry_after)]
            await exchange.refuse(too_many_sessions(message["id"]), 503, retry)
        else:
            with self.sessions.opening() as session:
                # This answer is short: its stream need not be resumed, and clients complain of an event without data.
                stream = EventStream(None, self._limits.stream_messages)
                await self._answer(session, stream, exchange, message, opens=True)

    def _handshake_problem(self, message: JSON) -> Refusal | None:
        if problem := parameter_problem("initialize", message.get("params"), modern=False):
            return Refusal(INVALID_PARAMS, problem, message["id"])
        size, most = len(encoded(message["params"])), self._limits.handshake_bytes
        if size <= most:
            return None
        # It is kept as long as the session is, many times its size.
        asked = f"The params of initialize have {size:,} bytes; expected at most {most:,}. Declare less."
        return Refusal(INVALID_PARAMS, asked, message["id"])

    async def _post(self, session: Session, exchange: HttpExchange) -> None:
        message = exchange.content
        if not any(exchange.accepts):
            await exchange.refuse(_NOT_ACCEPTED, 406, session.named)
        elif is_array(message):
            await self._batch(session, exchange, message)
        elif "method" in message and "id" in message:
            await self._answer(session, session.stream(), exchange, message)
        else:
            self._dispatcher.notified(session.connection, message)
            await exchange.nothing(202, session.named)

    async def _answer(
        self, session: Session, stream: EventStream, exchange: HttpExchange, message: JSON, *, opens: bool = False
    ) -> None:
        """Answer one request; the work goes on when the client leaves, which may come back for the rest.

        Args:
            opens: Whether the session is kept once this is answered, if it was a handshake.
        """
        direct, calls = exchange.direct, self._dispatcher.direct
        call = Call(session.connection, stream, message, exchange.size, direct=direct)
        json, events = exchange.accepts
        if not events:
            call.channel = NOWHERE  # messages before the answer have no place in plain JSON
        reader = stream.reader
        answered = partial(self._opened, session, stream, call) if opens else partial(stream.take, call)
        self._dispatcher.begin(call, answered)
        try:
            if json:
                patience = self._limits.quick_answer
                if direct is not None:
                    patience = max(0.0, direct.began + patience - time.monotonic())
                await stream.first(patience if events else None)
            if (answer := stream.answer) is not None:
                # A handshake that failed has opened no session.
                named = session.named if session.connection.is_greeted else None
                await exchange.json(answer.body, 200, named)
                is_first = direct is None and call.method == "tools/call" and answer.code is None
                if calls is not None and is_first and exchange.may_be_direct():
                    exchange.pass_on_directly(HttpDirectClient(calls, session.connection, session, modern=False))
            else:
                stream.open()
                await exchange.answer(stream.events(), self._limits.ping_interval, session.named)
        finally:
            stream.left(reader)
            call.sent()

    async def _opened(self, session: Session, stream: EventStream, call: Call, answer: Answer) -> None:
        """Keep a session after its first request was answered, if that was a handshake."""
        if session.connection.is_greeted and not session.is_over:
            self.sessions.add(session)
        await stream.take(call, answer)

    async def _batch(self, session: Session, exchange: HttpExchange, messages: list[Any]) -> None:
        """Serve a batch: each message as if it had come alone, with all answers on one stream."""
        if problem := batch_problem(messages, session.connection.revision, self._limits.batch):
            await exchange.refuse(problem, 400, session.named)
            return
        if not exchange.accepts[1]:
            await exchange.refuse(_NO_EVENTS, 406, session.named)
            return
        logger.info("a batch of %d messages came", len(messages))
        stream, waiting = session.stream(), 0

        async def take(call: Call, answer: Answer) -> None:
            nonlocal waiting
            waiting -= 1
            await stream.send(never_empty(call, answer).body)
            call.sent()
            if not waiting:
                stream.finish(b"")

        for item in messages:  # nothing is answered before all of them were passed on
            if refusal := batched_problem(item):
                stream.put(encoded_error(refusal))  # nobody reads the stream yet, which a longer one would wait for
            elif is_request(item):
                waiting += 1
                call = Call(session.connection, stream, item)
                self._dispatcher.begin(call, partial(take, call))
            else:
                self._dispatcher.notified(session.connection, item)
        if not waiting and not stream.is_open:
            await exchange.nothing(202, session.named)
            return
        if not waiting:
            stream.finish(b"")
        with stream.carried():
            await exchange.answer(stream.events(), self._limits.ping_interval, session.named)

    async def _listen(self, session: Session, exchange: HttpExchange) -> None:
        """Serve the standing stream of a session, or the rest of one that broke."""
        if not exchange.accepts[1]:
            await exchange.refuse(_NO_EVENTS, 406, session.named)
            return
        seen = exchange.headers.get("last-event-id")
        if seen:  # what is empty names no event
            stream, missed = session.replay.after(seen) or (None, [])
        else:
            stream, missed = session.standing, []
            if session.is_listened_to:
                conflict = Refusal(INVALID_REQUEST, "Conflict: Only one SSE stream is allowed per session")
                await exchange.refuse(conflict, 409, session.named)
                return
        if stream is None:  # a gap must not look like a complete replay
            await exchange.answer(_no_events(), self._limits.ping_interval, session.named)
            return
        stream.resume(missed)
        with stream.carried():
            await exchange.stream(stream.events(), self._limits.ping_interval, session.named)

    async def single_call(self, exchange: HttpExchange) -> None:
        """Serve one JSON-RPC message, no batch, with one JSON answer and no session."""
        message = exchange.content
        connection = ClientConnection(NOWHERE, exchange.revision or UNSTATED_REVISION)
        if not is_request(message):
            self._dispatcher.notified(connection, message)
            await exchange.nothing(202)
            return
        if message.get("method") == "initialize":
            message = _introduced(message)
        stream = EventStream(None, self._limits.stream_messages)
        call = Call(connection, NOWHERE, message, exchange.size, exchange.host)  # whose session is none
        self._dispatcher.begin(call, partial(stream.take, call))
        remove = exchange.when_gone(stream.wake)
        try:
            if not exchange.is_gone:
                await stream.first(None)
            if stream.answer is not None:
                await exchange.json(stream.answer.body)
        finally:
            remove()
            connection.close()
            call.sent()
            stream.left(stream.reader)


_UNKNOWN_CLIENT: Final[JSON] = {
    "protocolVersion": LATEST_HANDSHAKE,
    "capabilities": {},
    "clientInfo": {"name": "unknown", "version": "unknown"},
}


def _introduced(message: JSON) -> JSON:
    """Return a handshake that opens no session, with the fields that its client leaves out.

    Nothing will rest on it, and clients of GAIA's bridge leave out everything.
    """
    params: object = message.get("params")
    if params is None or is_object(params):
        return {**message, "params": {**_UNKNOWN_CLIENT, **(params or {})}}
    return message


async def _no_events() -> AsyncGenerator[bytes]:
    return
    yield b""
