"""The port of this machine to which a browser brings the answer of an authorization server (RFC 8252, section 7.3).

All programs on this machine, and every page in the browser, can reach it too. So it accepts one request of one form,
and only an answer with the `state` of the login in progress counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit

from gaia_bridge.client.transport import AuthorizationError

CALLBACK_PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
"""The address and not the name: `localhost` may be another (RFC 8252, section 8.3)."""
_LONGEST_HEAD: Final = 16 * 1024
"""Bytes of a request; codes are long with some authorization servers."""
_PATIENCE: Final = 5.0
"""Seconds for a browser to send a request that it has opened a connection for."""
_HEADERS: Final = (
    "Content-Type: text/plain; charset=utf-8\r\n"
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n"
)


def callback_url(port: int) -> str:
    """Return the redirect URI for a port of this machine."""
    return f"http://{_HOST}:{port}{CALLBACK_PATH}"


class CallbackServer:
    """Waits for one answer."""

    def __init__(self, port: int) -> None:
        self.url = callback_url(port)
        """The redirect URI."""
        self._hosts = (f"{_HOST}:{port}", f"localhost:{port}")
        self._state = b""
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    @classmethod
    @asynccontextmanager
    async def listening(cls, *ports: int) -> AsyncGenerator[CallbackServer]:
        """Listen on the first free port (0 is any), to the end of the block; raise `AuthorizationError` if none is."""
        connections: set[asyncio.Task[None]] = set()
        ours: CallbackServer | None = None

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert ours is not None, "a connection comes after the port is known"
            task = asyncio.current_task()
            assert task is not None, "streams serve each connection in a task"
            connections.add(task)
            try:
                await ours._serve(reader, writer)
            finally:
                connections.discard(task)

        server = await _bound(serve, ports)
        try:
            ours = cls(server.sockets[0].getsockname()[1])
            yield ours
        finally:
            server.close()
            # The last page is on its way to the browser; it is short, and a client that does not read it is cut off.
            if connections:
                _, slow = await asyncio.wait(connections, timeout=1.0)
                for task in slow:
                    task.cancel()

    async def answer(self, state: str) -> Mapping[str, str]:
        """Wait for the answer of the login in progress, with this secret `state`; return its single parameters."""
        self._state = state.encode()
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._judge(head)
                content = text.encode()
                reply = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(content)}\r\n\r\n"
                writer.write(reply.encode() + content)
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # some other client, or a broken connection; the browser tries again
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def _judge(self, head: bytes) -> tuple[str, str]:
        """Take the answer if the request is one; return the status and the text that the browser shows."""
        first, *fields = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        try:
            target = urlsplit(rest.partition(" ")[0])
        except ValueError:
            return "400 Bad Request", "This is no address of a page."
        headers = [field.strip().lower().partition(":") for field in fields]
        hosts = [value.strip() for name, _, value in headers if name.strip() == "host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "421 Misdirected Request", "This is not the address you meant."
        if target.path != CALLBACK_PATH:
            return "404 Not Found", "There is nothing here."
        if method != "GET":
            return "405 Method Not Allowed", "This address is for browsers that come back from a login."
        query = parse_qs(target.query, keep_blank_values=True)
        answer = {name: values[0] for name, values in query.items() if len(values) == 1}
        if not (self._state and secrets.compare_digest(answer.get("state", "").encode(), self._state)):
            return "400 Bad Request", "This is not the answer to the login that is under way."
        if not self._answer.done():
            self._answer.set_result(answer)
        if "error" in answer:
            return "200 OK", "The login was refused. You can close this page."
        return "200 OK", "Done. You can close this page."


async def _bound(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], ports: tuple[int, ...]
) -> asyncio.Server:
    failure: OSError | None = None
    for port in ports:
        try:
            return await asyncio.start_server(serve, _HOST, port, limit=_LONGEST_HEAD)
        except OSError as error:
            failure = error
    reason = failure.strerror if failure else "none is given"
    raise AuthorizationError(f"there is no port for the browser to come back to ({reason})") from None
