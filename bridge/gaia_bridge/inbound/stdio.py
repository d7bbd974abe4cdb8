"""Serves one endpoint on standard input and output.

The pipes are read and written by the event loop itself: half the cost of the SDK's worker threads, and signals work
while it waits. What a loop cannot wait for (files and terminals) is copied from and to pipes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from gaia_bridge.framing import LineFramer, OversizedLine
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.dual_era import DiscoverTolerantStream
from gaia_bridge.inbound.server import Endpoint

__all__ = ["ClaimedStdio", "claim_stdio", "serve_stdio"]

logger = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_COPY_TIMEOUT = 1.0
"""Seconds for what was written to reach a file or a terminal."""

_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@dataclass(frozen=True, slots=True)
class ClaimedStdio:
    """The process's standard input and output, out of everyone else's reach."""

    reading: int
    """File descriptor of what was standard input."""
    writing: int
    """File descriptor of what was standard output."""


def claim_stdio() -> ClaimedStdio:
    """Take standard input and output away before any agent code runs.

    From here on, `print`, `os.write(1, ...)`, child processes and C code write to standard error, and reading
    standard input finds it empty: nothing but MCP reaches the client (P-7, F-108, S-12).
    """
    import fcntl

    for descriptor in range(3):
        _open_if_closed(descriptor)
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    reading = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    writing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return ClaimedStdio(reading, writing)


async def serve_stdio(endpoint: Endpoint, claimed: ClaimedStdio | None, *, line_bytes: int, grace: float) -> None:
    """Serve until the client closes our input.

    Args:
        endpoint: What to serve.
        claimed: What `claim_stdio` returned; without it, the SDK takes the standard streams itself.
        line_bytes: The longest line that is accepted.
        grace: Seconds for requests in flight to finish after the end of input.
    """
    streams = stdio_server() if claimed is None else _piped(claimed, line_bytes, grace, endpoint.catalog)
    async with streams as (incoming, outgoing):
        tolerant = DiscoverTolerantStream(endpoint.server, incoming, outgoing, endpoint.check)
        await serve_dual_era_loop(endpoint.server, tolerant, outgoing, lifespan_state={})


@asynccontextmanager
async def _piped(claimed: ClaimedStdio, line_bytes: int, grace: float, catalog: Catalog) -> AsyncGenerator[_Streams]:
    """The claimed descriptors as a pair of message streams. Everything sent before the end is written out."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
    in_flight = _InFlight()
    async with (
        to_server,
        incoming,
        outgoing,
        from_server,
        _reader(claimed.reading) as reader,
        _writer(claimed.writing) as writer,
        anyio.create_task_group() as tasks,
    ):

        async def pump_in() -> None:
            framer = LineFramer(line_bytes)
            async with to_server, outgoing.clone() as refusals:
                while chunk := await reader.read(_CHUNK):
                    for line in framer.feed(chunk):
                        await _take(line, to_server, refusals, in_flight)
                for line in framer.end():
                    await _take(line, to_server, refusals, in_flight)
                # The SDK cancels what is in flight once the stream ends; `printf ... | gaia-bridge` deserves answers.
                if in_flight:
                    await catalog.settle()
                with anyio.move_on_after(grace):
                    await in_flight.none_left()
                    await catalog.learn()  # so that the next run need not wait for it

        async def pump_out() -> None:
            async with from_server:
                async for item in from_server:
                    in_flight.answered(item)
                    if not await _write(writer, _encode(item) + b"\n"):
                        logger.debug("the client closed our output")
                        break
            written.set()
            tasks.cancel_scope.cancel()

        written = anyio.Event()
        tasks.start_soon(pump_in)
        tasks.start_soon(pump_out)
        yield incoming, outgoing
        incoming.close()
        await outgoing.aclose()
        with anyio.move_on_after(grace):
            await written.wait()
        tasks.cancel_scope.cancel()


class _InFlight:
    """The requests that were passed on and not answered yet."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._change = anyio.Event()

    def asked(self, item: SessionMessage) -> None:
        match item.message:
            case JSONRPCRequest(method="subscriptions/listen"):
                pass  # open until someone ends it
            case JSONRPCRequest(id=request_id):
                self._ids.add(request_id)
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as request_id}
            ):
                self._answered(request_id)
            case _:
                pass

    def answered(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._answered(item.message.id)

    def __bool__(self) -> bool:
        return bool(self._ids)

    async def none_left(self) -> None:
        while self._ids:
            self._change = anyio.Event()
            await self._change.wait()

    def _answered(self, request_id: RequestId) -> None:
        self._ids.discard(request_id)
        self._change.set()


async def _take(
    line: bytes | OversizedLine,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    in_flight: _InFlight,
) -> None:
    """Pass a message on, or answer a line that is none (F-074, F-075, F-077); the SDK would stay silent."""
    if isinstance(line, OversizedLine):
        problem = ErrorData(
            code=INVALID_REQUEST, message=f"A line of {line.size:,} bytes is longer than this server reads"
        )
    else:
        try:
            item = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError as error:
            problem = _line_problem(line, error)
        else:
            if not (isinstance(item.message, JSONRPCNotification) and "id" in from_json(line)):
                in_flight.asked(item)
                await to_server.send(item)
                return
            # To the SDK, a request with an id that cannot be one is a notification.
            problem = ErrorData(code=INVALID_REQUEST, message="The id of a request must be a string or an integer")
    await refusals.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=problem)))


def _line_problem(line: bytes, error: ValidationError) -> ErrorData:
    if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
        return ErrorData(code=PARSE_ERROR, message="Parse error: a line that is not JSON in UTF-8")
    if line.lstrip().startswith(b"["):
        return ErrorData(code=INVALID_REQUEST, message="Batches are not supported; send one message per line")
    return ErrorData(code=INVALID_REQUEST, message="Not a JSON-RPC 2.0 request, notification or response")


def _encode(item: SessionMessage) -> bytes:
    try:
        return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:
        # A lone surrogate that came in from a client, such as in the name of an unknown tool (F-105).
        return json.dumps(item.message.model_dump(by_alias=True, exclude_unset=True)).encode()


@asynccontextmanager
async def _reader(descriptor: int) -> AsyncGenerator[asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    file: BinaryIO = os.fdopen(_source(descriptor), "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def _writer(descriptor: int) -> AsyncGenerator[asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    target, copying = _target(descriptor)
    file: BinaryIO = os.fdopen(target, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop), file)
    transport.set_write_buffer_limits(high=0)  # `drain` means written, not merely buffered
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        yield writer
    finally:
        with suppress(OSError):
            transport.close()
        if copying is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(copying.join, _COPY_TIMEOUT)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> bool:
    """Whether there was somebody to write to: a transport closes itself when its other end is closed (F-119)."""
    if writer.is_closing():
        return False
    try:
        writer.write(data)
        await writer.drain()
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _open_if_closed(descriptor: int) -> None:
    """Whoever started us may have closed a standard stream; the next file to be opened would take its place."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one: those below are open


def _source(descriptor: int) -> int:
    """A descriptor with the same input, for an event loop to wait for."""
    if _watchable(descriptor):
        return descriptor
    reading, writing = os.pipe()
    _start_copying(descriptor, writing)
    return reading


def _target(descriptor: int) -> tuple[int, threading.Thread | None]:
    """A descriptor that leads to the same output, for an event loop to wait for, and what brings it there."""
    if _watchable(descriptor):
        return descriptor, None
    reading, writing = os.pipe()
    return writing, _start_copying(reading, descriptor)


def _start_copying(source: int, target: int) -> threading.Thread:
    def copy() -> None:
        with suppress(OSError), open(source, "rb", 0) as reading, open(target, "wb") as writing:
            while chunk := reading.read(_CHUNK):
                writing.write(chunk)
                writing.flush()

    thread = threading.Thread(target=copy, name="standard stream", daemon=True)
    thread.start()
    return thread


def _watchable(descriptor: int) -> bool:
    """Whether an event loop can wait for it. A terminal is one device for both directions, and other programs' too."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
