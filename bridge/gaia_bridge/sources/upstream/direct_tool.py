"""The way of direct calls to one tool of a server (`calls/direct_call`)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from gaia_bridge.calls.direct_call import DirectCall, plain_result
from gaia_bridge.client import Connection
from gaia_bridge.contract import Source
from gaia_bridge.protocol.meta import SERVER_INFO_KEY
from gaia_bridge.sources.upstream.crossing import meta_for_server
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection
from gaia_bridge.text.json_types import JSON, is_object

_ABOUT_SERVER: Final = frozenset({SERVER_INFO_KEY})


class DirectTool:
    """One tool of one server, by the server's name for it. Implements `direct_call.DirectRoute`."""

    __slots__ = ("_connection", "_outputs", "_relays", "_supervisor", "_turns", "deadline", "source", "target")

    def __init__(self, target: tuple[Source, str], deadline: float, connection: SupervisedConnection) -> None:
        self.target = target
        self.source = target[0]
        self.deadline = deadline
        self._connection = connection
        self._outputs = connection.tracker.outputs
        self._relays = connection.relays
        self._supervisor = connection.supervisor
        self._turns = connection.supervisor.using

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Send the request; see `DirectRoute.begin`."""
        connection = self._ready(call)
        if connection is None:
            return False
        self._connection.used = True
        if self._turns.take():
            return self._sent(call, connection, arguments)
        # Whoever gives the turn has something else to do: the request is sent soon.
        soon = asyncio.get_running_loop().call_soon
        call.connection = waiting = partial[Any](soon, partial(self._take_turn, call, arguments))
        call.is_unsent = True
        self._turns.wait_for(waiting)
        return True

    def _ready(self, call: DirectCall) -> Connection | None:
        """Return the connection, if the call may be direct there."""
        connection, client = self._supervisor.ready, call.origin
        if connection is None or connection.handshake.modern is not client.modern:
            return None
        return connection if self._relays.admits(connection, client) else None

    def _sent(self, call: DirectCall, connection: Connection, arguments: JSON) -> bool:
        """Send the request, whose turn it is; if that is not possible, give the turn back. Return whether it was."""
        client = call.origin
        meta = client.meta
        if client.modern:
            meta = meta_for_server(client.meta, client.client_capabilities, client.log_level)
        if not connection.begin(call, {"name": self.target[1], "arguments": arguments}, meta):
            self.release(call)
            return False
        call.connection, call.is_unsent = connection, False
        return True

    def _take_turn(self, call: DirectCall, arguments: JSON) -> None:
        """Send the request, which has waited for its turn, or make the call an ordinary one."""
        connection = None if call.is_withdrawn else self._ready(call)
        if connection is None:
            self.release(call)
        elif self._sent(call, connection, arguments):
            return
        call.make_ordinary()

    def plain_result(self, response: JSON) -> JSON | None:
        """Return the result of a response if it is plain, and is what the tool promises."""
        result: object = response.get("result")
        if is_object(result) and "_meta" in result and "error" not in response:
            about: object = result["_meta"]
            if not is_object(about) or not _ABOUT_SERVER.issuperset(about):
                return None
            response = {"result": {key: result[key] for key in result if key != "_meta"}}
        plain = plain_result(response)
        if plain is None or "structuredContent" not in plain:
            return plain
        return plain if self._outputs.problem(self.target[1], plain) is None else None

    def answered(self, call: DirectCall, now: float) -> None:
        """Stop counting the call, which was answered."""
        connection: Connection = call.connection
        del connection.direct[call.number]
        self._relays.note(call.origin, now)
        if self._supervisor.doubted:
            self._supervisor.answered()
        self._turns.give(now)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call, which an ordinary one has taken over."""
        self._turns.give(asyncio.get_running_loop().time())

    def abandon(self, call: DirectCall) -> None:
        """Notify the server that nobody waits any more; do not send the request that still waits for its turn."""
        if call.is_withdrawn:
            self._turns.leave(call.connection)
            return
        self._relays.note_given_up(call.origin)  # first: this may release messages of the server
        connection: Connection = call.connection
        connection.abandon(call)
