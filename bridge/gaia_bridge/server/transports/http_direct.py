"""Direct calls of clients over HTTP: which head their answers have, and which session they use."""

from __future__ import annotations

from typing import Any

from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.direct_calls import DirectCalls, DirectClient
from gaia_bridge.server.transports.sessions import Session


class HttpDirectClient(DirectClient):
    """A client whose requests have one and the same head; see `DirectClient` for the arguments.

    Args:
        session: The session that the requests are part of, if there is one.
    """

    def __init__(
        self,
        calls: DirectCalls,
        connection: ClientConnection,
        session: Session | None = None,
        **about: Any,
    ) -> None:
        super().__init__(calls, connection, **about)
        self.session = session
        self._offer = calls.offer
        self.named = b"" if session is None else b"".join(b"%b: %b\r\n" % field for field in session.named)
        """The header that names the session."""
        self._date: list[tuple[bytes, bytes]] | None = None
        self._head = b""

    def head(self, date: list[tuple[bytes, bytes]]) -> bytes:
        """Return the head of an answer up to the value of its length."""
        if date is not self._date:
            self._date = date
            dated = b"".join(b"%b: %b\r\n" % field for field in date)
            self._head = b"HTTP/1.1 200 OK\r\n" + dated + b"content-type: application/json\r\ncontent-length: "
        return self._head

    def enter(self) -> bool:
        """Use the session, unless it is over; without one, the check of headers for parameters holds for one offer."""
        session = self.session
        if session is None:
            return self._offer is self._calls.offer
        if session.is_over:
            return False
        session.was_used = True
        session.open += 1
        return True

    def leave(self, now: float) -> None:
        """Use the session no longer."""
        if self.session is not None:
            self.session.leave(now)
