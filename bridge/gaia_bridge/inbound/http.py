"""The HTTP side: one endpoint over Streamable HTTP and legacy SSE, and the application that routes to all endpoints.

Routes (design section 6): `/mcp`, `/sse` and `/messages/` for everything, the same below `/agents/{name}` and
`/servers/{name}` for one source alone, `POST /` for a single JSON-RPC call without a session, and `/health`, `/ready`,
`/status` and `/tools` for people and monitors; `gaia_bridge.inbound.openai` adds those below `/v1/`. The guard stands
in front of all of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaia_bridge.contract import JSON
from gaia_bridge.inbound.access import AccessPolicy
from gaia_bridge.inbound.backlog import Outlet
from gaia_bridge.inbound.dual_era import CountedStream, DiscoverTolerantStream
from gaia_bridge.inbound.guard import HEALTH_PATH, REQUEST_ID, Guard, replaying
from gaia_bridge.inbound.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    decoded,
    era_problem,
    identifier,
    message_problem,
    negotiated,
    too_many_sessions,
    unexpected_batch,
)
from gaia_bridge.inbound.replay import ReplayingSessionManager
from gaia_bridge.inbound.server import Endpoint
from gaia_bridge.inbound.sessions import Sessions, nowhere, refused
from gaia_bridge.inbound.token import token_proof
from gaia_bridge.jsontypes import is_array, is_object
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text import valid_json

__all__ = ["HttpEndpoint", "make_app"]

logger = logging.getLogger(__name__)

_FOR_PEOPLE = """\
This is gaia-mcp-bridge, an MCP server. It is made for programs; there is nothing to see in a browser.

Give your MCP client the address of this machine and port with /mcp at its end. What is published is listed at /tools,
and how it is at /status.
"""

_Serve = Callable[["HttpEndpoint", Any, Scope, Receive, Send], Awaitable[None]]
"""Serves one request: the endpoint, the decoded body of a POST, and the request."""
_Find = Callable[[str, str], "HttpEndpoint | None"]
_Report = Callable[[], JSON]


_GROUPS = ("", "agents", "servers")
_STREAMABLE = re.compile(r"(?:/(?P<group>agents|servers)/(?P<name>[^/]+))?/mcp")

_ERA_HEADER = MCP_PROTOCOL_VERSION_HEADER.lower().encode()

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
        self._manager = ReplayingSessionManager(endpoint.server, limits)
        self._sessions = Sessions(self._manager.handle_request, limits)
        self._single_calls = StreamableHTTPSessionManager(endpoint.server, json_response=True, stateless=True)
        self._sse = SseServerTransport(f"{prefix}/messages/", max_request_body_size=limits.body_bytes)
        self._sse_connections: set[anyio.CancelScope] = set()
        self._sse_revisions: dict[str, str] = {}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every session ends."""
        try:
            async with self._manager.run(), self._single_calls.run():
                await self.endpoint.run(task_status=task_status)
        finally:
            for connection in list(self._sse_connections):
                connection.cancel()

    async def streamable(self, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """Streamable HTTP: POST, GET and DELETE of both eras (P-9)."""
        revision = _era_header(scope)
        if problem := _era_problem(content, revision):
            await refused(problem, scope, receive, send)
        elif revision is None or revision in HANDSHAKE_PROTOCOL_VERSIONS:
            for message in content if is_array(content) else [content]:
                if is_object(message):
                    request = Request(scope)
                    self.endpoint.cancellations.heard(message.get("method"), message.get("params"), request)
            await self._sessions(content, scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    async def single_call(self, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """One JSON-RPC request, one JSON answer, no session: what simple HTTP clients expect of a bridge (S1-21)."""
        if is_array(content):
            await refused(unexpected_batch(), scope, receive, send)
        elif problem := _era_problem(content, _era_header(scope)):
            await refused(problem, scope, receive, send)
        else:
            await self._single_calls.handle_request(_accepting_json(scope), receive, send)

    async def sse(self, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """The event stream of a legacy SSE client."""
        if len(self._sse_connections) >= self._limits.sessions:
            await refused(too_many_sessions(), scope, receive, send, 503, self._limits.retry_after)
            return
        cut = anyio.Event()
        with anyio.CancelScope() as connection, Outlet(is_stream=True, cut=cut.set).entered() as outlet:
            self._sse_connections.add(connection)
            try:
                async with self._sse.connect_sse(scope, _until(cut, receive), send) as (incoming, outgoing):
                    endpoint = self.endpoint
                    tolerant = DiscoverTolerantStream(
                        endpoint.server, incoming, outgoing, endpoint.check, endpoint.cancellations, outlet
                    )
                    counted = CountedStream(outgoing, outlet)
                    await serve_dual_era_loop(endpoint.server, tolerant, counted, lifespan_state={})
            finally:
                self._sse_connections.discard(connection)

    async def messages(self, content: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """A message of a legacy SSE client, or several; they are answered on its stream."""
        session = Request(scope).query_params.get("session_id", "")
        if is_array(content):
            await self._batch(session, content, scope, receive, send)
            return
        if is_object(content) and content.get("method") == "initialize":
            self._sse_revisions[session] = negotiated(content.get("params"))
            while len(self._sse_revisions) > self._limits.sessions:
                del self._sse_revisions[next(iter(self._sse_revisions))]
        await self._sse.handle_post_message(scope, receive, send)

    async def _batch(self, session: str, messages: list[Any], scope: Scope, receive: Receive, send: Send) -> None:
        problem = batch_problem(messages, self._sse_revisions.get(session), self._limits.batch)
        if problem := problem or next(filter(None, map(batched_problem, messages)), None):
            await refused(problem, scope, receive, send)
            return
        logger.info("a batch of %d messages came", len(messages))
        for message in messages:
            body = {"type": "http.request", "body": to_json(message), "more_body": False}
            await self._sse.handle_post_message(scope, replaying(body, receive), nowhere)
        await Response(status_code=202)(scope, receive, send)


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
    streamable = {group: _Routed(find, group, HttpEndpoint.streamable) for group in _GROUPS}
    for group, routed in streamable.items():
        prefix = f"/{group}/{{name}}" if group else ""
        routes += [
            Route(f"{prefix}/mcp", routed),
            Route(f"{prefix}/sse", _Routed(find, group, HttpEndpoint.sse), methods=["GET"]),
            Route(f"{prefix}/messages/", _Routed(find, group, HttpEndpoint.messages), methods=["POST"]),
        ]
    routes.append(Route("/", _Routed(find, "", HttpEndpoint.single_call), methods=["POST"]))
    routes.append(Route("/", _tell_people, methods=["GET"]))
    routes += [Route(path, _reporting(answer), methods=["GET"]) for path, answer in report.items()]
    routes.append(Route(HEALTH_PATH, _healthy(policy.token), methods=["GET"]))
    return Guard(_Direct(streamable, Starlette(routes=[*routes, *further])), policy)


class _Direct:
    """Leads to Streamable HTTP, which nearly all requests are for, without looking at every route.

    Args:
        routed: What serves it, by group.
        others: All routes.
    """

    def __init__(self, routed: Mapping[str, _Routed], others: ASGIApp) -> None:
        self._routed = routed
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _STREAMABLE.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._others(scope, receive, send)
            return
        scope["path_params"] = {"name": found["name"] or ""}
        await self._routed[found["group"] or ""](scope, receive, send)


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
            missing = Refusal(INVALID_REQUEST, f"Nothing is published under that name in /{self._group}")
            await refused(missing, scope, receive, send, 404)
        elif scope["method"] == "GET" and _is_person(scope):
            await PlainTextResponse(_FOR_PEOPLE, 406)(scope, receive, send)
        elif scope["method"] != "POST":
            await self._serve(endpoint, None, scope, receive, send)
        else:
            body = await receive()  # all of it: the guard hands over whole bodies
            content = decoded(body.get("body", b""))
            if problem := _problem(content):
                await refused(problem, scope, receive, send)
            else:
                scope[REQUEST_ID] = identifier(content)
                with Outlet().entered() as outlet:
                    await self._serve(endpoint, content, scope, replaying(body, receive), _counted(send, outlet))


def _until(cut: anyio.Event, receive: Receive) -> Receive:
    """A `receive` that says that the client has left when it is cut off."""

    async def received() -> Message:
        message: Message = {"type": "http.disconnect"}
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                await cut.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait)
            message = await receive()
            tasks.cancel_scope.cancel()
        return message

    return received


def _counted(send: Send, outlet: Outlet) -> Send:
    """A `send` that tells which answers have left: from here on they are the listener's."""

    async def counted(message: Message) -> None:
        outlet.left_in(len(message.get("body", b"")))
        await send(message)

    return counted


def _is_person(scope: Scope) -> bool:
    """Whether somebody has opened the address in a browser: no MCP client takes HTML."""
    return "text/html" in Headers(scope=scope).get("accept", "")


async def _tell_people(request: Request) -> Response:
    if not _is_person(request.scope):
        return Response(status_code=405, headers={"allow": "POST"})
    return PlainTextResponse(_FOR_PEOPLE)


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


def _problem(content: Any) -> Refusal | None:
    """Why the body of a POST is not taken; the SDK would list its models, or take it for something else (F-078)."""
    if isinstance(content, Refusal):
        return content
    if is_array(content):  # which revision that is of, only the session knows
        return None
    return message_problem(content)


def _era_problem(content: Any, revision: str | None) -> Refusal | None:
    return era_problem(content, revision) if is_object(content) else None


def _era_header(scope: Scope) -> str | None:
    value: bytes | None = next((value for name, value in scope["headers"] if name == _ERA_HEADER), None)
    return None if value is None else value.decode("latin-1")


def _accepting_json(scope: Scope) -> Scope:
    """The scope of a client that says nothing about what it accepts, as most simple clients do."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name == b"accept" for name, _ in headers):
        return scope
    return {**scope, "headers": [*headers, (b"accept", b"application/json, text/event-stream")]}
