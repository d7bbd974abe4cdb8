"""A connection that is read by h11, as the listener had it once: the oracle of `test_http_protocol`."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gaia_bridge.protocol.codes import INVALID_REQUEST
from gaia_bridge.protocol.messages import Refusal, encoded_error
from gaia_bridge.settings import HttpLimits

__all__ = ["StrictH11", "StrictH11Config"]

REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}

_SHORT_END = re.compile(rb"\n\r?\n")
_BODY_HEADER = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:")


def head_problem(data: bytes) -> str | None:
    """Why two readers may not agree on the head of a request (RFC 9112, 2.2, 5.2 and 6.3); `None` until all of it came.

    h11 takes a lone line feed for the end of a line, and puts together lines that were folded. Nothing of a head is
    acted on before its end, so that one which comes in tiny pieces need not be looked at with each of them.

    Args:
        data: What came since the last request.
    """
    end = data.find(b"\r\n\r\n")
    if end >= 0:
        head = data[: end + 4]
    elif data and (short := _SHORT_END.search(data)) is not None:
        head = data[: short.end()]
    else:
        return None
    if head.count(b"\n") != head.count(b"\r\n"):
        return "A line of the head ends with a line feed alone; expected a carriage return before it."
    if b"\r\n " in head or b"\r\n\t" in head:
        return "A line of the head begins with a blank; expected each header on one line."
    lower = head.lower()
    if b"\r\ntransfer-encoding" in lower and len(set(_BODY_HEADER.findall(lower))) > 1:
        return "Content-Length and Transfer-Encoding came; expected one of them (RFC 9112 section 6.1)."
    return None


class StrictH11Config(uvicorn.Config):
    """uvicorn's settings, with our limits."""

    def __init__(self, app: Any, limits: HttpLimits, **settings: Any) -> None:
        super().__init__(app, http=StrictH11, h11_max_incomplete_event_size=limits.header_bytes, **settings)
        self.limits = limits


class StrictH11(H11Protocol):
    """One connection."""

    def __init__(
        self,
        config: StrictH11Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._set_deadline(self._limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def handle_events(self) -> None:
        if self.conn.their_state is h11.IDLE and (problem := head_problem(self.conn.trailing_data[0])):
            self._answer(400, encoded_error(Refusal(INVALID_REQUEST, problem)))
            self.transport.close()
            return
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._set_deadline(self._limits.header_timeout)
        elif state is h11.SEND_BODY and self.cycle.response_complete:
            self._set_deadline(self._limits.body_timeout)
        else:
            self._clear_deadline()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._answer(408, encoded_error(Refusal(INVALID_REQUEST, "too slow")))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        is_long = isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431
        self._answer(431 if is_long else 400, encoded_error(Refusal(INVALID_REQUEST, msg)))
        self.transport.close()

    def _answer(self, status: int, body: bytes) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=REASONS[status]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
