"""What goes out: text that UTF-8 can carry, large results one after the other, and a line in the log for each call.

All three want to see a result written, so that is done once. Large results are written in steps that nobody else can
interrupt. Sixteen of them at once would take the event loop for seconds, since all are ready at the same time. Here the
next one is let go when the loop has gone around a few times since the last: everybody else had a turn in between.
Before that, calls wait while too much is on its way to their client (`backlog`).
"""

from __future__ import annotations

from typing import Final

import anyio
from anyio.lowlevel import checkpoint
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.backlog import Backlog, Turn, current_outlet
from gaia_bridge.inbound.call_log import CALLS, CallLog
from gaia_bridge.inbound.client_request import Context, SdkClientRequest
from gaia_bridge.jsontypes import is_object
from gaia_bridge.text import valid_json_of_size

__all__ = ["Outgoing"]

_TURNS: Final = 20
"""Turns of the loop: there are about a dozen steps between a result and the socket."""


class Outgoing:
    """Middleware, outside of all that makes or changes results.

    Args:
        calls: Told of each call, and what came of it.
        large: Bytes from which on a result is large.
        backlog: What is on its way to clients.
    """

    def __init__(self, calls: CallLog, large: int, backlog: Backlog) -> None:
        self._calls = calls
        self._backlog = backlog
        self._large = large
        self._turn = anyio.Lock()

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Pass a request on, and its result when it is its turn."""
        call = self._calls.begin(ctx)
        turn: Turn | None = None
        try:
            turn = await self._begun(ctx)
            result = await call_next(ctx)
            size = 0
            if is_object(result):
                # Whatever wrote it: a transport that cannot write one ends (F-300).
                result, size = valid_json_of_size(result)
            if turn is not None:
                turn.answered(size)
            if size > self._large:
                await self._my_turn()
        except BaseException as error:
            if turn is not None:
                turn.over()
            if call is not None:
                call.failed(error)
            raise
        if call is not None:
            call.answered(result, size)
        return result

    async def _begun(self, ctx: Context) -> Turn | None:
        """Wait until a call may be made; `None` where nothing large can come of a request."""
        if ctx.method not in CALLS or ctx.request_id is None:
            return None
        outlet = current_outlet()
        client = outlet if outlet is not None and outlet.is_stream else SdkClientRequest(ctx, {}, None).client
        target = ctx.method, str((ctx.params or {}).get(CALLS[ctx.method]))
        try:
            turn = await self._backlog.begin(client, target, outlet)
        except ProtocolError as error:
            raise MCPError(error.code, error.message) from None
        if outlet is not None:
            outlet.expect(ctx.request_id, turn)
        return turn

    async def _my_turn(self) -> None:
        async with self._turn:
            for _ in range(_TURNS):
                await checkpoint()
