"""One HTTP request and its answer, without a detour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from gaia_bridge.protocol.headers import REVISION_HEADER
from gaia_bridge.protocol.messages import Refusal, error_bytes
from gaia_bridge.server.http.departures import DISCONNECT
from gaia_bridge.server.http.request_heads import SAME_HEAD

__all__ = ["Headers", "HttpExchange"]

Headers = list[tuple[bytes, bytes]]

_REVISION: Final = REVISION_HEADER.encode()
_JSON: Final = (b"application/json", b"application/*", b"*/*")
_EVENTS: Final = (b"text/event-stream", b"text/*", b"*/*")


class HttpExchange:
    """One request of a client.

    Args:
        scope: The ASGI connection.
        receive: Tells when the client leaves.
        send: Where the answer goes.
        content: The decoded body of a POST.
        size: Bytes of the body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, content: Any = None, size: int = 0) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.content = content
        self.size = size
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        told = self.headers.get(_REVISION)
        self.revision = None if told is None else told.decode("latin-1")
        """What the header says that the body is of."""
        self.is_gone = False
        """Whether the client is known to have left."""
        self._receive = receive
        self._send = send

    @property
    def found(self) -> dict[object, Any]:
        """What was found out about its head, for requests on the same connection that have the same."""
        extensions: dict[str, Any] = self.scope.get("extensions") or {}
        found: dict[object, Any] = extensions.get(SAME_HEAD, {})
        return found

    def header(self, name: str) -> str | None:
        """A header; the last one, if it came several times."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    @property
    def host(self) -> str:
        """The address of the client."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def accepts(self) -> tuple[bool, bool]:
        """Whether the client takes JSON, and whether it takes events (RFC 9110, section 12.5.1)."""
        accept = self.headers.get(b"accept", b"")
        if accept == b"application/json, text/event-stream":  # as all SDKs write it
            return True, True
        accept = b",".join(value for name, value in self.scope["headers"] if name == b"accept").lower()
        kinds = {kind.partition(b";")[0].strip() for kind in accept.split(b",")}
        return not kinds.isdisjoint(_JSON), not kinds.isdisjoint(_EVENTS)

    def when_gone(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the client leaves; returns a function that ends this, which must be called.

        Our listener tells it by itself. Under another server a task has to wait for it.
        """

        def leave() -> None:
            self.is_gone = True
            callback()

        extensions: dict[str, Any] = self.scope.get("extensions") or {}
        if DISCONNECT in extensions:
            remove: Callable[[], None] = extensions[DISCONNECT]["on_disconnect"](leave)
            return remove
        waiting = asyncio.ensure_future(self._wait_until_gone(leave))

        def stop() -> None:
            waiting.cancel()

        return stop

    async def _wait_until_gone(self, callback: Callable[[], object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        callback()

    async def json(self, body: bytes, status: int = 200, headers: Headers | None = None) -> None:
        """Answer with JSON."""
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *(headers or ())]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def text(self, words: str, status: int) -> None:
        """Answer with words."""
        body = words.encode()
        head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def nothing(self, status: int, headers: Headers | None = None) -> None:
        """Answer with a status alone."""
        head = [(b"content-length", b"0"), *(headers or ())]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, refusal: Refusal, status: int = 400, headers: Headers | None = None) -> None:
        """Answer with a JSON-RPC error."""
        await self.json(error_bytes(refusal), status, headers)

    async def stream(self, events: AsyncIterator[bytes], ping: float, headers: Headers | None = None) -> None:
        """Answer with server-sent events until there are no more, or the client leaves.

        Args:
            events: The events, as they are written.
            ping: Seconds between two signs of life.
            headers: What else the answer says of itself.
        """
        from sse_starlette import EventSourceResponse

        told = {"cache-control": "no-cache, no-transform"}
        told |= {name.decode("latin-1"): value.decode("latin-1") for name, value in headers or ()}
        # The tasks of a response are left to the garbage collector, with what they know; not with the connection, too.
        ends: list[Any] = [self._receive, self._send]

        async def receive() -> Message:
            message: Message = await ends[0]()
            return message

        async def send(message: Message) -> None:
            await ends[1](message)

        try:
            await EventSourceResponse(events, headers=told, ping=int(ping))(self.scope, receive, send)
        finally:
            ends.clear()
