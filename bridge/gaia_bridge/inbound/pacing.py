"""Large results go out one after the other: each is written in steps that nobody else can interrupt.

Sixteen of them at once would take the event loop for seconds, since all are ready at the same time. Here the next one
is let go when the loop has gone around a few times since the last: everybody else had a turn in between.
"""

from __future__ import annotations

from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.inbound.client_request import Context
from gaia_bridge.jsontypes import is_larger

__all__ = ["Pacing"]

_TURNS: Final = 20
"""Turns of the loop: there are about a dozen steps between a result and the socket."""


class Pacing:
    """Middleware that lets large results go one by one.

    Args:
        large: Bytes from which on a result is large.
    """

    def __init__(self, large: int) -> None:
        self._large = large
        self._turn = anyio.Lock()

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Pass a request on, and its result when it is its turn."""
        result = await call_next(ctx)
        if is_larger(result, self._large):
            async with self._turn:
                for _ in range(_TURNS):
                    await checkpoint()
        return result
