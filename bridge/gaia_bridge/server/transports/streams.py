"""A client on a pair of streams (stdio, HTTP+SSE): its era, its messages in order, and their answers.

The first request decides the era (basic/lifecycle). One that only looks around does not: some clients send
`server/discover`, lose patience while Python starts, and go on with `initialize`; others ask in a revision that is not
served, and fall back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.protocol.codes import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_REVISION
from gaia_bridge.protocol.headers import envelope_problem
from gaia_bridge.protocol.messages import Refusal, encoded_error, is_request, says_revision
from gaia_bridge.protocol.revisions import PUBLISHED
from gaia_bridge.server.call import Call
from gaia_bridge.server.connection import Channel, ClientConnection, PlainChannel
from gaia_bridge.server.direct_calls import REQUEST_BYTES, DirectCalls, DirectClient, DirectPlace, is_bare
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.text.json_types import JSON

Answered = Callable[[bytes], Awaitable[None]]
"""A function that takes the answer to a request; the answer is empty if the client has cancelled the request."""


class Owed(Struct):
    """The requests of one client that wait for their answers."""

    most: int
    count: int = 0


class DuplexClient:
    """One client; see `LineClient` for the arguments."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        channel: Channel,
        cut: Callable[[], None] | None = None,
        asked: int = 0,
        folder: str | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._channel = channel
        self._handshake = ClientConnection(channel, asked=asked, client_folder=folder)
        # Servers of 2026-07-28 send no requests.
        modern = PlainChannel(channel.send, can_ask=False)
        self._modern = ClientConnection(modern, PUBLISHED.latest, client_folder=folder)
        self._handshake.cut = self._modern.cut = cut
        self._era: ClientConnection | None = None
        self._revisions = dispatcher.settings.revisions
        self._owed = Owed(dispatcher.settings.backlog.requests)
        self._direct: DirectClient | None = None

    @property
    def name(self) -> str:
        """Name and version, as the client sends them in its handshake; empty without one."""
        info = self._handshake.client_info
        return " ".join(str(info[key]) for key in ("name", "version") if info.get(key))

    @property
    def agreed(self) -> str | None:
        """The revision of its handshake, if that was answered."""
        return self._handshake.revision if self._handshake.is_greeted else None

    def close(self) -> None:
        """Cancel all work for the client, because it is gone."""
        for connection in (self._handshake, self._modern):
            connection.close()

    async def take(self, message: JSON, size: int = 0, answered: Answered | None = None) -> None:
        """Take a JSON-RPC message of so many bytes. Waits for the answer to a handshake, and for a refusal to be read.

        The answer goes to `answered`, or else on the channel like everything else.
        """
        answered = answered or self._send
        connection = self._era or self._handshake
        if not is_request(message):
            self._dispatcher.notified(connection, message)
        elif (refusal := self._refusal(message)) is not None:
            await answered(encoded_error(refusal))
        else:
            task = self._begin(message, size, answered, None)
            if message["method"] == "initialize":
                # A client that does not wait for the answer finds its handshake complete all the same.
                await asyncio.wait([task])

    def begin_direct(self, message: object, size: int, place: DirectPlace) -> bool:
        """Pass on a message directly, if it is a plain call; return whether it was passed on."""
        return self._direct is not None and self._direct.begin(message, size, place) is not None

    def begin_ordinary(self, direct: DirectCall, answered: Answered) -> None:
        """Take the ordinary way with a direct call."""
        self._begin(direct.message, direct.size, answered, direct)

    def _begin(self, message: JSON, size: int, answered: Answered, direct: DirectCall | None) -> asyncio.Task[None]:
        connection = self._connection_for(message)
        translating = self._revisions.translating_of(message) if connection is self._modern else None
        call = Call(connection, connection.standing, message, size, translating=translating, direct=direct)
        self._owed.count += 1
        return self._dispatcher.begin(call, partial(self._take, call, answered))

    async def _take(self, call: Call, answered: Answered, answer: Answer) -> None:
        try:
            await answered(answer.body)
        finally:
            self._owed.count -= 1
            call.sent()
            is_result = answer.body and answer.code is None
            if is_result and call.method == "tools/call" and self._dispatcher.direct is not None:
                self._learn(call, self._dispatcher.direct)

    def _learn(self, call: Call, calls: DirectCalls) -> None:
        """Pass on the next calls like this one directly, if they are plain."""
        if call.size > REQUEST_BYTES or call.translating is not None:
            return
        is_plain = is_bare(call.meta) if call.modern else not call.meta
        if is_plain and (self._direct is None or self._direct.meta != call.meta):
            self._direct = StreamDirectClient(calls, call.connection, self._owed, modern=call.modern, meta=call.meta)

    async def _send(self, body: bytes) -> None:
        if body:
            await self._channel.send(body)

    def _connection_for(self, message: JSON) -> ClientConnection:
        """Return the connection that a request is served on; the first that does more than look around decides."""
        if self._era is not None:
            return self._era
        modern = message["method"] != "initialize" and says_revision(message)
        connection = self._modern if modern else self._handshake
        if message["method"] != "server/discover":
            self._era = connection
        return connection

    def _refusal(self, message: JSON) -> Refusal | None:
        """Return why a request is refused: there are too many, or it is of another era than its connection, or none."""
        modern, method = says_revision(message), message["method"]
        if self._owed.count >= self._owed.most:
            problem = f"{self._owed.count:,} requests are not answered yet, or their answers were not read"
            return Refusal(INTERNAL_ERROR, f"{problem}; expected fewer. Read the answers, and ask again", message["id"])
        if method == "initialize":
            return self._late_handshake(message) if self._era is self._modern else None
        if self._era is self._handshake:
            return Refusal(INVALID_REQUEST, _OTHER_ERA, message["id"]) if modern else None
        if modern or self._era is self._modern:
            return envelope_problem(message, revisions=self._revisions)
        if method == "server/discover":  # without a revision, it is one of those that have no such method
            return Refusal(METHOD_NOT_FOUND, "Method not found", message["id"], method)
        return None

    def _late_handshake(self, message: JSON) -> Refusal:
        params: JSON = message.get("params") or {}
        asked = params.get("protocolVersion")
        data: JSON = {"supported": list(self._revisions.names)}
        if isinstance(asked, str):
            data["requested"] = asked
        problem = "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted"
        return Refusal(UNSUPPORTED_REVISION, problem, message["id"], data)


class StreamDirectClient(DirectClient):
    """A client on a pair of streams; see `DirectClient` for the arguments."""

    def __init__(self, calls: DirectCalls, connection: ClientConnection, owed: Owed, **about: Any) -> None:
        super().__init__(calls, connection, **about)
        self._owed = owed

    def enter(self) -> bool:
        """Count a call that waits for its answer, unless too many do."""
        if self._owed.count >= self._owed.most:
            return False
        self._owed.count += 1
        return True

    def leave(self, now: float) -> None:
        """Count the call no longer."""
        self._owed.count -= 1


_OTHER_ERA = (
    "this connection serves the handshake protocol era; "
    "requests carrying the 2026-07-28 envelope are not accepted on it"
)
