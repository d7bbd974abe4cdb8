"""HTTP+SSE, the transport of 2024-11-05: one event stream for all messages to a client, which posts its own."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, quote
from uuid import uuid4

import anyio

from gaia_bridge.protocol.messages import batch_problem, batched_problem, too_many_sessions
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.event_stream import EventStream
from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.server.transports.scope_keys import MOUNTED_AT
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.json_types import is_array

logger = logging.getLogger(__name__)


class SseEndpoint:
    """One endpoint over HTTP+SSE."""

    def __init__(self, dispatcher: Dispatcher, path: str, limits: HttpLimits) -> None:
        self._dispatcher = dispatcher
        self._path = path
        self._limits = limits
        self._clients: dict[str, DuplexClient] = {}
        self._streams: set[EventStream] = set()

    def close(self) -> None:
        """End every stream."""
        for events in self._streams:
            events.finish(b"")

    async def stream(self, exchange: HttpExchange) -> None:
        """Serve the event stream of a client, for as long as it stays."""
        if exchange.method != "GET":
            await exchange.nothing(405, [(b"allow", b"GET")])
            return
        if len(self._clients) >= self._limits.sessions:
            retry = [(b"retry-after", b"%d" % self._limits.retry_after)]
            await exchange.refuse(too_many_sessions(), 503, retry)
            return
        identity = uuid4().hex
        events = EventStream(None, self._limits.stream_messages)
        response = anyio.CancelScope()
        client = self._clients[identity] = DuplexClient(self._dispatcher, events, cut=response.cancel)
        self._streams.add(events)
        root: str = exchange.scope.get(MOUNTED_AT, "")
        endpoint = f"event: endpoint\r\ndata: {quote(root + self._path)}?session_id={identity}\r\n\r\n"
        try:
            with response:  # one that is cut off leaves unread what is written already
                await exchange.stream(events.events(endpoint.encode()), self._limits.ping_interval)
        finally:
            del self._clients[identity]
            self._streams.discard(events)
            client.close()

    async def message(self, exchange: HttpExchange) -> None:
        """Take a message of a client, or several; they are answered on its stream."""
        if exchange.method != "POST":
            await exchange.nothing(405, [(b"allow", b"POST")])
            return
        identity = parse_qs(exchange.scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        client = self._clients.get(identity.replace("-", "").lower())
        if client is None:
            status, words = (404, "Could not find session") if identity else (400, "session_id is required")
            await exchange.text(words, status)
            return
        content = exchange.content
        if is_array(content):
            problem = batch_problem(content, client.agreed, self._limits.batch)
            if problem := problem or next(filter(None, map(batched_problem, content)), None):
                await exchange.refuse(problem)
                return
            logger.info("a batch of %d messages came", len(content))
        await exchange.text("Accepted", 202)
        messages: list[Any] = content if is_array(content) else [content]
        for message in messages:
            await client.take(message, exchange.size)
