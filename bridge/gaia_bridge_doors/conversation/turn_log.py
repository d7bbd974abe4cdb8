"""The lines of the call log for turns of agents, and for the calls of tools that were lent for them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from gaia_bridge.calls.call_log import CallRecord, size_of, tell_of
from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.chat_types import Reply
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.models import Model

_LATE: Final = ("deadline_exceeded",)
"""Codes of errors that say that there was no time left."""


class LentToolCall:
    """A call of a lent tool."""

    def __init__(self) -> None:
        self.result: JSON | None = None
        """What came of it; `None` if it was cancelled."""


class TurnLog:
    """What is told of one turn, once it is over.

    Args:
        method: What was asked for: a path, or a method.
        client: Who asked.
        origin: Tells this client from others of that name, until the turn is known to belong to a session.
    """

    def __init__(self, method: str, client: str, origin: str) -> None:
        self._path = method
        self._client = client
        self._number = _number_of(origin)
        self._began = time.monotonic()
        self._model: Model | None = None
        self._outcome = "cancelled"  # unless it is said otherwise
        self._called: list[str] = []
        self._used: Sequence[str] = ()
        self.bytes_in = 0
        """Of the request's body."""
        self.bytes_out = 0
        """Of its answer."""

    def of_session(self, session_id: str | None) -> None:
        """It belongs to a session, which all its turns are told by, whatever connection they come on."""
        if session_id is not None:
            self._number = _number_of(session_id)

    def asks(self, model: Model) -> None:
        """Whom it is for."""
        self._model = model

    def answered(self, reply: Reply) -> None:
        """The agent has answered."""
        self._outcome, self._used = "ok", reply.tools_run

    def failed(self, error: ChatError) -> None:
        """It has not."""
        self._outcome = "timed out" if error.code in _LATE else f"error {error.status} {error.code or ''}".rstrip()

    @contextmanager
    def calling(self, name: str, source: str, arguments: JSON) -> Generator[LentToolCall]:
        """While a lent tool is called; its line is left afterwards.

        Args:
            name: The tool, as the agent knows it.
            source: Whose it is.
            arguments: What it is called with.
        """
        self._called.append(name)
        called, began, request = LentToolCall(), time.monotonic(), Cancellation()
        try:
            with request.entered():
                yield called
        finally:
            result = called.result
            if result is None:
                outcome = "cancelled"
            elif result.get("isError") is True:
                outcome = "timed out" if request.too_late else "tool error"
            else:
                outcome = "ok"
            tell_of(
                lambda: CallRecord(
                    client=self._client,
                    number=self._number,
                    method="tools/call",
                    target=name,
                    source=source,
                    outcome=outcome,
                    seconds=time.monotonic() - began,
                    bytes_in=size_of({"name": name, "arguments": arguments}),
                    bytes_out=size_of(result),
                )
            )

    def tell(self) -> None:
        """Leave the line."""
        model = self._model
        tell_of(
            lambda: CallRecord(
                client=self._client,
                number=self._number,
                method=self._path,
                target="-" if model is None else model.id,
                source="-" if model is None else model.source.name,
                outcome=self._outcome,
                seconds=time.monotonic() - self._began,
                bytes_in=self.bytes_in,
                bytes_out=self.bytes_out,
                tools=tuple(self._used or self._called),
            )
        )


def _number_of(name: str) -> int:
    return zlib.crc32(name.encode())
