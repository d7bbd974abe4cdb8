"""An HTTP server that does what servers must not: the first segment of the path chooses how it misbehaves.

    async with evil_http() as server:
        ... server.url("reset") ... server.hits["reset"] ... server.canary_hits ...

A test that needs a fault of its own puts a handler into `server.faults`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

__all__ = ["EvilServer", "Exchange", "Handler", "evil_http"]

JSON = dict[str, Any]


class Exchange:
    """One request, and the means to answer it in any way."""

    def __init__(
        self, server: EvilServer, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.path = self.target.partition("?")[0].strip("/").split("/")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
        self.names = [line.partition(":")[0].lower() for line in fields]
        self.head = head
        self.body = body
        self.server = server
        self._reader = reader
        self._writer = writer

    @property
    def message(self) -> JSON:
        message: JSON = json.loads(self.body) if self.body else {}
        return message

    @property
    def id(self) -> Any:
        return self.message.get("id")

    def result(self, **result: Any) -> JSON:
        """The response that the request should get."""
        return {"jsonrpc": "2.0", "id": self.id, "result": result or {"for": self.id}}

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)
        await self._writer.drain()

    async def answer(
        self,
        content: JSON | bytes = b"",
        status: int = 200,
        kind: str | None = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole answer with a length."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        fields = {"content-length": str(len(body)), **({"content-type": kind} if kind else {}), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self.raw(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)

    async def chunks(self, kind: str = "text/event-stream", **headers: str) -> None:
        """Begin an answer that comes in chunks."""
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.raw(f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n{lines}\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, message: JSON | str = "", event_id: str | None = None, **fields: str) -> None:
        """Send one event."""
        data = message if isinstance(message, str) else json.dumps(message)
        named = {**({} if event_id is None else {"id": event_id}), **fields, "data": data}
        await self.chunk(("".join(f"{name}: {value}\n" for name, value in named.items()) + "\n").encode())

    async def end(self) -> None:
        """End an answer that came in chunks."""
        await self.raw(b"0\r\n\r\n")

    def close(self) -> None:
        """Close the connection in an orderly way."""
        self._writer.close()

    def reset(self) -> None:
        """Close the connection with a reset."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(1024):
                pass


Handler = Callable[[Exchange], Awaitable[None]]


class EvilServer:
    """The server; made by `evil_http`."""

    def __init__(self) -> None:
        self.faults = dict(FAULTS)
        self.hits: Counter[str] = Counter()
        """Requests, by the first segment of their path."""
        self.seen: list[Exchange] = []
        """All requests."""
        self.connections = 0
        """How many were opened."""
        self.open: set[asyncio.StreamWriter] = set()
        """Those that are open."""
        self.canary_hits = 0
        """Connections to the other server, which nobody has a reason to make."""
        self.canary_port = 0
        self.port = 0
        self.scheme = "http"
        self.sent = 0
        """Bytes of an endless answer."""
        self._closed = asyncio.Event()
        self._arrived = asyncio.Event()

    def url(self, path: str = "good") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{path}"

    def headers_of(self, fault: str) -> dict[str, str]:
        """The headers of the last request for a fault."""
        return [exchange for exchange in self.seen if exchange.path[0] == fault][-1].headers

    async def until_seen(self, fault: str) -> None:
        """Wait until a request for a fault has come."""
        with anyio.fail_after(5):
            while not self.hits[fault]:
                self._arrived.clear()
                await self._arrived.wait()

    async def until_all_closed(self) -> None:
        """Wait until no client is connected any more."""
        with anyio.fail_after(5):
            while self.open:
                self._closed.clear()
                await self._closed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(sizes[0].split(b":")[1])) if sizes else b""
                exchange = Exchange(self, head, body, reader, writer)
                self.hits[exchange.path[0]] += 1
                self.seen.append(exchange)
                self._arrived.set()
                await self.faults[exchange.path[0]](exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            self._closed.set()
            writer.close()

    async def _canary(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.canary_hits += 1
        writer.close()


@asynccontextmanager
async def evil_http(tls: ssl.SSLContext | None = None) -> AsyncGenerator[EvilServer]:
    """Run the server for the length of a block."""
    evil = EvilServer()
    evil.scheme = "http" if tls is None else "https"
    tasks: set[asyncio.Task[None]] = set()

    def started(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> Callable[..., None]:
        def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        return start

    server = await asyncio.start_server(started(evil._serve), "127.0.0.1", 0, ssl=tls)  # pyright: ignore[reportPrivateUsage]
    canary = await asyncio.start_server(started(evil._canary), "127.0.0.1", 0)  # pyright: ignore[reportPrivateUsage]
    evil.port = server.sockets[0].getsockname()[1]
    evil.canary_port = canary.sockets[0].getsockname()[1]
    try:
        yield evil
    finally:
        server.close()
        canary.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# What a server should do


async def good(exchange: Exchange) -> None:
    """Answer requests with JSON, take notifications, offer no stream and no session."""
    if exchange.method != "POST":
        await exchange.answer(status=405 if exchange.method == "GET" else 200, kind=None)
    elif "id" in exchange.message and "method" in exchange.message:
        await exchange.answer(exchange.result())
    else:
        await exchange.answer(status=202, kind=None)


async def streaming(exchange: Exchange) -> None:
    """Answer requests with an event stream that ends a moment after the response."""
    await exchange.chunks()
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"of": exchange.id}})
    await exchange.event(exchange.result())
    await asyncio.sleep(0)
    await exchange.end()


# What it should not do


async def reset(exchange: Exchange) -> None:
    exchange.reset()


async def reset_in_body(exchange: Exchange) -> None:
    await exchange.raw(b'HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"jsonrpc":')
    exchange.reset()


async def drop_in_stream(exchange: Exchange) -> None:
    await exchange.chunks()
    exchange.close()


async def silent(exchange: Exchange) -> None:
    await exchange.until_closed()


async def status(exchange: Exchange) -> None:
    """`status/503` or `status/429/Retry-After value`."""
    wait = {"retry-after": exchange.path[2].replace("_", " ")} if len(exchange.path) > 2 else {}
    await exchange.answer(b"down for maintenance", int(exchange.path[1]), "text/plain", wait)


async def kind(exchange: Exchange) -> None:
    """`kind/text/html` answers with that content type, `kind` without one; `~` stands for a blank."""
    await exchange.answer(exchange.result(), kind="/".join(exchange.path[1:]).replace("~", " ") or None)


async def empty(exchange: Exchange) -> None:
    await exchange.answer(b"", int(exchange.path[1]) if len(exchange.path) > 1 else 200)


async def garbage(exchange: Exchange) -> None:
    await exchange.raw(b"SSH-2.0-OpenSSH_9.2\r\n")
    exchange.close()


async def wrong_id(exchange: Exchange) -> None:
    answered: Any = json.loads(exchange.path[1].replace("~", '"'))
    await exchange.answer({"jsonrpc": "2.0", "id": answered, "result": {"for": "somebody else"}})


async def endless_body(exchange: Exchange) -> None:
    await exchange.chunks("application/json")
    while True:
        await exchange.chunk(b" " * 65_536)
        exchange.server.sent += 65_536


async def endless_event(exchange: Exchange) -> None:
    await exchange.chunks()
    await exchange.chunk(b"data: ")
    while True:
        await exchange.chunk(b"x" * 65_536)
        exchange.server.sent += 65_536


async def keep_alives(exchange: Exchange) -> None:
    await exchange.chunks()
    while True:
        await exchange.chunk(b": still here\n\n")
        await asyncio.sleep(0.01)


async def drip(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    while True:
        await exchange.raw(b" ")
        await asyncio.sleep(0.01)


async def bomb(exchange: Exchange) -> None:
    """`bomb/gzip` and others: 200 MB in 200 kB."""
    encoding = exchange.path[1].replace("_", ", ")
    await exchange.answer(_BOMB, headers={"content-encoding": encoding})


async def gzipped(exchange: Exchange) -> None:
    await exchange.answer(
        gzip.compress(json.dumps(exchange.result()).encode()), headers={"content-encoding": exchange.path[1]}
    )


async def redirect(exchange: Exchange) -> None:
    """`redirect/307/canary`, `redirect/307/good`, `redirect/307/loop`."""
    where = {
        "canary": f"http://127.0.0.1:{exchange.server.canary_port}/secret?token=t0ken",
        "host": f"http://localhost:{exchange.server.canary_port}/",
        "tls": exchange.server.url().replace("http:", "https:"),
        "loop": exchange.target,
        "bad": "http://host:port/",
    }.get(exchange.path[2], f"/{exchange.path[2]}")
    await exchange.answer(status=int(exchange.path[1]), kind=None, headers={"location": where})


async def cookie(exchange: Exchange) -> None:
    await exchange.answer(exchange.result(), headers={"set-cookie": "tracked=yes; Path=/"})


async def long_header(exchange: Exchange) -> None:
    await exchange.answer(exchange.result(), headers={"x-long": "x" * 1_000_000})


async def many_headers(exchange: Exchange) -> None:
    await exchange.answer(exchange.result(), headers={f"x-{number}": "x" * 20 for number in range(10_000)})


async def session_id(exchange: Exchange) -> None:
    """`session_id/NAME` opens a session whose id is one of `SESSION_IDS`."""
    await exchange.raw(
        b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\nconnection: close\r\nmcp-session-id: "
        + SESSION_IDS[exchange.path[1]]
        + b"\r\n\r\n"
        + json.dumps(exchange.result()).encode()
    )
    exchange.close()


SESSION_IDS = {
    "blank": b"a b",
    "bytes": b"caf\xc3\xa9",
    "control": b"a\x01b",
    "long": b"x" * 5_000,
    "injected": b"a\r\nx-injected: b\r\nmcp-session-id: c",
}

_BOMB = gzip.compress(b" " * 50_000_000, 1)

FAULTS: dict[str, Handler] = {
    handler.__name__: handler
    for handler in (
        good,
        streaming,
        reset,
        reset_in_body,
        drop_in_stream,
        silent,
        status,
        kind,
        empty,
        garbage,
        wrong_id,
        endless_body,
        endless_event,
        keep_alives,
        drip,
        bomb,
        gzipped,
        redirect,
        cookie,
        long_header,
        many_headers,
        session_id,
    )
}
