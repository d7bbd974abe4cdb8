"""Keeps results for a while, where their tool or resource declares that they stay the same."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.protocol.meta import forwarded_meta
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_object

_NO_ARGUMENT: Final = frozenset(("_meta", "inputResponses", "requestState"))
"""Parameters that are no part of the question."""
_TRACE: Final = frozenset(("traceparent", "tracestate"))
"""Keys that differ in each request, and on which no answer depends."""


class _CachedResult(Struct):
    result: JSON
    since: float
    until: float
    size: int


class ResultCache(Middleware):
    """Answers repeated requests from memory.

    Kept are the results of tools that say of themselves `readOnlyHint` and either `idempotentHint` or that their world
    is not open (`openWorldHint: false`); and resources, for as long as they say themselves (`ttlMs`, 2026-07-28).
    Errors and questions are not kept. They are forgotten when the endpoint's tools, or that resource, change, and all
    of them when a tool is called that is not read-only, at whichever endpoint.

    Two requests are the same where name, arguments, what the client can do, and its own words in `_meta` are. A client
    of 2026-07-28 over HTTP is known by its address, as nothing else ties its requests together. What another bridge or
    an agent asks for its clients, who cannot be told apart, is not kept.

    Args:
        seconds: How long results are kept, at most.
        per_client: Whether each client has results of its own. `False` only where no tool looks at who asks.
        entries: How many results are kept.
        size: Bytes of all of them together.
    """

    def __init__(
        self, seconds: float = 30.0, *, per_client: bool = True, entries: int = 1_024, size: int = 16 * 1_048_576
    ) -> None:
        self._seconds = seconds
        self._per_client = per_client
        self._entries = entries
        self._size = size
        self._kept: OrderedDict[tuple[Hashable, ...], _CachedResult] = OrderedDict()
        self._used = 0
        self._clients: set[Hashable] = set()
        self._changes = 0

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Answer from memory, if the tool permits."""
        hints = request.annotations
        if hints.get("readOnlyHint") is not True:
            self._forget_all()
            try:
                return await call_next(request)
            finally:
                self._forget_all()
        if hints.get("idempotentHint") is not True and hints.get("openWorldHint") is not False:
            return await call_next(request)
        return await self._answer(request, call_next)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Answer from memory, if the resource permitted it."""
        return await self._answer(request, call_next)

    def on_change(self, endpoint: str, change: Change) -> None:
        """Forget the results that the change may have made wrong."""
        match change.kind:
            case ChangeKind.TOOLS:
                self._forget("tools/call", endpoint)
            case ChangeKind.RESOURCES:
                self._forget("resources/read", endpoint)
            case ChangeKind.RESOURCE_UPDATED:
                self._forget("resources/read", endpoint, change.uri)
            case _:
                pass

    async def _answer(self, request: McpRequest, call_next: CallNext) -> JSON:
        if request.is_continued or (self._per_client and HOPS_META_KEY in (request.params.get("_meta") or {})):
            return await call_next(request)
        key = self._key(request)
        kept = self._kept.get(key)
        if kept is not None:
            if time.monotonic() < kept.until:
                self._kept.move_to_end(key)
                return _aged(kept)
            self._drop(key)
        changes = self._changes
        result = await call_next(request)
        seconds = self._seconds if request.method == "tools/call" else min(self._seconds, _seconds_of(result))
        # A result may lack a change that came while it was on its way.
        may_share = self._per_client or result.get("cacheScope") != "private"
        if seconds > 0 and changes == self._changes and may_share and _is_final(result):
            now = time.monotonic()
            self._keep(key, _CachedResult(result, now, now + seconds, len(to_json(result))), request)
        return result

    def _key(self, request: McpRequest) -> tuple[Hashable, ...]:
        asked = {key: value for key, value in request.params.items() if key not in _NO_ARGUMENT}
        client = request.client_request
        who = client.principal if self._per_client else None
        # Agents see both, and servers are sent them.
        about = {key: value for key, value in (forwarded_meta(request.params) or {}).items() if key not in _TRACE}
        seen = _canonical(about), _canonical(client.client_capabilities)
        return request.method, request.endpoint, request.name, who, client.modern, seen, _canonical(asked)

    def _keep(self, key: tuple[Hashable, ...], kept: _CachedResult, request: McpRequest) -> None:
        if kept.size > self._size:
            return
        if key in self._kept:
            self._drop(key)
        self._kept[key] = kept
        self._used += kept.size
        while len(self._kept) > self._entries or self._used > self._size:
            self._drop(next(iter(self._kept)))
        client = request.client_request.principal
        if self._per_client and client not in self._clients and key in self._kept:

            def left() -> None:
                self._clients.discard(client)
                for mine in [mine for mine in self._kept if mine[3] == client]:
                    self._drop(mine)

            if request.client_request.when_client_leaves(left):
                self._clients.add(client)

    def _forget(self, method: str, endpoint: str, name: str | None = None) -> None:
        self._changes += 1
        for key in [key for key in self._kept if key[:2] == (method, endpoint) and name in (None, key[2])]:
            self._drop(key)

    def _forget_all(self) -> None:
        """Forget everything, of all endpoints: an agent or server may be published at several."""
        self._changes += 1
        self._kept.clear()
        self._used = 0

    def _drop(self, key: tuple[Hashable, ...]) -> None:
        self._used -= self._kept.pop(key).size


def _aged(kept: _CachedResult) -> JSON:
    """Return the result as it is now: a part of the `ttlMs` of a resource is over."""
    if "ttlMs" not in kept.result:
        return kept.result
    left = _seconds_of(kept.result) - (time.monotonic() - kept.since)
    return {**kept.result, "ttlMs": max(0, int(1_000 * left))}


def _canonical(value: Any) -> Hashable:
    """Return a value that is equal for equal JSON, whatever the order of its members; `1`, `1.0` and `true` differ."""
    if is_object(value):
        return frozenset((key, _canonical(item)) for key, item in value.items())
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(_canonical(item) for item in items)
    return type(value), value  # pyright: ignore[reportUnknownVariableType]


def _is_final(result: JSON) -> bool:
    return (
        result.get("isError") is not True
        and "task" not in result
        and result.get("resultType", "complete") == "complete"
    )


def _seconds_of(result: JSON) -> float:
    """Return how many seconds a resource may be kept, by its own `ttlMs`; 0 without one."""
    ttl = result.get("ttlMs")
    return ttl / 1_000 if isinstance(ttl, (int, float)) and not isinstance(ttl, bool) else 0.0
