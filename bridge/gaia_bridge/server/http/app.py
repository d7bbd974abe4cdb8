"""The HTTP application: MCP paths are served here, everything else by Starlette, all of it behind one guard.

Paths: `/mcp`, `/mcp/server-card`, `/sse` and `/messages/` for everything, the same below `/agents/{name}` and
`/servers/{name}` for one source alone, `POST /` for a single JSON-RPC call without a session, and `/health`, `/ready`,
`/status` and `/tools` for people and monitors; `gaia_bridge_doors.openai_api` adds those below `/v1/`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from gaia_bridge.protocol.codes import INVALID_REQUEST
from gaia_bridge.protocol.messages import (
    Refusal,
    decoded,
    era_problem,
    identifier,
    is_plain_request,
    message_problem,
    unexpected_batch,
)
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.http.access_policy import AccessPolicy, is_person, words_for_people
from gaia_bridge.server.http.guard import REQUEST_ID, Guard
from gaia_bridge.server.transports.handshake_http import HandshakeHttp
from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.server.transports.modern_http import ModernHttp
from gaia_bridge.server.transports.scope_keys import PARSED, WHOLE_BODY
from gaia_bridge.server.transports.sse import SseEndpoint
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.json_types import JSON, is_array

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_Serve = Callable[["HttpBinding", HttpExchange], Awaitable[None]]
_OF_HANDSHAKE: Final = frozenset((None, *HANDSHAKE_REVISIONS))
"""Revisions in the heads of requests of the handshake era."""
_OF_ANYBODY: Final = AccessPolicy(frozenset(), frozenset())


class HasHttp(Protocol):
    """An endpoint; its HTTP side is made on first use."""

    @cached_property
    def http(self) -> HttpBinding: ...


_Endpoints = Mapping[tuple[str, str], HasHttp]


class HttpBinding:
    """One endpoint over HTTP.

    Args:
        prefix: The path it lives under, without a slash at its end: `` or `/agents/code`.
    """

    def __init__(self, dispatcher: Dispatcher, prefix: str, limits: HttpLimits) -> None:
        self._dispatcher = dispatcher
        self._prefix = prefix
        self._handshake = HandshakeHttp(dispatcher, limits)
        self._modern = ModernHttp(dispatcher, limits)
        self._sse = SseEndpoint(dispatcher, f"{prefix}/messages/", limits)

    def close(self) -> None:
        """End every session."""
        self._handshake.sessions.close()
        self._sse.close()

    def streamable(self, exchange: HttpExchange) -> Awaitable[None]:
        """Serve Streamable HTTP: POST, GET and DELETE of both eras."""
        return (self._handshake if exchange.revision in _OF_HANDSHAKE else self._modern)(exchange)

    async def single_call(self, exchange: HttpExchange) -> None:
        """Serve one JSON-RPC request with one JSON answer and no session, as simple HTTP clients expect it."""
        if is_array(exchange.content):
            await exchange.refuse(unexpected_batch())
        elif not exchange.accepts[0]:
            await exchange.refuse(_NO_JSON, 406)
        elif exchange.revision in _OF_HANDSHAKE:
            await self._handshake.single_call(exchange)
        else:
            await self._modern(exchange, only_json=True)

    async def sse(self, exchange: HttpExchange) -> None:
        """Serve the event stream of a client of HTTP+SSE."""
        await self._sse.stream(exchange)

    async def messages(self, exchange: HttpExchange) -> None:
        """Take a message of a client of HTTP+SSE."""
        await self._sse.message(exchange)

    async def card(self, exchange: HttpExchange, policy: AccessPolicy = _OF_ANYBODY) -> None:
        """Serve the server card, which clients may read before they connect."""
        from gaia_bridge.server.http.server_card import answer_card

        await answer_card(exchange, self._dispatcher, self._prefix, policy)


_NO_JSON: Final = Refusal(INVALID_REQUEST, "Not Acceptable: Client must accept application/json")
_CARD: Final = "server-card"
"""The path segment of the server card, behind the path of Streamable HTTP (`server_card` is imported on first use)."""
_PATHS: Final[Mapping[str, _Serve]] = {
    "mcp": HttpBinding.streamable,
    "sse": HttpBinding.sse,
    "messages": HttpBinding.messages,
}


def make_app(
    endpoints: _Endpoints,
    report: Mapping[str, Callable[[], JSON]],
    policy: AccessPolicy,
    further: Callable[[], Iterable[BaseRoute]] = tuple,
) -> ASGIApp:
    """Build the application.

    Args:
        endpoints: The endpoints by `("agents" | "servers" | "", name)`, which can come and go.
        report: Makes the answers of the plain GET routes, by path.
        further: Gives the routes of other APIs; called with the first request for a path that is not one of MCP.
    """
    app: ASGIApp | None = None
    making = anyio.Lock()

    def make() -> ASGIApp:
        from gaia_bridge.server.http.routes import make_routes

        return make_routes(report, policy, further())

    async def others(scope: Scope, receive: Receive, send: Send) -> None:
        """Serve other paths, by an application that is made with its first request: most bridges never get one."""
        nonlocal app
        if scope["type"] == "lifespan":  # nothing is to be prepared, and nothing to be put away
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        async with making:
            if app is None:
                app = await anyio.to_thread.run_sync(make)  # a thread, because it imports much
        await app(scope, receive, send)

    return Guard(_McpPaths(endpoints, others, policy), policy)


class _McpPaths:
    """ASGI application: serves the paths of MCP, and hands on everything else."""

    def __init__(self, endpoints: _Endpoints, others: ASGIApp, policy: AccessPolicy) -> None:
        self._endpoints = endpoints
        self._others = others
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        target = self._target(scope) if scope["type"] == "http" else None
        if target is None:
            await self._others(scope, receive, send)
            return
        group, name, serve = target
        endpoint = self._endpoints.get((group, name))
        if endpoint is None:
            # The name is the client's own, so it is not repeated (log and terminal injection).
            missing = Refusal(INVALID_REQUEST, f"Nothing is published under that name in /{group}")
            await HttpExchange(scope, receive, send).refuse(missing, 404)
            return
        binding = endpoint.http
        if serve is HttpBinding.card:
            await binding.card(HttpExchange(scope, receive, send), self._policy)
        elif scope["method"] == "GET" and is_person(scope):
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(words_for_people(self._policy), 406)(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(binding, serve, scope, receive, send)
        else:
            await serve(binding, HttpExchange(scope, receive, send))

    @staticmethod
    def _target(scope: Scope) -> tuple[str, str, _Serve] | None:
        """Return the group, the name and the transport that a path stands for; `None` for paths of others."""
        path: str = scope["path"]
        if path == "/mcp":
            return "", "", HttpBinding.streamable
        if path == "/":
            return ("", "", HttpBinding.single_call) if scope["method"] == "POST" else None
        parts = path.removeprefix("/").removesuffix("/").split("/")
        if parts[-2:] == ["mcp", _CARD]:
            del parts[-1]
            serve: _Serve | None = HttpBinding.card
        else:
            serve = _PATHS.get(parts[-1])
        if serve is None:
            return None
        if len(parts) == 1:
            return "", "", serve
        group, name = parts[0], "/".join(parts[1:-1])  # the name of a server may have a slash, which was %2F
        return (group, name, serve) if group in ("agents", "servers") and name else None

    @staticmethod
    async def _post(binding: HttpBinding, serve: _Serve, scope: Scope, receive: Receive, send: Send) -> None:
        extensions: Mapping[str, Any] = scope.get("extensions") or {}
        # The guard passes on whole bodies, so that one message has all of it.
        if PARSED in extensions:
            content, size = extensions[PARSED]
        else:
            body: bytes = extensions[WHOLE_BODY] if WHOLE_BODY in extensions else (await receive()).get("body", b"")
            content, size = decoded(body), len(body)
        exchange = HttpExchange(scope, receive, send, content, size)
        by_header = serve is not HttpBinding.messages
        if is_plain_request(content):
            says_revision = by_header and "_meta" in content["params"]
            problem = era_problem(content, exchange.revision) if says_revision else None
            number = content["id"]
        else:
            problem, number = _problem(exchange, by_header=by_header), identifier(content)
        if problem is not None:
            await exchange.refuse(problem)
        else:
            scope[REQUEST_ID] = number
            await serve(binding, exchange)


def _problem(exchange: HttpExchange, *, by_header: bool) -> Refusal | None:
    """Return why the body of a POST is refused; `None` if it is not. A batch is left to its session, which knows its
    revision."""
    content = exchange.content
    if isinstance(content, Refusal):
        return content
    if is_array(content):
        return None
    problem = message_problem(content)
    return problem or (era_problem(content, exchange.revision) if by_header else None)
