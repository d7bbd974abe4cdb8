"""The routes of the API.

    GET  /v1/models                 the agents that are offered as models
    GET  /v1/models/{id}            one of them
    POST /v1/chat/completions       one turn, in one piece or as a stream of events

The guard stands in front of them, as it does in front of all others; the bridge's token is what clients of this API
call the API key.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from typing import Final, TypeVar

import anyio
from pydantic_core import to_json
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gaia_bridge.chats import ChatRequest, Reply
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.openai.asked import SESSION_HEADER, Asked, read_request, session_of
from gaia_bridge.inbound.openai.errors import ChatError, as_chat_error
from gaia_bridge.inbound.openai.lending import Loan, offered_tools
from gaia_bridge.inbound.openai.models import Model, Models
from gaia_bridge.inbound.openai.shapes import Shapes
from gaia_bridge.inbound.openai.tool_request import ChatClients
from gaia_bridge.inbound.openai.turn import Turn
from gaia_bridge.jsontypes import JSON
from gaia_bridge.settings import ChatEndpointLimits

__all__ = ["chat_routes"]

T = TypeVar("T")

_MODELS: Final = "/v1/models"
_COMPLETIONS: Final = "/v1/chat/completions"
_LINE_END: Final = "\n"
"""What OpenAI's own streams have, and some clients split at."""


def chat_routes(models: Models, catalog: Catalog, limits: ChatEndpointLimits) -> list[BaseRoute]:
    """The routes, for the application that has all others too.

    Args:
        models: What there is to chat with.
        catalog: Whose tools agents can be lent.
        limits: What one request may use.
    """

    async def list_models(request: Request) -> Response:
        return _json({"object": "list", "data": [model.to_json() for model in models]})

    async def get_model(request: Request) -> Response:
        try:
            return _json(models.find(request.path_params["model_id"]).to_json())
        except ChatError as error:
            return _failed(error)

    async def refuse(request: Request) -> Response:
        return _failed(_no_route(request))

    return [
        Route(_MODELS, list_models, methods=["GET"]),
        Route(f"{_MODELS}/{{model_id:path}}", get_model, methods=["GET"]),
        Route(_COMPLETIONS, _Completions(models, catalog, limits), methods=["POST"]),
        Route("/v1/{path:path}", refuse, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


class _Completions:
    """`POST /v1/chat/completions`, as an ASGI application: a turn must end with its request, however that ends."""

    def __init__(self, models: Models, catalog: Catalog, limits: ChatEndpointLimits) -> None:
        self._models = models
        self._catalog = catalog
        self._limits = limits
        self._clients = ChatClients(limits.session_idle)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = {"x-request-id": f"req_{secrets.token_hex(16)}"}
        name = ""
        with ExitStack() as turn_ends:
            try:
                session_id = session_of(request.headers)
                if session_id is not None:
                    headers[SESSION_HEADER] = session_id
                asked = read_request(await request.body(), session_id, self._limits)
                model = self._models.find(asked.model)
                name = model.id
                turn = turn_ends.enter_context(model.turn())
                response = await _unless_gone(receive, lambda: self._answer(asked, model, turn, turn_ends))
            except Exception as error:
                response = _failed(as_chat_error(error, name))
            if response is not None:
                response.headers.update(headers)
                await response(scope, receive, send)

    async def _answer(self, asked: Asked, model: Model, turn: Turn, turn_ends: ExitStack) -> Response:
        """Begin the turn, and wait for what decides about the status: all of it, or its first piece."""
        source = model.source
        tools = await offered_tools(self._catalog, asked.tools, source.agent, self._limits.lent_tools)
        client = turn_ends.enter_context(self._clients.using(source.name, asked.session_id))
        loan = Loan(self._catalog, tools, client)
        turn_ends.callback(loan.end)
        chat = ChatRequest(asked.messages, asked.session_id, loan.tools, asked.tools.client, asked.options)
        model.begin(turn, chat)
        shapes = Shapes(model.id, include_usage=asked.include_usage)
        if not asked.stream:
            return Response(shapes.completion(await turn.reply()), media_type="application/json")
        first: str | Reply | None = None
        with anyio.move_on_after(self._limits.ping_interval):
            first = await turn.next()
        events = _events(turn, first, shapes, model.id)
        return EventSourceResponse(events, ping=self._limits.ping_interval, ping_message_factory=_ping, sep=_LINE_END)


async def _events(turn: Turn, piece: str | Reply | None, shapes: Shapes, model: str) -> AsyncGenerator[ServerSentEvent]:
    """What a stream consists of. A failure is its last event."""
    yield _event(shapes.first())
    try:
        piece = await turn.next() if piece is None else piece
        while isinstance(piece, str):
            yield _event(shapes.piece(piece))
            piece = await turn.next()
        chunks = shapes.last(piece, turn.rest(piece))
    except Exception as error:  # also what an agent put into its reply that is none
        chunks = [to_json(as_chat_error(error, model).payload()).decode()]
    for chunk in chunks:
        yield _event(chunk)


async def _unless_gone(receive: Receive, call: Callable[[], Awaitable[T]]) -> T | None:
    """What `call` returns; `None` if the client goes away before, which cancels it.

    Raises:
        Exception: What `call` raises.
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


def _no_route(request: Request) -> ChatError:
    """Why there is nothing at a path, or not with that method."""
    path: str = request.scope["path"]
    methods = "POST" if path == _COMPLETIONS else "GET" if path == _MODELS or path.startswith(f"{_MODELS}/") else None
    if methods is not None:
        message = f"{request.method} is not served here; expected {methods}."
        return ChatError(405, message, "method_not_allowed", headers={"allow": methods})
    message = f"Nothing is served at this path; there are GET {_MODELS}, GET {_MODELS}/ID and POST {_COMPLETIONS}."
    return ChatError(404, message, "unknown_url")


def _json(content: JSON) -> Response:
    return Response(to_json(content), media_type="application/json")


def _failed(error: ChatError) -> Response:
    return Response(to_json(error.payload()), error.status, error.headers, "application/json")


def _event(data: str) -> ServerSentEvent:
    return ServerSentEvent(data, sep=_LINE_END)


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="keep-alive", sep=_LINE_END)
