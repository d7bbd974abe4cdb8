"""One HTTP request and its answer, without a detour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.types import Message, Receive, Scope, Send

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.protocol.headers import REVISION_HEADER
from gaia_bridge.protocol.messages import Refusal, encoded_error
from gaia_bridge.server.direct_calls import DirectClient
from gaia_bridge.server.transports.event_writer import write_events
from gaia_bridge.server.transports.scope_keys import ADMITTED, DIRECT, DISCONNECT, SAME_HEAD, TAKES_OVER

Headers = list[tuple[bytes, bytes]]
_ANY: Final = (b"*/*", b"")
"""The types of a client that names none, which takes all (RFC 9110, section 12.5.1)."""
_JSON: Final = (b"application/json", b"application/*", *_ANY)
_EVENTS: Final = (b"text/event-stream", b"text/*", *_ANY)


class _Fields(NamedTuple):
    """The facts in the head of a request."""

    values: dict[str, str]
    """Headers; the last one of a name, if it came several times."""
    revision: str | None
    """The revision of the body, if the head names one."""
    host: str
    """The address of the client."""
    accepts: tuple[bool, bool]
    """Whether the client takes JSON, and whether it takes events (RFC 9110, section 12.5.1)."""


class HttpExchange:
    """One request of a client with a body of so many bytes, and the ways to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, content: Any = None, size: int = 0) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.content = content
        self.size = size
        extensions: dict[str, Any] = scope.get("extensions") or {}
        self.facts: dict[object, Any] = extensions.get(SAME_HEAD, {})
        """Facts about the head, for requests on the same connection that have the same head."""
        fields: _Fields | None = self.facts.get(_Fields)
        if fields is None:
            fields = self.facts[_Fields] = _read(scope)
        self.direct: DirectCall | None = extensions.get(TAKES_OVER)
        """The direct call that this request takes over."""
        self.headers, self.revision, self.host, self.accepts = fields
        self.is_gone = False
        """Whether the client is known to have left."""
        self._receive = receive
        self._send = send

    def when_gone(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call `callback` when the client leaves; return a function that ends this, which must be called.

        Our listener tells it by itself. Under another server a task has to wait for it.
        """

        def leave(_: object = None) -> None:
            self.is_gone = True
            callback()

        extensions: dict[str, Any] = self.scope.get("extensions") or {}
        if DISCONNECT in extensions:
            departure: asyncio.Future[None] = extensions[DISCONNECT]
            departure.add_done_callback(leave)
            return partial(departure.remove_done_callback, leave)

        async def wait() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            leave()

        waiting = asyncio.ensure_future(wait())
        return waiting.cancel

    def may_be_direct(self) -> bool:
        """Return whether the next requests with this head may be passed on directly."""
        return ADMITTED in self.facts and self.method == "POST" and self.accepts[0]

    def pass_on_directly(self, client: DirectClient) -> None:
        """Pass on the next requests with this head directly, if they are plain calls."""
        self.facts[DIRECT] = client

    async def json(self, body: bytes, status: int = 200, headers: Headers | None = None) -> None:
        """Answer with JSON."""
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *(headers or ())]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def text(self, words: str, status: int) -> None:
        """Answer with text."""
        body = words.encode()
        head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await self.whole(body, status, head)

    async def whole(self, body: bytes, status: int, headers: Headers) -> None:
        """Answer with a body and its whole head."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def nothing(self, status: int, headers: Headers | None = None) -> None:
        """Answer with a status alone."""
        await self.whole(b"", status, [(b"content-length", b"0"), *(headers or ())])

    async def refuse(self, refusal: Refusal, status: int = 400, headers: Headers | None = None) -> None:
        """Answer with a JSON-RPC error."""
        await self.json(encoded_error(refusal), status, headers)

    async def answer(self, events: AsyncGenerator[bytes], ping: float, headers: Headers | None = None) -> None:
        """Answer a request with server-sent events; see `stream`."""
        await write_events(self._send, events, ping, headers or [], self.when_gone)

    async def stream(self, events: AsyncIterator[bytes], ping: float, headers: Headers | None = None) -> None:
        """Open a stream that stays, with server-sent events until there are no more, or the client or the program ends.

        Under a server that is not ours, `sse_starlette` is what notices that the program ends.

        Args:
            ping: Seconds between two signs of life.
        """
        from sse_starlette import EventSourceResponse

        head = {"cache-control": "no-cache, no-transform"}
        head |= {name.decode("latin-1"): value.decode("latin-1") for name, value in headers or ()}
        # The tasks of a response are left to the garbage collector; not the connection and the events with them.
        ends: list[Any] = [self._receive, self._send]

        async def receive() -> Message:
            message: Message = await ends[0]()
            return message

        async def send(message: Message) -> None:
            await ends[1](message)

        response = EventSourceResponse(events, headers=head, ping=int(ping))
        try:
            await response(self.scope, receive, send)
        finally:
            ends.clear()
            del response.body_iterator


def _read(scope: Scope) -> _Fields:
    headers: Headers = scope["headers"]
    client = scope.get("client")
    values = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    accept = b",".join(value for name, value in headers if name == b"accept").lower()
    kinds = {kind.partition(b";")[0].strip() for kind in accept.split(b",")}
    accepts = not kinds.isdisjoint(_JSON), not kinds.isdisjoint(_EVENTS)
    return _Fields(values, values.get(REVISION_HEADER), client[0] if client else "", accepts)
