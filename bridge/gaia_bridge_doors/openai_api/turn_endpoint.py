"""One request that an agent answers, of any API: its turn is begun, cancelled, logged and ended with the request.

A `TurnExchange` holds the differences between APIs: the request as it was read, and the shape of its answer.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

import anyio
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from gaia_bridge.chat_types import ChatRequest, Piece, Reply
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.json_text import to_json
from gaia_bridge_doors.conversation.errors import ChatError, as_chat_error
from gaia_bridge_doors.conversation.lent_tools import Loan, offered_tools
from gaia_bridge_doors.conversation.models import Model, Models
from gaia_bridge_doors.conversation.tool_request import ChatClients, ToolRequest
from gaia_bridge_doors.conversation.turn import Turn
from gaia_bridge_doors.conversation.turn_log import TurnLog
from gaia_bridge_doors.openai_api.completion_request import SESSION_HEADER, CompletionRequest, session_of


class HttpTurnLog(TurnLog):
    """The log line of a turn for one request over HTTP.

    Args:
        scope: The request.
        send: The channel of its answer.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        client = Headers(scope=scope).get("user-agent", "unknown")
        super().__init__(scope["path"], client, ":".join(map(str, scope.get("client") or ())))
        self._send = send

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)


T = TypeVar("T")

_LINE_END: Final = "\n"
"""The line end of OpenAI's own streams, at which some clients split."""


class Event(NamedTuple):
    """One event of a stream."""

    data: str
    name: str | None = None


class TurnExchange(Protocol):
    """One request, and the shape of its answer."""

    @property
    def asked(self) -> CompletionRequest:
        """The contents of the request."""
        ...

    def whole(self, reply: Reply) -> bytes:
        """Return the answer in one piece."""
        ...

    def first(self) -> Iterable[Event]:
        """Return the events that begin a stream."""
        ...

    def piece(self, text: str) -> Iterable[Event]:
        """Return the events for a piece of text."""
        ...

    def last(self, reply: Reply, rest: str) -> Iterable[Event]:
        """Return the events that end a stream; `rest` is the part of the reply's text that was not sent yet."""
        ...

    def broken(self, error: ChatError) -> Iterable[Event]:
        """Return the events that end a failed stream."""
        ...

    def refused(self, error: ChatError) -> ChatError:
        """Return the error in the terms of this API."""
        ...


class TurnEndpoint:
    """An endpoint for turns. An ASGI application, because a turn must end with its request, however that ends.

    Args:
        models: The models to chat with.
        endpoint: The endpoint whose tools agents can be lent.
        clients: The clients of lent tools.
        limits: The limits of one request.
        read: Reads the body of a request, given its session or none.
    """

    def __init__(
        self,
        models: Models,
        endpoint: Dispatcher,
        clients: ChatClients,
        limits: ChatEndpointLimits,
        read: Callable[[bytes, str | None], TurnExchange],
    ) -> None:
        self._models = models
        self._endpoint = endpoint
        self._clients = clients
        self._limits = limits
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, line = Request(scope, receive), HttpTurnLog(scope, send)
        headers = {"x-request-id": f"req_{secrets.token_hex(16)}"}
        name = ""
        exchange: TurnExchange | None = None
        with ExitStack() as turn_ends:
            turn_ends.callback(line.write)
            try:
                session_id = session_of(request.headers)
                if session_id is not None:
                    headers[SESSION_HEADER] = session_id
                line.set_session(session_id)
                body = await request.body()
                line.bytes_in = len(body)
                exchange = begun = self._read(body, session_id)
                model = self._models.find(exchange.asked.model)
                line.set_model(model)
                name = model.id
                turn = turn_ends.enter_context(model.open_turn())
                address = request.client.host if request.client else ""
                answer = partial(self._answer, begun, model, turn, turn_ends, line, address)
                response = await _unless_gone(receive, answer)
            except Exception as error:
                problem = as_chat_error(error, name)
                line.record_failure(problem)
                response = error_response(problem if exchange is None else exchange.refused(problem))
            if response is not None:
                response.headers.update(headers)
                await response(scope, receive, line.send)

    async def _answer(
        self, exchange: TurnExchange, model: Model, turn: Turn, turn_ends: ExitStack, line: HttpTurnLog, address: str
    ) -> Response:
        """Begin the turn, and wait for the result that decides the status: the whole answer, or its first piece."""
        asked, source = exchange.asked, model.source
        tools = await offered_tools(self._endpoint.catalog, asked.tools, source.agent, self._limits.lent_tools)
        client = turn_ends.enter_context(self._clients.using(source.name, asked.session_id, address))
        loan = Loan(self._endpoint, tools, partial(ToolRequest, client), line)
        turn_ends.callback(loan.end)
        chat = ChatRequest(asked.messages, asked.session_id, loan.tools, asked.tools.client, asked.options)
        model.begin(turn, chat)
        if not asked.stream:
            reply = await turn.reply()
            whole = exchange.whole(reply)
            line.record_reply(reply)
            return Response(whole, media_type="application/json")
        first: Piece | None = None
        with anyio.move_on_after(self._limits.ping_interval):
            first = await turn.next()
        events = _events(turn, first, exchange, model.id, line)
        return EventSourceResponse(events, ping=self._limits.ping_interval, ping_message_factory=_ping, sep=_LINE_END)


def error_response(error: ChatError) -> Response:
    """Return the response for an error."""
    return Response(to_json(error.payload()), error.status, error.headers, "application/json")


async def _events(
    turn: Turn, piece: Piece | None, exchange: TurnExchange, model: str, line: HttpTurnLog
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the events of a stream. A failure is its last event."""
    for event in exchange.first():
        yield _sent(event)
    try:
        piece = await turn.next() if piece is None else piece
        while not isinstance(piece, Reply):
            for event in exchange.piece(piece) if isinstance(piece, str) else ():
                yield _sent(event)
            piece = await turn.next()
        last = list(exchange.last(piece, turn.rest(piece)))
        line.record_reply(piece)
    except Exception as error:  # including errors of a malformed reply of the agent
        problem = as_chat_error(error, model)
        line.record_failure(problem)
        last = list(exchange.broken(exchange.refused(problem)))
    for event in last:
        yield _sent(event)


async def _unless_gone(receive: Receive, call: Callable[[], Awaitable[T]]) -> T | None:
    """Return the result of `call`; `None` if the client leaves before, which cancels it.

    Raises:
        Exception: The exception of `call`.
    """
    result: T | None = None
    failure: Exception | None = None

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            result = await call()
        except Exception as error:  # raised again, not in the task group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


def _sent(event: Event) -> ServerSentEvent:
    return ServerSentEvent(event.data, event=event.name, sep=_LINE_END)


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="keep-alive", sep=_LINE_END)
