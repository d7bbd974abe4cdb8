"""A TCP proxy that damages what a server sends: late, slowly, in pieces, with garbage, cut off, or not at all."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

__all__ = ["Toxic", "ToxicProxy", "toxic_proxy"]


@dataclass(frozen=True)
class Toxic:
    """What happens to the bytes of the server on each connection."""

    latency: float = 0.0
    """Seconds before the first byte."""
    bytes_per_second: int | None = None
    split: int | None = None
    """Bytes of one piece."""
    garbage: bytes = b""
    """Sent first."""
    cut_at: int | None = None
    """Bytes after which the connection is closed."""
    reset_after: int | None = None
    """Bytes after which the connection is reset."""
    blackhole: bool = False
    """Take everything, pass on nothing."""

    @property
    def end(self) -> int | None:
        return self.cut_at if self.cut_at is not None else self.reset_after


class ToxicProxy:
    """The proxy; `toxic` may be changed, and holds for connections made from then on."""

    def __init__(self, target: int, toxic: Toxic) -> None:
        self.toxic = toxic
        self.port = 0
        self.connections = 0
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client has connected."""
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer, self.toxic))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cut all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, toxic: Toxic) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        upwards = asyncio.get_running_loop().create_task(_copy(reader, up_writer))
        try:
            if toxic.blackhole:
                await upwards
            else:
                await _damage(up_reader, writer, toxic)
        except ConnectionError:
            pass
        finally:
            upwards.cancel()
            await asyncio.gather(upwards, return_exceptions=True)
            up_writer.close()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _damage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, toxic: Toxic) -> None:
    writer.write(toxic.garbage)
    await asyncio.sleep(toxic.latency)
    passed = 0
    while toxic.end is None or passed < toxic.end:
        data = await reader.read(min(toxic.split or 65_536, 65_536 if toxic.end is None else toxic.end - passed))
        if not data:
            return
        passed += len(data)
        writer.write(data)
        await writer.drain()
        if toxic.bytes_per_second:
            await asyncio.sleep(len(data) / toxic.bytes_per_second)
        elif toxic.split:
            await asyncio.sleep(0)
    if toxic.reset_after is not None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


@asynccontextmanager
async def toxic_proxy(target: int, toxic: Toxic | None = None) -> AsyncGenerator[ToxicProxy]:
    """Run a proxy in front of a port of this machine, for the length of a block."""
    proxy = ToxicProxy(target, toxic or Toxic())
    server = await asyncio.start_server(proxy.connect, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
