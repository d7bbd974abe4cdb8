"""The HTTP side: one endpoint over Streamable HTTP and legacy SSE, and the application that routes to all endpoints.

Routes (design section 6): `/mcp`, `/sse` and `/messages/` for everything, the same below `/agents/{name}` and
`/servers/{name}` for one source alone, `POST /` for a single JSON-RPC call without a session, and `/health`, `/ready`,
`/status` and `/tools` for people and monitors; `gaia_bridge.inbound.openai` adds those below `/v1/`. The guard stands
in front of all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import anyio
from anyio.abc import TaskStatus
from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gaia_bridge.contract import JSON
from gaia_bridge.inbound.access import AccessPolicy
from gaia_bridge.inbound.dual_era import DiscoverTolerantStream
from gaia_bridge.inbound.guard import HEALTH_PATH, Guard, error_body, replaying
from gaia_bridge.inbound.replay import ReplayingSessionManager
from gaia_bridge.inbound.server import Endpoint
from gaia_bridge.inbound.token import token_proof
from gaia_bridge.jsontypes import is_object
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text import valid_json

__all__ = ["HttpEndpoint", "make_app"]

_Serve = Callable[["HttpEndpoint", Scope, Receive, Send], Awaitable[None]]
_Find = Callable[[str, str], "HttpEndpoint | None"]
_Report = Callable[[], JSON]


_CHALLENGE = 128
"""Characters of a challenge; ours have 64."""


class HttpEndpoint:
    """One endpoint over HTTP.

    Args:
        endpoint: What is served.
        prefix: The path it lives under, without a slash at its end: `` or `/agents/code`.
        limits: Limits of the HTTP side.
    """

    def __init__(self, endpoint: Endpoint, prefix: str, limits: HttpLimits) -> None:
        self.endpoint = endpoint
        self._limits = limits
        self._sessions = ReplayingSessionManager(endpoint.server, limits)
        self._single_calls = StreamableHTTPSessionManager(endpoint.server, json_response=True, stateless=True)
        self._sse = SseServerTransport(f"{prefix}/messages/", max_request_body_size=limits.body_bytes)
        self._sse_connections: set[anyio.CancelScope] = set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every session ends."""
        try:
            async with self._sessions.run(), self._single_calls.run():
                await self.endpoint.run(task_status=task_status)
        finally:
            for connection in list(self._sse_connections):
                connection.cancel()

    async def streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streamable HTTP: POST, GET and DELETE of both eras (P-9)."""
        await self._sessions.handle_request(scope, receive, send)

    async def single_call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One JSON-RPC request, one JSON answer, no session: what simple HTTP clients expect of a bridge (S1-21)."""
        await self._single_calls.handle_request(_accepting_json(scope), receive, send)

    async def sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The event stream of a legacy SSE client."""
        if len(self._sse_connections) >= self._limits.sessions:
            await _refusal(503, "Too many open sessions; try again later")(scope, receive, send)
            return
        with anyio.CancelScope() as connection:
            self._sse_connections.add(connection)
            try:
                async with self._sse.connect_sse(scope, receive, send) as (incoming, outgoing):
                    server = self.endpoint.server
                    tolerant = DiscoverTolerantStream(server, incoming, outgoing, self.endpoint.check)
                    await serve_dual_era_loop(server, tolerant, outgoing, lifespan_state={})
            finally:
                self._sse_connections.discard(connection)

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A message of a legacy SSE client."""
        await self._sse.handle_post_message(scope, receive, send)


def make_app(
    find: _Find, report: Mapping[str, _Report], policy: AccessPolicy, further: Iterable[BaseRoute] = ()
) -> ASGIApp:
    """Build the application.

    Args:
        find: Gives the endpoint for `("agents" | "servers" | "", name)`, or `None`; asked for every request, so that
            agents can come and go while the application runs.
        report: What to answer on the plain GET routes, by path.
        policy: Who may call.
        further: Routes of other APIs.
    """

    routes: list[BaseRoute] = []
    for prefix in ("", "/agents/{name}", "/servers/{name}"):
        group = prefix.strip("/").partition("/")[0]
        routes += [
            Route(f"{prefix}/mcp", _Routed(find, group, HttpEndpoint.streamable)),
            Route(f"{prefix}/sse", _Routed(find, group, HttpEndpoint.sse), methods=["GET"]),
            Route(f"{prefix}/messages/", _Routed(find, group, HttpEndpoint.messages), methods=["POST"]),
        ]
    routes.append(Route("/", _Routed(find, "", HttpEndpoint.single_call), methods=["POST"]))
    routes += [Route(path, _reporting(answer), methods=["GET"]) for path, answer in report.items()]
    routes.append(Route(HEALTH_PATH, _healthy(policy.token), methods=["GET"]))
    return Guard(Starlette(routes=[*routes, *further]), policy)


class _Routed:
    """An ASGI application, as Starlette takes class instances to be: finds the endpoint, then serves."""

    def __init__(self, find: _Find, group: str, serve: _Serve) -> None:
        self._find = find
        self._group = group
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name: str = scope["path_params"].get("name", "")
        endpoint = self._find(self._group, name)
        if endpoint is None:
            # The name is the client's own, so it is not repeated (log and terminal injection).
            await _refusal(404, f"Nothing is published under that name in /{self._group}")(scope, receive, send)
        elif scope["method"] != "POST":
            await self._serve(endpoint, scope, receive, send)
        else:
            body = await receive()  # all of it: the guard hands over whole bodies
            if problem := _message_problem(body.get("body", b"")):
                await _refusal(400, *problem)(scope, receive, send)
            else:
                await self._serve(endpoint, scope, replaying(body, receive), send)


def _reporting(answer: _Report) -> Callable[[Request], Awaitable[Response]]:
    async def report(request: Request) -> Response:
        return JSONResponse(valid_json(answer()))

    return report


def _healthy(token: str | None) -> Callable[[Request], Awaitable[Response]]:
    """The health check. Who brings a challenge sees whether we know the token, before it is sent to us."""

    async def report(request: Request) -> Response:
        challenge = request.query_params.get("challenge", "")
        if token is None or not 0 < len(challenge) <= _CHALLENGE:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "ok", "proof": token_proof(token, challenge, request.headers.get("host", ""))})

    return report


def _refusal(status: int, message: str, code: int = INVALID_REQUEST) -> Response:
    return Response(error_body(message, code), status, media_type="application/json")


def _message_problem(body: bytes) -> tuple[str, int] | None:
    """What is wrong with a body that is no JSON-RPC message; the SDK would list its models instead (F-078)."""
    try:
        message = from_json(body)
    except ValueError:
        return "Parse error: the body is not JSON in UTF-8", PARSE_ERROR
    if is_object(message) and message.get("jsonrpc") == "2.0" and message.keys() & {"method", "result", "error"}:
        return None
    return "Not a JSON-RPC 2.0 request, notification or response", INVALID_REQUEST


def _accepting_json(scope: Scope) -> Scope:
    """The scope of a client that says nothing about what it accepts, as most simple clients do."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name == b"accept" for name, _ in headers):
        return scope
    return {**scope, "headers": [*headers, (b"accept", b"application/json, text/event-stream")]}
