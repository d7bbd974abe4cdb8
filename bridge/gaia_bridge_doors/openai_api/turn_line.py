"""The line of the call log for a turn over HTTP."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from gaia_bridge_doors.conversation.turn_log import TurnLog


class TurnLine(TurnLog):
    """What is told of a turn that was asked for by one request over HTTP.

    Args:
        scope: The request.
        send: Where its answer goes.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        client = Headers(scope=scope).get("user-agent", "unknown")
        super().__init__(scope["path"], client, ":".join(map(str, scope.get("client") or ())))
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)
