"""The requests of one endpoint that can be cancelled, and the reasons that clients give.

The SDK cancels a request as soon as it reads the notification, and forgets its reason. So whoever sees the message
before the SDK leaves the reason where the tasks of the request find it.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.cancellation import Cancellation
from gaia_bridge.inbound.client_request import Context
from gaia_bridge.jsontypes import is_object

__all__ = ["Cancellations"]

_METHOD = "notifications/cancelled"


class Cancellations:
    """Middleware that knows the requests in flight."""

    def __init__(self) -> None:
        self._open: dict[tuple[str | None, str], Cancellation] = {}

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one request; its tasks find the reason."""
        if ctx.request_id is None:
            return await call_next(ctx)
        key = _channel(ctx.request), str(ctx.request_id)
        cancellation = self._open[key] = Cancellation()
        try:
            with cancellation.entered():
                return await call_next(ctx)
        finally:
            if self._open.get(key) is cancellation:
                del self._open[key]

    def heard(self, method: object, params: object, request: object) -> None:
        """A message came, which the SDK has not seen yet.

        Args:
            method: Its method, if it has one.
            params: Its parameters, if it has some.
            request: The HTTP request that it came with, if it did.
        """
        if method != _METHOD or not is_object(params):
            return
        cancellation = self._open.get((_channel(request), str(params.get("requestId"))))
        if cancellation is not None and isinstance(reason := params.get("reason"), str):
            cancellation.reason = reason


def _channel(request: Any) -> str | None:
    """Which connection a message came on, as far as it matters: of stdio, an endpoint has one."""
    if request is None:
        return None
    session: str | None = request.headers.get("mcp-session-id") or request.query_params.get("session_id")
    return session
