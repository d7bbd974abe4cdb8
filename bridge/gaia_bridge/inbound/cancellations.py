"""The requests of one endpoint that can be cancelled, and the reasons that clients give.

The SDK cancels a request as soon as it reads the notification, and forgets its reason. So whoever sees the message
before the SDK leaves the reason where the tasks of the request find it.
"""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.cancellation import Cancellation
from gaia_bridge.inbound.client_request import Context, connection_of
from gaia_bridge.jsontypes import is_object

__all__ = ["Cancellations"]

_METHOD: Final = "notifications/cancelled"

_PIPE: Final = "stdio"
"""The connection that messages of no HTTP request come on: of stdio, an endpoint has one. No session is called so."""

_NAMED: Final = b"session_id="
"""How a request of SSE names its connection, in its query."""


class Cancellations:
    """Middleware that knows the requests in flight."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Cancellation] = {}

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one request; its tasks find the reason."""
        if ctx.request_id is None:
            return await call_next(ctx)
        channel, cancellation = _channel_of(ctx), Cancellation()
        if channel is None:
            with cancellation.entered():
                return await call_next(ctx)
        key = channel, str(ctx.request_id)
        self._open[key] = cancellation
        try:
            with cancellation.entered():
                return await call_next(ctx)
        finally:
            if self._open.get(key) is cancellation:
                del self._open[key]

    def heard(self, method: object, params: object, request: Any) -> None:
        """A message came, which the SDK has not seen yet.

        Args:
            method: Its method, if it has one.
            params: Its parameters, if it has some.
            request: The HTTP request that it came with, if it did.
        """
        if method != _METHOD or not is_object(params):
            return
        channel = _channel(request, None if request is None else request.headers.get("mcp-session-id"))
        cancellation = None if channel is None else self._open.get((channel, str(params.get("requestId"))))
        if cancellation is not None and isinstance(reason := params.get("reason"), str):
            cancellation.reason = reason


def _channel_of(ctx: Context) -> str | None:
    """The connection that a request came on; `None` if no other message can come on it.

    Clients without sessions may all give their requests the same ids. They cancel them by hanging up, without a word.
    """
    return _channel(ctx.request, connection_of(ctx).session_id)


def _channel(request: Any, session: str | None) -> str | None:
    if request is None:
        return _PIPE
    if session is not None or _NAMED not in request.scope["query_string"]:
        return session
    named: str | None = request.query_params.get("session_id")
    return named
