"""Results go out as they are: plain JSON, with the fields that the SDK's models do not know.

The SDK gives every result the envelope of the client's revision, and drops from it what that revision does not define.
Here it is given an empty result for that, and what the source returned is put into the envelope afterwards. Whether it
is a result at all was looked at where it came from (`wire.result_problem`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec

from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.inbound.client_request import Context
from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.results import is_input_required
from gaia_bridge.wire import LIST_FIELDS, is_modern

__all__ = ["PlainResults", "plainly"]

_P = ParamSpec("_P")

_EMPTY: Final[Mapping[str, JSON]] = {
    "tools/call": {"content": []},
    "prompts/get": {"messages": []},
    "resources/read": {"contents": [], "ttlMs": 0, "cacheScope": "private"},
    "completion/complete": {"completion": {"values": []}},
    **{method: {field: [], "ttlMs": 0, "cacheScope": "private"} for method, field in LIST_FIELDS.values()},
}
"""A result of each method that every revision takes."""

_MODERN_ENVELOPE: Final = ("resultType", "ttlMs", "cacheScope")
"""What the results of earlier revisions do not have."""

_results: ContextVar[list[JSON]] = ContextVar("results")


def plainly(method: str, handler: Callable[_P, Awaitable[JSON]]) -> Callable[_P, Awaitable[JSON]]:
    """A handler whose results go out as they are, where there is a `PlainResults` among the server's middleware."""

    @wraps(handler)
    async def answer(*args: _P.args, **kwargs: _P.kwargs) -> JSON:
        result = await handler(*args, **kwargs)
        if is_input_required(result):  # the SDK has its part in these, and takes them as they are
            return result
        _results.get().append(result)
        return {"resultType": "complete", **_EMPTY[method]}

    return answer


class PlainResults:
    """Middleware that puts what a handler returned into the envelope that the SDK made."""

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        returned: list[JSON] = []
        token = _results.set(returned)
        try:
            envelope: HandlerResult = await call_next(ctx)
        finally:
            _results.reset(token)
        if not returned or not is_object(envelope):
            return envelope
        return _enveloped(returned[0], envelope, modern=is_modern(ctx.protocol_version))


def _enveloped(result: JSON, envelope: JSON, *, modern: bool) -> JSON:
    if not modern:
        return {key: value for key, value in result.items() if key not in _MODERN_ENVELOPE}
    whole = {key: envelope[key] for key in _MODERN_ENVELOPE if key in envelope} | result
    stamp, meta = envelope.get("_meta"), result.get("_meta")
    if is_object(stamp):  # what is none of the core may hold anything
        whole["_meta"] = {**stamp, **meta} if is_object(meta) else stamp
    return whole
