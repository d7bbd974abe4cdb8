"""The way of direct calls to one tool of a server (`calls/direct_call`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.protocol.meta import SERVER_INFO_KEY
from gaia_bridge.sources.upstream.requests import ServerRequests
from gaia_bridge.text.json_types import JSON

_PASSED_ON: Final = frozenset({"content", "isError"})
"""Fields of a plain result that its client gets."""
_PLAIN: Final = _PASSED_ON | {"resultType", "_meta"}
_ABOUT_SERVER: Final = frozenset({SERVER_INFO_KEY})


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
        try:
            result: JSON = response["result"]
            content: Any = result["content"]
            for block in content:
                if block["type"] != "text" or type(block["text"]) is not str or len(block) != 2:
                    return None
        except (KeyError, TypeError, IndexError):
            return None
        if type(content) is not list or not content or "error" in response:
            return None
        return result if len(result) == 1 else _without_connection(result)

    def answered(self, call: DirectCall, now: float) -> None:
        """Stop counting the call, which was answered."""
        self._requests.answered(call, now)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call, which an ordinary one has taken over."""
        self._requests.release()

    def abandon(self, call: DirectCall) -> None:
        """Notify the server that nobody waits any more."""
        self._requests.abandon(call)


def _without_connection(result: JSON) -> JSON | None:
    """Return a result without the fields of the server's own connection; `None` if it has others."""
    if not _PLAIN.issuperset(result) or result.get("isError") not in (None, False):
        return None
    if result.get("resultType", "complete") != "complete":
        return None
    about: Any = result.get("_meta")
    if about is not None and (type(about) is not dict or not _ABOUT_SERVER.issuperset(about)):
        return None
    return {key: result[key] for key in result if key in _PASSED_ON}
