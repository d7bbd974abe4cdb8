"""The routes of the API.

    GET    /v1/models                 the agents that are offered as models
    GET    /v1/models/{id}            one of them
    POST   /v1/chat/completions       one turn, in one piece or as a stream of events
    POST   /v1/responses              the same in the shapes of the Responses API
    GET    /v1/responses/{id}         a response that was stored
    DELETE /v1/responses/{id}

The guard stands in front of them, as in front of all others; the bridge's token is the API key for clients of this
API. A completion is answered in one piece, or in the chunks of a stream.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.models import Models
from gaia_bridge_doors.conversation.tool_request import ChatClients
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest, read_request
from gaia_bridge_doors.openai_api.responses.response_request import StoredResponses, read_response_request
from gaia_bridge_doors.openai_api.responses.shapes import ResponseExchange
from gaia_bridge_doors.openai_api.turn_endpoint import Event, TurnEndpoint, error_response

DONE: Final = "[DONE]"
"""The data of the event that ends a stream."""


class Completion:
    """One request for a completion. Implements `gaia_bridge_doors.openai_api.turn_endpoint.TurnExchange`.

    Args:
        asked: The request.
    """

    def __init__(self, asked: CompletionRequest) -> None:
        self.asked = asked
        self.id = f"chatcmpl-{secrets.token_hex(16)}"
        self._model = asked.model
        self._created = int(time.time())
        self._include_usage = asked.include_usage

    def whole(self, reply: Reply) -> bytes:
        """Return the answer in one piece."""
        message: JSON = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.tool_calls:
            message |= {"content": reply.text or None, "tool_calls": _calls(reply.tool_calls)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(reply)}
        answer = self._head("chat.completion") | {"choices": [choice], "usage": _usage(reply.usage)}
        return to_json(answer)

    def first(self) -> list[Event]:
        """Return the chunk that begins a stream."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, text: str) -> list[Event]:
        """Return the chunk with a piece of text."""
        return [self._chunk({"content": text})]

    def last(self, reply: Reply, rest: str) -> list[Event]:
        """Return the chunks that end a stream.

        Args:
            reply: The end of the turn.
            rest: The part of its text that was not sent yet.
        """
        chunks = self.piece(rest) if rest else []
        calls = enumerate(_calls(reply.tool_calls))
        chunks += [self._chunk({"tool_calls": [{"index": number, **call}]}) for number, call in calls]
        chunks.append(self._chunk({}, _reason(reply)))
        if self._include_usage:
            tokens: JSON = {"choices": [], "usage": _usage(reply.usage)}
            tokens = self._head("chat.completion.chunk") | tokens
            chunks.append(Event(to_json(tokens).decode()))
        return [*chunks, Event(DONE)]

    def broken(self, error: ChatError) -> list[Event]:
        """Return the event that ends a failed stream."""
        return [Event(to_json(error.payload()).decode())]

    def refused(self, error: ChatError) -> ChatError:
        """Return the error itself: its text fits this API already."""
        return error

    def _chunk(self, delta: JSON, finish_reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = self._head("chat.completion.chunk") | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return Event(to_json(chunk).decode())

    def _head(self, kind: str) -> JSON:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._model}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else reply.finish_reason


def _calls(calls: Sequence[ToolCall]) -> list[JSON]:
    return [
        {
            "id": valid_text(call.id),
            "type": "function",
            "function": {"name": valid_text(call.name), "arguments": valid_text(call.arguments)},
        }
        for call in calls
    ]


def _usage(usage: Usage) -> JSON:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


_MODELS: Final = "/v1/models"
_COMPLETIONS: Final = "/v1/chat/completions"
_RESPONSES: Final = "/v1/responses"


def chat_routes(models: Models, endpoint: Dispatcher, limits: ChatEndpointLimits) -> list[BaseRoute]:
    """Return the routes, for the application that has all others too.

    Args:
        models: The models to chat with.
        endpoint: The endpoint whose tools agents can be lent.
        limits: The limits of one request.
    """
    stored, clients = StoredResponses(limits), ChatClients(limits.session_idle)

    def read_completion(body: bytes, session_id: str | None) -> Completion:
        return Completion(read_request(body, session_id, limits))

    def read_response(body: bytes, session_id: str | None) -> ResponseExchange:
        return ResponseExchange(read_response_request(body, session_id, stored, limits), stored)

    async def list_models(request: Request) -> Response:
        return _json({"object": "list", "data": [model.to_json() for model in models]})

    async def get_model(request: Request) -> Response:
        try:
            return _json(models.find(request.path_params["model_id"]).to_json())
        except ChatError as error:
            return error_response(error)

    async def stored_response(request: Request) -> Response:
        response_id: str = request.path_params["response_id"]
        try:
            if request.method == "DELETE":
                stored.remove(response_id)
                return _json({"id": response_id, "object": "response", "deleted": True})
            return _json(stored.response(response_id))
        except ChatError as error:
            return error_response(error)

    async def refuse(request: Request) -> Response:
        return error_response(_no_route(request))

    completions = TurnEndpoint(models, endpoint, clients, limits, read_completion)
    responses = TurnEndpoint(models, endpoint, clients, limits, read_response)
    return [
        Route(_MODELS, list_models, methods=["GET"]),
        Route(f"{_MODELS}/{{model_id:path}}", get_model, methods=["GET"]),
        Route(_COMPLETIONS, completions, methods=["POST"]),
        Route(_RESPONSES, responses, methods=["POST"]),
        Route(f"{_RESPONSES}/{{response_id}}", stored_response, methods=["GET", "DELETE"]),
        Route("/v1/{path:path}", refuse, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


def _no_route(request: Request) -> ChatError:
    """Return the error for a path that is not served, or not with that method."""
    path: str = request.scope["path"]
    methods = _methods_at(path)
    if methods is not None:
        message = f"{request.method} is not served here; expected {' or '.join(methods)}."
        return ChatError(405, message, "method_not_allowed", headers={"allow": ", ".join(methods)})
    there = f"GET {_MODELS}, GET {_MODELS}/ID, POST {_COMPLETIONS}, POST {_RESPONSES} and GET {_RESPONSES}/ID"
    return ChatError(404, f"Nothing is served at this path; there are {there}.", "unknown_url")


def _methods_at(path: str) -> tuple[str, ...] | None:
    if path in (_COMPLETIONS, _RESPONSES):
        return ("POST",)
    if path == _MODELS or path.startswith(f"{_MODELS}/"):
        return ("GET",)
    beyond = path.removeprefix(f"{_RESPONSES}/")
    return ("GET", "DELETE") if beyond != path and beyond and "/" not in beyond else None


def _json(content: JSON) -> Response:
    return Response(to_json(content), media_type="application/json")
