"""At most so many requests in so much time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError, ToolError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.text.json_types import JSON

_CLIENTS: Final = 1_024
"""Clients that are remembered; of more, the one that asked longest ago begins anew."""


class RateLimit(Middleware):
    """Refuses requests that come too fast, and says when to try again.

    A bucket of `requests` tokens that is filled evenly within `seconds`: so many may come at once after a pause. A
    client of 2026-07-28 over HTTP is known by its address, as nothing else ties its requests together, and so is one of
    OpenAI's API that names no session. The further rounds of a request are no new ones.

    Args:
        requests: How many.
        seconds: In how much time.
        per_client: Whether each client may have so many; else all of them together.
        methods: What counts.

    Raises:
        ValueError: There would be none at all.
    """

    def __init__(
        self,
        requests: int,
        seconds: float = 60.0,
        *,
        per_client: bool = True,
        methods: Collection[str] = ("tools/call", "resources/read", "prompts/get", "completion/complete"),
    ) -> None:
        if requests < 1 or seconds <= 0:
            raise ValueError(f"got {requests} requests in {seconds:g} s; expected at least 1, in more than 0 s")
        self._requests = requests
        self._seconds = seconds
        self._per_client = per_client
        self._methods = frozenset(methods)
        self._buckets: OrderedDict[str | int | None, tuple[float, float]] = OrderedDict()

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Take a token, or refuse."""
        if request.method in self._methods and not request.is_continued:
            wait = self._take(_key_of(request.client_request) if self._per_client else None)
            if wait > 0:
                whose = "of a client" if self._per_client else "of all clients together"
                text = f"Too many requests: {self._requests} {whose} in {self._seconds:g} s are taken"
                text += f"; try again in {wait:.1f} s"
                raise ToolError(text) if request.method == "tools/call" else ProtocolError(INTERNAL_ERROR, text)
        return await call_next(request)

    def _take(self, client: str | int | None) -> float:
        """Take a token; returns how many seconds it is until there is one, if there is none."""
        key, now, rate = client, time.monotonic(), self._requests / self._seconds
        tokens, filled = self._buckets.get(key, (float(self._requests), now))
        tokens = min(float(self._requests), tokens + (now - filled) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        self._buckets[key] = (tokens if wait > 0 else tokens - 1, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return wait


def _key_of(request: ClientRequest) -> str | int:
    """Return whose bucket a request takes from: a text or a number, so that no connection is kept."""
    return request.session_key or hash(request.principal if request.address is None else request.address)
