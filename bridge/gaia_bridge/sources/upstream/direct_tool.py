"""The way of direct calls to one tool of a server (`calls/direct_call`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.client import Connection
from gaia_bridge.protocol.meta import SERVER_INFO_KEY
from gaia_bridge.sources.upstream.requests import ServerRequests
from gaia_bridge.text.json_types import JSON

_PASSED_ON: Final = frozenset({"content", "isError"})
"""Fields of a plain result that its client gets."""
_PLAIN: Final = _PASSED_ON | {"resultType", "_meta"}
_RESPONSE: Final = frozenset({"jsonrpc", "id", "result"})
_ABOUT_SERVER: Final = frozenset({SERVER_INFO_KEY})
_BLOCKS: Final = 64
"""Blocks of text of a plain result, at most."""
_BLOCK: Final = frozenset({"type", "text"})


class DirectTool:
    """One tool of one server, by the server's name for it."""

    __slots__ = ("_begin", "_own", "_requests", "source")

    def __init__(
        self, source: str, own: str, begin: Callable[[DirectCall, str, JSON], bool], requests: ServerRequests
    ) -> None:
        self.source = source
        self._own = own
        self._begin = begin
        self._requests = requests

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Send the request; see `DirectRoute.begin`."""
        return self._begin(call, self._own, arguments)

    def plain_result(self, response: JSON) -> JSON | None:
        """Return the result of a response if it is plain: blocks of text, and nothing else."""
        result = response.get("result")
        if type(result) is not dict or not _RESPONSE.issuperset(response) or not _PLAIN.issuperset(result):
            return None
        content = result.get("content")
        if type(content) is not list or not 0 < len(content) <= _BLOCKS or result.get("isError") not in (None, False):
            return None
        for block in content:
            if (
                type(block) is not dict
                or block.keys() != _BLOCK
                or block["type"] != "text"
                or type(block["text"]) is not str
            ):
                return None
        if len(result) == 1:
            return result
        about = result.get("_meta")
        if result.get("resultType", "complete") != "complete":
            return None
        if about is not None and (type(about) is not dict or not _ABOUT_SERVER.issuperset(about)):
            return None
        return {key: result[key] for key in result if key in _PASSED_ON}

    def answered(self, call: DirectCall) -> None:
        """Note that the call was answered; see `DirectRoute`."""
        self._requests.answered(call)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call."""
        self._requests.release()

    def abandon(self, call: DirectCall) -> None:
        """Notify the server that nobody waits any more."""
        if isinstance(call.connection, Connection):
            call.connection.abandon(call)
