"""The way of direct calls to one tool of a server (`calls/direct_call`)."""

from __future__ import annotations

from typing import Final

from gaia_bridge.calls.direct_call import DirectCall, plain_result
from gaia_bridge.contract import Source
from gaia_bridge.protocol.meta import SERVER_INFO_KEY
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection
from gaia_bridge.text.json_types import JSON, is_object

_ABOUT_SERVER: Final = frozenset({SERVER_INFO_KEY})


class DirectTool:
    """One tool of one server, by the server's name for it."""

    __slots__ = ("_connection", "_outputs", "deadline", "target")

    def __init__(self, target: tuple[Source, str], deadline: float, connection: SupervisedConnection) -> None:
        self.target = target
        self.deadline = deadline
        self._connection = connection
        self._outputs = connection.tracker.outputs

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Send the request; see `DirectRoute.begin`."""
        return self._connection.begin(call, self.target[1], arguments)

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
        self._connection.answered(call, now)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call, which an ordinary one has taken over."""
        self._connection.release()

    def abandon(self, call: DirectCall) -> None:
        """Notify the server that nobody waits any more."""
        self._connection.abandon(call)
