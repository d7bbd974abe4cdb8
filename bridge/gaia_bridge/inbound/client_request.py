"""A client's request as the SDK's low-level server hands it over, in the shape that sources know."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any
from uuid import uuid4

from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp.shared.exceptions import NoBackChannelError
from mcp_types import CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY

from gaia_bridge.answering import reports
from gaia_bridge.contract import JSON
from gaia_bridge.errors import AnswerError, ClientCapabilityError, ProtocolError
from gaia_bridge.jsontypes import is_object
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.wire import (
    LOG_MESSAGE,
    answer_problem,
    as_declared,
    for_legacy_question,
    is_loud_enough,
    is_modern,
    missing_capability,
    question_problem,
)

__all__ = ["Context", "SdkClientRequest", "client_name", "connection_of", "log_level_of", "set_log_level"]

Context = ServerRequestContext[Any, Any]

_LOG_LEVEL = "gaia_bridge.log_level"
_DEFAULT_LOG_LEVEL = "info"
"""What a legacy client is sent before it sets a level; the specification leaves it to the server."""


class SdkClientRequest:
    """Implements `gaia_bridge.contract.ClientRequest` over the SDK's request context.

    Args:
        ctx: The SDK's request context.
        input_responses: The answers that came with a retry, in wire shape.
        request_state: The state that came with a retry, verified and opened.
    """

    def __init__(self, ctx: Context, input_responses: Mapping[str, JSON], request_state: str | None) -> None:
        self._ctx = ctx
        self.method = ctx.method
        self.modern = is_modern(ctx.protocol_version)
        self.input_responses = input_responses
        self.request_state = request_state
        self._capabilities: Mapping[str, Any] | None = None

    def next_round(self, input_responses: Mapping[str, JSON], request_state: str | None) -> SdkClientRequest:
        """The same request with the answers to an `input_required` result."""
        return SdkClientRequest(self._ctx, input_responses, request_state)

    @property
    def client(self) -> Hashable:
        """The connection that the request came on.

        Of modern HTTP, every request has one of its own; there, a program of one name and version at one address is
        taken to be one client.
        """
        host = getattr(getattr(self._ctx.request, "client", None), "host", None)
        if not self.modern or host is None:
            return connection_of(self._ctx)
        info: Any = self.meta.get(CLIENT_INFO_META_KEY)
        return host, *(str(info.get(key)) for key in ("name", "version") if is_object(info))

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called once when the connection that the request came on ends, if it outlives the request."""
        if self.client is not (connection := connection_of(self._ctx)):
            return False
        connection.exit_stack.callback(callback)
        return True

    @property
    def params(self) -> Mapping[str, Any]:
        """The request's parameters, as they came."""
        return self._ctx.params or {}

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        return self.params.get("_meta") or {}

    @property
    def client_info(self) -> Mapping[str, Any]:
        """How the client introduces itself."""
        params = connection_of(self._ctx).client_params
        if self.modern:
            told: Any = self.meta.get(CLIENT_INFO_META_KEY)
            return told if is_object(told) else {}
        return {} if params is None else params.client_info.model_dump(by_alias=True, mode="json", exclude_none=True)

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declared, in wire shape."""
        if self._capabilities is None:
            declared = self._ctx.session.client_capabilities
            dumped = {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)
            self._capabilities = dumped
        return self._capabilities

    @property
    def log_level(self) -> str | None:
        """The least severe messages that the client wants."""
        if not self.modern:
            return log_level_of(connection_of(self._ctx))
        wanted = self.meta.get(LOG_LEVEL_META_KEY)
        return wanted if wanted in LOG_LEVELS else None

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send `notifications/progress`; the SDK drops it if the client gave no token."""
        await self._ctx.session.report_progress(progress, total, message)

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send `notifications/message` if the client wants that level.

        A modern client says so with each request, a legacy client once with `logging/setLevel`.
        """
        if not is_loud_enough(level, self.log_level):
            return
        params: JSON = {"level": level, "data": data, **({} if logger is None else {"logger": logger})}
        await _channel(self._ctx).notify(LOG_MESSAGE, params)

    async def push(self, method: str, params: JSON) -> JSON:
        """Send a request to the client, on the stream of this request, and return its result."""
        if (missing := missing_capability(method, params, self.client_capabilities)) is not None:
            raise ClientCapabilityError(missing)
        params = as_declared(method, params, self.client_capabilities)
        asked = for_legacy_question(method, params, uuid4().hex)
        if problem := question_problem(method, asked):
            raise AnswerError(f"{method} cannot be asked: {problem}")
        try:
            options: CallOptions = {}
            if (told := reports()) is not None:
                options["on_progress"] = told
            answer = await _channel(self._ctx).send_raw_request(method, asked or None, options)
        except NoBackChannelError:
            raise AnswerError(f"{method}: this connection has no way back to the client") from None
        except MCPError as error:
            refusal = ProtocolError(error.code, error.message, error.data)
            raise AnswerError(f"the client refused {method}: {error.message}", refusal) from error
        if problem := answer_problem(method, answer):
            raise AnswerError(f"the client's answer to {method} is malformed: {problem}")
        return answer

    async def close_stream(self) -> None:
        """End the event stream that carries the answer, where the client can resume it."""
        if self._ctx.close_sse_stream is not None:
            await self._ctx.close_sse_stream()


def connection_of(ctx: Context) -> Connection:
    """The client's connection, which outlives its requests.

    The SDK has no public way from a request to its connection; this is the one place that takes the private one.
    """
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def client_name(ctx: Context) -> str:
    """How the client introduces itself (`clientInfo.name`): in the handshake, or with each modern request."""
    params = connection_of(ctx).client_params
    meta: Any = (ctx.params or {}).get("_meta")
    info: Any = meta.get(CLIENT_INFO_META_KEY) if is_object(meta) else None
    if is_modern(ctx.protocol_version) and is_object(info):
        return str(info.get("name"))
    return "" if params is None else params.client_info.name


def _channel(ctx: Context) -> Outbound:
    """The way to the client that belongs to a request: on its own stream, where there is one.

    As with the connection, there is no public way; typed messages would lose what the SDK's models do not know.
    """
    if ctx.request_id is None:  # a notification has no stream to ask on
        return connection_of(ctx).outbound
    return ctx.session._request_outbound  # pyright: ignore[reportPrivateUsage]


def set_log_level(ctx: Context, level: str) -> None:
    """Remember the level that a legacy client asked for (MCP 2025-11-25, server/utilities/logging)."""
    connection_of(ctx).state[_LOG_LEVEL] = level


def log_level_of(connection: Connection) -> str:
    """The level that a legacy client asked for, or what counts until it does."""
    level: str = connection.state.get(_LOG_LEVEL, _DEFAULT_LOG_LEVEL)
    return level
