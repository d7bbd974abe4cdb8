"""Serves one endpoint on standard input and output.

The pipes are read and written by the event loop itself: half the cost of the SDK's worker threads, and signals work
while it waits. Files and terminals, for which a loop cannot wait, are copied from and to pipes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import anyio.to_thread
from msgspec import Struct

from gaia_bridge.protocol.framing import LineFramer
from gaia_bridge.runtime.descriptors import reserve_descriptors
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.runtime.pipe_end import PipeEnd
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.lines import LineClient, at_once

logger = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_COPY_TIMEOUT = 1.0
"""Seconds for the last output to reach a file or a terminal."""


class ClaimedStdio(Struct, frozen=True):
    """The process's standard input and output, which other code cannot reach any more."""

    reading: int
    """File descriptor of the former standard input."""
    writing: int
    """File descriptor of the former standard output."""


def claim_stdio() -> ClaimedStdio:
    """Take standard input and output away before any agent code runs.

    From here on, `print`, `os.write(1, ...)`, child processes and C code write to standard error, and reading
    standard input finds it empty: nothing but MCP reaches the client.
    """
    import fcntl

    reserve_descriptors()
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    reading = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    writing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    for descriptor in (reading, writing):
        FORKS.conceal(descriptor)
    return ClaimedStdio(reading, writing)


async def serve_stdio(
    dispatcher: Dispatcher, claimed: ClaimedStdio, *, line_bytes: int, batch: int, grace: float, starting: float
) -> None:
    """Serve until the client closes our input. All messages before the end are written out.

    Args:
        batch: How many messages may come at once.
        grace: Seconds for requests in flight to finish after the end of input.
        starting: Seconds that they are kept before that while they wait for a server to start.
    """
    async with _reader(claimed.reading) as reader, _writer(claimed.writing) as writer:
        closed = asyncio.Event()

        async def write(line: bytes) -> None:
            if not await _write(writer, line + b"\n") and not closed.is_set():
                logger.debug("the client closed our output")
                closed.set()

        client = LineClient(dispatcher, write, batch, write_at_once=at_once(writer))
        try:
            await _first_of(closed.wait, partial(_read_lines, reader, client, line_bytes))
            if not closed.is_set():  # `printf ... | gaia-bridge` deserves answers
                await _first_of(closed.wait, partial(wait_for_answers, client, dispatcher.catalog, grace, starting))
        finally:
            client.close()


@asynccontextmanager
async def stdio_streams(
    claimed: ClaimedStdio,
) -> AsyncGenerator[tuple[asyncio.StreamReader, Callable[[bytes], Awaitable[bool]]]]:
    """Open the two streams, for another protocol than MCP.

    Yields:
        The reader; and a function that writes, and returns whether the other end was open.
    """
    async with _reader(claimed.reading) as reader, _writer(claimed.writing) as writer:
        yield reader, partial(_write, writer)


async def wait_for_answers(client: LineClient, catalog: Catalog, grace: float, starting: float) -> None:
    """Wait for the answers to a client whose input has ended; no longer for a call that hangs because a server does.

    Args:
        grace: Seconds in which they have to come.
        starting: Further seconds for them while a server starts for one of them.
    """
    if client.is_waiting:
        await catalog.settle()
    until = anyio.current_time() + starting
    with anyio.move_on_after(grace):
        await client.none_left()
    while client.is_waiting and catalog.awaited and anyio.current_time() < until:
        with anyio.CancelScope(deadline=until):
            await _first_of(catalog.started, client.none_left)
        with anyio.move_on_after(grace):
            await client.none_left()


async def _read_lines(reader: asyncio.StreamReader, client: LineClient, line_bytes: int) -> None:
    framer = LineFramer(line_bytes)
    while chunk := await reader.read(_CHUNK):
        for line in framer.feed(chunk):
            await client.take(line)
    for line in framer.end():
        await client.take(line)


async def _first_of(*functions: Callable[[], Awaitable[object]]) -> None:
    """Run functions until one of them is done."""
    async with anyio.create_task_group() as tasks:

        async def run(function: Callable[[], Awaitable[object]]) -> None:
            await function()
            tasks.cancel_scope.cancel()

        for function in functions:
            tasks.start_soon(run, function)


@asynccontextmanager
async def _reader(descriptor: int) -> AsyncGenerator[asyncio.StreamReader]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await PipeEnd(_source(descriptor)).connect_reader(lambda: asyncio.StreamReaderProtocol(reader))
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def _writer(descriptor: int) -> AsyncGenerator[asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    target, copying = _target(descriptor)
    transport, protocol = await PipeEnd(target).connect_writer(lambda: asyncio.streams.FlowControlMixin(loop))
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
    """Write; return whether the other end was open: a transport closes itself when its other end is closed."""
    if writer.is_closing():
        return False
    try:
        writer.write(data)
        await writer.drain()
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _source(descriptor: int) -> int:
    """Return a descriptor with the same input, for an event loop to wait for."""
    if _watchable(descriptor):
        return descriptor
    reading, writing = os.pipe()
    _start_copying(descriptor, writing)
    return reading


def _target(descriptor: int) -> tuple[int, threading.Thread | None]:
    """Return a descriptor that leads to the same output, for an event loop to wait for, and the thread that copies."""
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
    """Return whether an event loop can wait for it. A terminal is shared by both directions, and by other programs."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
