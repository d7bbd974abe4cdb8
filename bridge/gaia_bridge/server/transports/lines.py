"""The lines of a stream as messages, and answers as lines: an invalid line gets an error, a batch a batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.protocol.framing import OversizedLine
from gaia_bridge.protocol.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    decoded,
    encoded_error,
    is_plain_request,
    is_request,
    message_problem,
    oversized,
)
from gaia_bridge.server.connection import PlainChannel, Send
from gaia_bridge.server.direct_calls import DirectClient
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.text.json_types import JSON, is_array

logger = logging.getLogger(__name__)


class _Batch:
    """The answers to one batch: they are sent together (JSON-RPC 2.0, section 6)."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.waiting = 0
        """Requests that are not answered yet."""
        self.is_read = False
        """Whether all messages of the batch were passed on; the first may be answered while others are."""


def at_once(writer: asyncio.StreamWriter) -> Callable[[bytes], bool]:
    """Return a function that writes a line without waiting, if it is not empty; it returns whether all was read."""

    transport = writer.transport  # whose methods take less time than those around them

    def write(line: bytes) -> bool:
        if transport.is_closing():
            return False
        if line:
            transport.write(line + b"\n")
        return not transport.get_write_buffer_size()

    return write


class LineClient:
    """One client's lines, and the answers to them.

    Args:
        write: Writes a line, without its end.
        batch: How many messages may come at once.
        asked: The largest id of a request that the client was sent before, by another process.
        folder: The folder that it was started in, if it is a program of this user.
        cut: Ends the stream of a client that leaves too much unread, where that can be done.
        write_at_once: Writes a line without waiting, if it is not empty; returns whether all was read before.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        write: Send,
        batch: int,
        asked: int = 0,
        folder: str | None = None,
        cut: Callable[[], None] | None = None,
        write_at_once: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._write = write
        self._write_at_once = write_at_once
        self._most = batch
        self._client = DuplexClient(dispatcher, PlainChannel(write), asked=asked, folder=folder, cut=cut)
        self._waiting = 0
        self._none_left: asyncio.Future[None] | None = None

    async def take(self, line: bytes | OversizedLine) -> None:
        """Answer a line, valid or not."""
        content = oversized(line) if isinstance(line, OversizedLine) else decoded(line)
        size = 0 if isinstance(line, OversizedLine) else len(line)
        write = self._write_at_once
        if write is not None and write(b"") and self._client.begin_direct(content, size, self):
            self._waiting += 1
            return
        if is_plain_request(content):
            await self._pass_on(content, None, size)
        elif is_array(content):
            await self._take_batch(content)
        elif isinstance(content, Refusal):
            await self._write(encoded_error(content))
        elif refusal := message_problem(content):
            await self._write(encoded_error(refusal))
        else:
            await self._pass_on(content, None, size)

    @property
    def can_answer(self) -> bool:
        """Whether the client has read what was written before; see `DirectPlace`."""
        return self._write_at_once is not None and self._write_at_once(b"")

    def send_direct(self, body: bytes, client: DirectClient) -> None:
        """Send the answer to a direct call; see `DirectPlace`."""
        if self._write_at_once is not None:
            self._write_at_once(body)
        self._count_answer()

    def begin_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with a direct call."""
        self._client.begin_ordinary(call, partial(self._answered, None))

    def close(self) -> None:
        """Cancel the client's requests, because it is gone."""
        self._client.close()

    @property
    def name(self) -> str:
        """Name and version of the client, as it sends them in its handshake; empty before."""
        return self._client.name

    @property
    def is_waiting(self) -> bool:
        """Whether a request is not answered yet."""
        return self._waiting > 0

    async def none_left(self) -> None:
        """Wait until every request is answered."""
        if self._waiting:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left

    async def _take_batch(self, messages: list[Any]) -> None:
        if refusal := batch_problem(messages, self._client.agreed, self._most):
            await self._write(encoded_error(refusal))
            return
        logger.info("a batch of %d messages came", len(messages))
        batch = _Batch()
        for message in messages:
            if refusal := batched_problem(message):
                batch.answers.append(encoded_error(refusal))
            else:
                await self._pass_on(message, batch, 0)
        batch.is_read = True
        await self._write_if_over(batch)

    async def _pass_on(self, message: JSON, batch: _Batch | None, size: int) -> None:
        if not is_request(message) or message["method"] == "subscriptions/listen":  # open until someone ends it
            await self._client.take(message, size)
            return
        self._waiting += 1
        if batch is not None:
            batch.waiting += 1
        await self._client.take(message, size, partial(self._answered, batch))

    async def _answered(self, batch: _Batch | None, answer: bytes) -> None:
        """Handle the end of a request: answered, or cancelled, which gets no answer."""
        if batch is None:
            if answer:
                await self._write(answer)
        else:
            if answer:
                batch.answers.append(answer)
            batch.waiting -= 1
            await self._write_if_over(batch)
        self._count_answer()

    def _count_answer(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    async def _write_if_over(self, batch: _Batch) -> None:
        if batch.is_read and batch.answers and not batch.waiting:
            await self._write(b"[" + b",".join(batch.answers) + b"]")
