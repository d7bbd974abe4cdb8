"""Interfaces of transports to an upstream server: a child process, HTTP, or an agent of this process.

A `Transport` reaches one server; `connect` opens a `Link`, which one task owns from open to close and every task may
use. Messages are decoded JSON-RPC objects, relayed as they are. A link reads the envelope of a message and no methods
of MCP, save those that its wire demands.

A transport of one's own is any object with the method of `Transport`; `gaia_bridge.bridge.chaining.agent_transport` is
an example, and `gaia_bridge.calls.in_flight` does the bookkeeping of a wire that carries everything in one stream.

The errors, whose texts continue a sentence that begins with the server's name:

    UpstreamError
        LaunchError                 a retry changes nothing: the configuration has to
            EraRefusedError         `negotiation`
        StartTimeoutError
        NotApprovedError
        AuthorizationError          its kinds are in `oauth.errors`
        UnreachableError            no request reached the server
        RequestTimeoutError         `types`
        ConnectionLostError
            UnheardError            no request was the cause
            SessionExpiredError     the request was not worked on, and may be repeated
            MisconfiguredError      also a LaunchError
        BrokenOffError              `transports.http_client`
        FloodError                  `transports.budgets`
        NoMessageError              `transports.json_rpc`

The other exceptions in `transports` say what is wrong with bytes; a link raises one of these instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from gaia_bridge.calls.in_flight import Waiter
from gaia_bridge.errors import RequestError
from gaia_bridge.text.json_types import JSON


class UpstreamError(RequestError):
    """The upstream server failed. The text continues a sentence that begins with the server's name.

    `retry_after` is in seconds, if the server asked for a retry (HTTP `Retry-After`).
    """

    too_late = False
    """Whether the only failure is that no answer came in time."""
    unreached = False
    """Whether the server was not reached, or lost before it answered; a retry might succeed."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after

    def adding(self, more: str) -> UpstreamError:
        """Return the same error with a further failure in its text."""
        error = UpstreamError(f"{self}, and {more}", self.retry_after)
        error.too_late = self.too_late
        return error


class LaunchError(UpstreamError):
    """The server cannot be reached as it is configured, so that a retry would change nothing."""


class StartTimeoutError(UpstreamError):
    """The server had not completed the handshake when the time for a start was over; it may be downloading itself."""


class NotApprovedError(UpstreamError):
    """The server may not be started, because the user approved something else than its present form."""


class AuthorizationError(UpstreamError):
    """The server requires authorization, and none could be obtained: `problem` says why, without a secret."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"could not be authorised: {problem}")
        self.problem = problem


class ConnectionLostError(UpstreamError):
    """The connection ended before the answer came."""

    unreached = True

    def __init__(self, text: str = "closed the connection before it answered; whether it did the work is unknown"):
        super().__init__(text)


class UnheardError(ConnectionLostError):
    """The server ended before it read anything, so that no request was the cause."""


class UnreachableError(UpstreamError):
    """The server accepts no connection, so no request reached it; it may be gone."""

    unreached = True


class MisconfiguredError(ConnectionLostError, LaunchError):
    """The server ended because its own configuration cannot be used: starting it again would change nothing."""

    unreached = False


class SessionExpiredError(ConnectionLostError):
    """The server no longer knows the session, so it has not done the work; a new connection may repeat the request."""

    def __init__(self) -> None:
        super().__init__("has ended the session")


class Receiver(Protocol):
    """The owner of a link. Called on the event loop, in the order of arrival; must neither block nor raise."""

    def message(self, message: JSON, during: int | None) -> None:
        """Receive a request or notification from the server.

        Args:
            during: The id of our request on whose own response stream it came, if the wire reports that.
        """
        ...

    def ended(self, reason: str) -> None:
        """Note the end of the link: called once, before any request in flight fails, and not if we close the link.

        The reason continues a sentence that begins with the server's name.
        """
        ...


class Link(Protocol):
    """An open connection."""

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send a request and wait for its response. Cancelling stops the waiting, and notifies the server.

        Args:
            message: The JSON-RPC request. Its `id` is an integer that was never used on this link.
            headers: HTTP headers that belong to this request; other wires ignore them.

        Returns:
            The JSON-RPC response: it has a `result`, or an `error` that is an object.

        Raises:
            SessionExpiredError: The server no longer knows the session.
            ConnectionLostError: The link is over.
            UpstreamError: This request failed; the link goes on.
        """
        ...

    async def notify(self, message: JSON) -> None:
        """Send a notification, or the response to a request of the server; raise `UpstreamError` if that fails."""
        ...

    def agree(self, revision: str) -> None:
        """Set the agreed revision, such as `2025-11-25`, which the wire follows from now on where revisions differ."""
        ...

    @property
    def last_words(self) -> str:
        """The last line of the server's error output, redacted, for our own log; empty where there is none."""
        ...


@runtime_checkable
class DirectLink(Protocol):
    """Optional for a link: requests can be sent without a task that waits for the response."""

    def begin(self, message: JSON, waiter: Waiter, headers: Mapping[str, str] | None) -> bool:
        """Send a request at once, if nothing stands in the way; return whether it was sent.

        Args:
            message: As for `Link.request`.
            waiter: Gets the response, or the error that `Link.request` would raise.
        """
        ...

    def abandon(self, number: int) -> None:
        """Expect no response to such a request any more, and notify the server."""
        ...


class Transport(Protocol):
    """The way to reach one server. Every `connect` is a new connection, and with a child process a new process."""

    def connect(self, receiver: Receiver) -> AbstractAsyncContextManager[Link]:
        """Open a link; closing it releases everything that it holds, within bounds, whatever the server does.

        Args:
            receiver: Receives the messages of the server.

        Raises:
            UpstreamError: On entering: the server cannot be reached. The text has no arguments and no values of the
                environment, since these may be secrets.
        """
        ...
