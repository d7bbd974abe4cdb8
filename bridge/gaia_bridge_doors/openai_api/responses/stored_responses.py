"""Responses that are kept, so that a later request can go on from them (`previous_response_id`), or read them again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError


class _Stored(Struct, frozen=True):
    response: JSON
    history: list[JSON]
    size: int
    """In bytes, as JSON: of the response and of the whole conversation, though responses share its messages."""
    expires: float


class StoredResponses:
    """In memory, and bounded: of more, those that were used last. Only on the event loop.

    Args:
        limits: How many, how large, how long.
        clock: Tells the time in seconds.
    """

    def __init__(self, limits: ChatEndpointLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._bytes = 0
        self._stored: OrderedDict[str, _Stored] = OrderedDict()

    def add(self, response: JSON, history: list[JSON]) -> None:
        """Keep a response.

        Args:
            response: It, as the client got it.
            history: The conversation up to and with it, without instructions, as chat completions have it.
        """
        size = len(to_json(response)) + len(to_json(history))
        self._stored[response["id"]] = _Stored(response, history, size, self._clock() + self._limits.stored_seconds)
        self._bytes += size
        while self._stored and self._is_too_much():
            self._forget(next(iter(self._stored)))

    def response(self, response_id: str) -> JSON:
        """A response, as the client got it.

        Raises:
            ChatError: There is none of that id, or no longer.
        """
        return self._found(
            response_id, ChatError(404, _missing("Response", response_id), "response_not_found")
        ).response

    def history(self, response_id: str) -> list[JSON]:
        """The conversation up to and with a response.

        Raises:
            ChatError: There is none of that id, or no longer.
        """
        message, param = _missing("Previous response", response_id), "previous_response_id"
        return self._found(response_id, ChatError(400, message, "previous_response_not_found", param)).history

    def remove(self, response_id: str) -> None:
        """Forget a response. Others that went on from it are kept.

        Raises:
            ChatError: There is none of that id.
        """
        self.response(response_id)
        self._forget(response_id)

    def _found(self, response_id: str, error: ChatError) -> _Stored:
        stored = self._stored.get(response_id)
        if stored is None:
            raise error
        if stored.expires < self._clock():
            self._forget(response_id)
            raise error
        self._stored.move_to_end(response_id)
        return stored

    def _is_too_much(self) -> bool:
        oldest = next(iter(self._stored.values()))
        return (
            len(self._stored) > self._limits.stored
            or self._bytes > self._limits.stored_bytes
            or oldest.expires < self._clock()
        )

    def _forget(self, response_id: str) -> None:
        self._bytes -= self._stored.pop(response_id).size


def _missing(what: str, response_id: str) -> str:
    shown = ascii(one_line(response_id, 80))
    return (
        f"{what} with id {shown} not found: it was not stored, or is forgotten. Send the whole conversation as input."
    )
