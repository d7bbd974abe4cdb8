"""The lines of a stream as messages, and messages as lines: what is no message is answered, a batch as a batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gaia_bridge.framing import OversizedLine
from gaia_bridge.inbound.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    decoded,
    error_bytes,
    identifier,
    message_problem,
    oversized,
)
from gaia_bridge.jsontypes import is_array

__all__ = ["Conversation"]

logger = logging.getLogger(__name__)


Write = Callable[[bytes], Awaitable[bool]]
"""Writes a line, without its end; returns whether there was somebody to write to."""


class _Batch:
    """The answers to one batch: they are sent together (JSON-RPC 2.0, section 6)."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.waiting: set[RequestId] = set()
        self.read = False
        """Whether all of its messages were passed on; the first may be answered while others are."""


class Conversation:
    """One client's lines, and the answers to them.

    Args:
        to_server: Takes the messages.
        write: Writes to the client.
        batch: How many messages may come at once.
    """

    def __init__(self, to_server: MemoryObjectSendStream[SessionMessage | Exception], write: Write, batch: int) -> None:
        self._to_server = to_server
        self._write = write
        self._most = batch
        self._revision: str | None = None
        self._greeting: RequestId | None = None
        self._in_flight: dict[RequestId, _Batch | None] = {}
        self._change = anyio.Event()

    async def take(self, line: bytes | OversizedLine) -> None:
        """Pass a message on, or answer a line that is none (F-074, F-075, F-077); the SDK would stay silent."""
        content = oversized(line) if isinstance(line, OversizedLine) else decoded(line)
        if is_array(content):
            await self._take_batch(content)
        elif refusal := content if isinstance(content, Refusal) else await self._pass_on(content, None):
            await self._write(error_bytes(refusal))

    async def tell(self, item: SessionMessage) -> bool:
        """Write a message of the server, or keep it until the batch that it belongs to is answered.

        Returns:
            Whether there was somebody to write to.
        """
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return await self._write(_encode(item))
        if message.id == self._greeting and isinstance(message, JSONRPCResponse):
            self._revision = message.result.get("protocolVersion")
        batch = self._in_flight.get(message.id)
        if batch is not None:
            batch.answers.append(_encode(item))
            return await self._answered(message.id)
        await self._answered(message.id)
        return await self._write(_encode(item))

    @property
    def is_waiting(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self._in_flight)

    async def none_left(self) -> None:
        """Wait until every request is answered."""
        while self._in_flight:
            self._change = anyio.Event()
            await self._change.wait()

    async def _take_batch(self, messages: list[Any]) -> None:
        if refusal := batch_problem(messages, self._revision, self._most):
            await self._write(error_bytes(refusal))
            return
        logger.info("a batch of %d messages came", len(messages))
        batch = _Batch()
        for message in messages:
            if refusal := await self._pass_on(message, batch):
                batch.answers.append(error_bytes(refusal))
        batch.read = True
        await self._write_if_over(batch)

    async def _pass_on(self, message: object, batch: _Batch | None) -> Refusal | None:
        if problem := message_problem(message) if batch is None else batched_problem(message):
            return problem
        try:
            item = SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
        except ValidationError:
            return Refusal(INVALID_REQUEST, "Not a JSON-RPC 2.0 request, notification or response", identifier(message))
        match item.message:
            case JSONRPCRequest(id=request_id) if batch is not None and request_id in self._in_flight:
                return Refusal(INVALID_REQUEST, "This id belongs to a request that is not answered yet", request_id)
            case JSONRPCRequest(method="subscriptions/listen"):
                pass  # open until someone ends it
            case JSONRPCRequest():
                self._asked(item.message, batch)
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as request_id}
            ):
                await self._answered(request_id)
            case _:
                pass
        await self._to_server.send(item)
        return None

    def _asked(self, request: JSONRPCRequest, batch: _Batch | None) -> None:
        self._in_flight[request.id] = batch
        if request.method == "initialize":
            self._greeting = request.id
        if batch is not None:
            batch.waiting.add(request.id)

    async def _answered(self, request_id: RequestId) -> bool:
        """A request is over, answered or not."""
        batch = self._in_flight.pop(request_id, None)
        self._change.set()
        if batch is None:
            return True
        batch.waiting.discard(request_id)
        return await self._write_if_over(batch)

    async def _write_if_over(self, batch: _Batch) -> bool:
        if batch.waiting or not batch.read or not batch.answers:
            return True
        return await self._write(b"[" + b",".join(batch.answers) + b"]")


def _encode(item: SessionMessage) -> bytes:
    try:
        return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:
        # A lone surrogate that came in from a client, such as in the name of an unknown tool (F-105).
        return json.dumps(item.message.model_dump(by_alias=True, exclude_unset=True)).encode()
