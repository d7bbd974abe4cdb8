"""The sessions of Streamable HTTP clients before 2026-07-28: who is let in, who has to give way, who may batch.

Stands in front of the SDK's session manager and sees nothing but requests and responses. A session that nobody uses
gives way to a new client: its owner is told "not found", as after a restart, and shakes hands again.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, InitializeRequestParams
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaia_bridge.inbound.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    error_bytes,
    error_message,
    identifier,
    is_request,
    message_problem,
    negotiated,
    too_many_sessions,
    unexpected_batch,
)
from gaia_bridge.jsontypes import JSON, is_array, is_object
from gaia_bridge.settings import HttpLimits

__all__ = ["SESSION_HEADER", "Sessions", "nowhere", "refused"]

logger = logging.getLogger(__name__)

SESSION_HEADER = "mcp-session-id"

_EVENT = b"event: message\r\ndata: "


class _Session:
    """One session, as far as it was seen.

    Args:
        revision: What was agreed on.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.greeted = False
        """Whether its owner came back after the first request, as those do who read the answer."""
        self._last_used = anyio.current_time()
        self._open = 1

    @property
    def in_use(self) -> bool:
        """Whether a request is being answered or a stream is open."""
        return self._open > 0

    @property
    def worth(self) -> tuple[bool, float]:
        """What is worth least gives way first: handshakes that were never finished, then what was used longest ago."""
        return self.greeted, self._last_used

    def let_go(self) -> None:
        """A request was answered."""
        self._open -= 1
        self._last_used = anyio.current_time()

    @contextmanager
    def used(self) -> Generator[None]:
        """While a request is answered."""
        self.greeted = True
        self._open += 1
        try:
            yield
        finally:
            self.let_go()


class Sessions:
    """Requests of clients with sessions, in front of what serves them.

    Args:
        serve: Serves single requests: what the SDK's manager does.
        limits: How many sessions, how large a handshake, how many messages at once.
    """

    def __init__(self, serve: ASGIApp, limits: HttpLimits) -> None:
        self._serve = serve
        self._limits = limits
        self._known: dict[str, _Session] = {}
        self._opening: set[_Opening] = set()

    def __len__(self) -> int:
        return len(self._known)

    async def __call__(self, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Args:
            content: The decoded body of a POST: a message, or an array.
            scope: The request.
            receive: Yields the body.
            send: Where the answer goes.
        """
        identity = Headers(scope=scope).get(SESSION_HEADER)
        if identity is not None:
            await self._of_session(identity, content, scope, receive, send)
        elif is_array(content):
            await refused(unexpected_batch(), scope, receive, send)
        elif is_object(content) and content.get("method") == "initialize" and is_request(content):
            await self._open_session(content, scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _of_session(self, identity: str, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._known.get(identity)
        if session is None:
            if is_array(content):
                await refused(Refusal(INVALID_REQUEST, "Session not found"), scope, receive, send, 404)
            else:
                await self._serve(scope, receive, send)
            return

        async def watch(message: Message) -> None:
            if _status(message) == 404 or (_status(message) == 200 and scope["method"] == "DELETE"):
                self._known.pop(identity, None)
            await send(message)

        with session.used():
            if is_array(content):
                await self._batch(session, content, scope, receive, watch)
            else:
                await self._serve(scope, receive, watch)

    async def _open_session(self, content: JSON, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `initialize`. What is no handshake opens nothing, and one that fails leaves nothing behind."""
        if problem := self._handshake_problem(content):
            await refused(problem, scope, receive, send)
            return
        if len(self._known) + len(self._opening) >= self._limits.sessions <= self._held:
            await refused(too_many_sessions(content["id"]), scope, receive, send, 503, self._limits.retry_after)
            return
        opening = _Opening(_Session(negotiated(content["params"])), self._known, send)
        self._opening.add(opening)
        try:
            await self._serve(scope, receive, opening.send)
        finally:
            self._opening.discard(opening)
            if opening.identity is not None and not opening.established:
                await self._end(opening.identity, scope)
            await self._make_room(scope)
            opening.session.let_go()

    def _handshake_problem(self, content: JSON) -> Refusal | None:
        try:
            InitializeRequestParams.model_validate(content.get("params") or {}, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = "/".join(map(str, first["loc"]))
            return Refusal(INVALID_PARAMS, f"Invalid params of initialize: /{where}: {first['msg']}", content["id"])
        size, most = len(to_json(content["params"])), self._limits.handshake_bytes
        if size <= most:
            return None
        # It is kept as long as the session is, many times its size.
        asked = f"The params of initialize have {size:,} bytes; expected at most {most:,}. Declare less."
        return Refusal(INVALID_PARAMS, asked, content["id"])

    @property
    def _held(self) -> int:
        """The sessions that cannot give way, and those that are being opened. Looks at every session."""
        opening = sum(opening.identity is None for opening in self._opening)
        return opening + sum(session.in_use for session in self._known.values())

    async def _make_room(self, scope: Scope) -> None:
        """Have those that nobody uses give way to one that was opened. One that fails has cost nobody a session."""
        while len(self._known) > self._limits.sessions:
            idle = [identity for identity, session in self._known.items() if not session.in_use]
            if not idle:
                return
            logger.info("a session that nobody was using gave way to a new client")
            await self._end(min(idle, key=lambda identity: self._known[identity].worth), scope)

    async def _end(self, identity: str, scope: Scope) -> None:
        """End a session as its owner would."""
        self._known.pop(identity, None)
        headers = [(SESSION_HEADER.encode(), identity.encode())]
        with anyio.CancelScope(shield=True):
            await self._serve({**scope, "method": "DELETE", "headers": headers}, _nothing_more, nowhere)

    async def _batch(self, session: _Session, messages: list[Any], scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a batch: each message as if it had come alone, what they are answered on one stream."""
        if problem := batch_problem(messages, session.revision, self._limits.batch):
            await refused(problem, scope, receive, send)
            return
        logger.info("a batch of %d messages came", len(messages))
        batch = _Batch(send)
        if any(_answered(message) for message in messages):
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            batch.open = True
        left = anyio.Event()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            left.set()

        async with anyio.create_task_group() as watching:
            await receive()  # the body, which is known
            watching.start_soon(watch)
            async with anyio.create_task_group() as tasks:
                for message in messages:
                    tasks.start_soon(self._one_of_batch, batch, message, scope, left)
            watching.cancel_scope.cancel()
        if batch.open:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await Response(status_code=202)(scope, receive, send)

    async def _one_of_batch(self, batch: _Batch, message: Any, scope: Scope, left: anyio.Event) -> None:
        if problem := batched_problem(message):
            await batch.say(error_message(problem))
            return
        body: list[Message] = [{"type": "http.request", "body": to_json(message), "more_body": False}]

        async def receive() -> Message:
            if body:
                return body.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        await self._serve(scope, receive, partial(batch.take, identifier(message), MutableHeaders()))


class _Opening:
    """The answer to one `initialize`.

    Args:
        session: What is opened.
        known: The sessions that there are.
        send: Where the answer goes.
    """

    def __init__(self, session: _Session, known: dict[str, _Session], send: Send) -> None:
        self.session = session
        self.identity: str | None = None
        self.established = False
        self._known = known
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        if (status := _status(message)) is not None:
            self.identity = Headers(raw=message["headers"]).get(SESSION_HEADER)
            if status == 200 and self.identity is not None:
                self._known[self.identity] = self.session
        elif data := _data(message["body"]):
            self.established = self.established or (is_object(data) and "result" in data)
        elif message["body"].startswith(b"id:"):
            # A stream that can be resumed begins with an event that has an id and no data. That is for long answers;
            # this one is short, and clients complain of an event that is no message.
            return
        await self._send(message)


class _Batch:
    """The answers to the messages of one batch, on one event stream.

    Args:
        send: Where it goes.
    """

    def __init__(self, send: Send) -> None:
        self.open = False
        self._send = send

    async def take(self, request_id: int | str | None, head: MutableHeaders, message: Message) -> None:
        """A part of the answer to one message."""
        if message["type"] == "http.response.start":
            head.raw.extend(message["headers"])
        elif not (body := message.get("body", b"")):
            pass
        elif head.get("content-type", "").startswith("text/event-stream"):
            await self._write(body)
        elif request_id is not None:
            await self.say({**from_json(body), "id": request_id})

    async def say(self, answer: JSON) -> None:
        """One whole answer."""
        await self._write(_EVENT + to_json(answer) + b"\r\n\r\n")

    async def _write(self, events: bytes) -> None:
        if self.open:
            await self._send({"type": "http.response.body", "body": events, "more_body": True})


async def refused(
    refusal: Refusal,
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int = 400,
    retry_after: int | None = None,
) -> None:
    """Answer a request with a JSON-RPC error.

    Args:
        refusal: The error.
        scope: The request.
        receive: The request.
        send: Where the answer goes.
        status: The HTTP status.
        retry_after: Seconds after which it may be different.
    """
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    await Response(error_bytes(refusal), status, headers, media_type="application/json")(scope, receive, send)


def _answered(message: object) -> bool:
    """Whether a message of a batch is answered, be it by being refused."""
    return message_problem(message) is not None or (is_object(message) and is_request(message))


def _status(message: Message) -> int | None:
    return message["status"] if message["type"] == "http.response.start" else None


def _data(events: bytes) -> Any:
    """The JSON in the last event that has some."""
    for line in reversed(events.splitlines()):
        if line.startswith(b"data: {"):
            return from_json(line[6:])
    return None


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def nowhere(message: Message) -> None:
    """The answer to a request that we made ourselves."""
