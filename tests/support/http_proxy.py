"""An HTTP proxy in process: CONNECT and absolute-form, Basic logins, and answers that proxies should not give."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import anyio

__all__ = ["HttpProxy", "http_proxy"]


class HttpProxy:
    """The proxy. Every name leads to this machine."""

    def __init__(self) -> None:
        self.port = 0
        self.login: str | None = None
        """`USER:PASSWORD` that it wants to be told."""
        self.answer: bytes | None = None
        """What it says to whatever is asked, in place of doing it; nothing at all if empty."""
        self.heads: list[str] = []
        """What it was asked, in its order."""
        self.open = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        """Method and target of each request."""
        return [" ".join(head.split(" ")[:2]) for head in self.heads]

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, OSError):
                await self._lead(reader, writer)
        finally:
            self.open -= 1
            writer.close()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        if self.answer is not None:
            writer.write(self.answer)
            if not self.answer:
                await reader.read()
            return
        who = self.login and f"proxy-authorization: Basic {b64encode(self.login.encode()).decode()}\r\n"
        if who and who not in head:
            fields = 'proxy-authenticate: Basic realm="p"\r\ncontent-length: 0\r\n'
            writer.write(f"HTTP/1.1 407 Who\r\n{fields}\r\n".encode())
            return
        method, target, rest = head.split(" ", 2)
        if method == "CONNECT":
            above, upper = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 p\r\n\r\n")
        else:
            url = urlsplit(target)
            above, upper = await asyncio.open_connection("127.0.0.1", url.port or 80)
            fields = "".join(line for line in rest.splitlines(True) if not line.startswith("proxy-"))
            if not who:  # else a second request on the connection is passed on as it is, as by proxy.py
                fields = fields.replace("\r\n", "\r\nconnection: close\r\n", 1)
            upper.write(f"{method} {url.path} {fields}".encode("latin-1"))
        ways = [asyncio.ensure_future(_copy(reader, upper)), asyncio.ensure_future(_copy(above, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            upper.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()


@asynccontextmanager
async def http_proxy(
    login: str | None = None, answer: bytes | None = None, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[HttpProxy]:
    """Run a proxy.

    Args:
        login: `USER:PASSWORD` that it wants to be told.
        answer: What it says in place of doing what it is asked.
        tls: What it shows who it is with, if it speaks TLS itself.
    """
    proxy = HttpProxy()
    proxy.login, proxy.answer = login, answer
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        with anyio.CancelScope(shield=True):
            await proxy.stop()
