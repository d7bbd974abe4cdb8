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
"""Codes of errors for a turn that took too long."""


class LentToolCall:
    """A call of a lent tool."""

    def __init__(self) -> None:
        self.result: JSON | None = None
        """The result of the call; `None` if it was cancelled."""


class TurnLog:
    """The log line of one turn, written once it is over.

    Args:
        method: The request: a path, or a method.
        client: The client's name.
        origin: Distinguishes this client from others of that name, until the session of the turn is known.
    """

    def __init__(self, method: str, client: str, origin: str) -> None:
        self._path = method
        self._client = client
        self._number = _number_of(origin)
        self._began = time.monotonic()
        self._model: Model | None = None
        self._outcome = "cancelled"  # unless `record_reply` or `record_failure` is called
        self._called: list[str] = []
        self._used: Sequence[str] = ()
        self.bytes_in = 0
        """Bytes of the request's body."""
        self.bytes_out = 0
        """Bytes of its answer."""

    def set_session(self, session_id: str | None) -> None:
        """Identify the turn by its session, if it has one, whatever connection it comes on."""
        if session_id is not None:
            self._number = _number_of(session_id)

    def set_model(self, model: Model) -> None:
        """Set the model that is asked."""
        self._model = model

    def record_reply(self, reply: Reply) -> None:
        """Record that the agent answered."""
        self._outcome, self._used = "ok", reply.tools_run

    def record_failure(self, error: ChatError) -> None:
        """Record that the turn failed."""
        self._outcome = "timed out" if error.code in _LATE else f"error {error.status} {error.code or ''}".rstrip()

    @contextmanager
    def log_call(self, name: str, source: str, arguments: JSON) -> Generator[LentToolCall]:
        """Log the call of a lent tool, once the block ends.

        Args:
            name: The agent's name of the tool.
            source: The name of its source.
            arguments: The arguments of the call.
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

    def write(self) -> None:
        """Write the line."""
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
