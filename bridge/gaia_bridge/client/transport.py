"""What carries messages to one upstream server, whatever it is: a child process, HTTP, or an agent of this process.

A `Transport` says how to reach the server; `connect` opens a `Link`, which one task owns from open to close and every
task may use. Messages are decoded JSON-RPC objects, relayed as they are. A link knows the envelope of a message and
nothing of MCP's methods, save what its wire demands.

A transport of one's own is any object with the method of `Transport`; `gaia_bridge.bridge.chaining.agent_transport` is
an example, and `gaia_bridge.calls.in_flight` does the bookkeeping of a wire that carries everything in one stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gaia_bridge.errors import RequestError
from gaia_bridge.text.json_types import JSON


class UpstreamError(RequestError):
    """The upstream did not do its part. The text continues a sentence that begins with its name.

    Args:
        text: What it did or did not do.
        retry_after: Seconds after which it asked to be tried again, if it did (HTTP `Retry-After`).
    """

    too_late = False
    """Whether all that it did not do was to answer in time."""
    unreached = False
    """Whether it was not reached, or lost before it answered; if it was asked again, it might answer."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after

    def adding(self, more: str) -> UpstreamError:
        """The same error with one thing more that it did."""
        error = UpstreamError(f"{self}, and {more}", self.retry_after)
        error.too_late = self.too_late
        return error


class LaunchError(UpstreamError):
    """The server cannot be reached as it is configured, so that trying again would change nothing."""


class StartTimeoutError(UpstreamError):
    """The server had not completed the handshake when the time for a start was over; it may be downloading itself."""


class NotApprovedError(UpstreamError):
    """The server may not be started as it is now, because that is not what the user approved."""


class AuthorizationError(UpstreamError):
    """The server wants to know who asks, and does not get to know it.

    Args:
        problem: Why, without anything that is secret.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"could not be authorised: {problem}")
        self.problem = problem


class ConnectionLostError(UpstreamError):
    """The connection ended before the answer came."""

    unreached = True

    def __init__(self, text: str = "closed the connection before it answered; whether it did the work is unknown"):
        super().__init__(text)


class UnheardError(ConnectionLostError):
    """The server ended before it read anything, so that it did not end because of what it was asked."""


class UnreachableError(UpstreamError):
    """The server takes no connection, so it was not asked anything; it may be gone."""

    unreached = True


class MisconfiguredError(ConnectionLostError, LaunchError):
    """The server ended because its own configuration cannot be used: starting it again would change nothing."""

    unreached = False


class SessionExpiredError(ConnectionLostError):
    """The server no longer knows the session, so it has not done the work; a new connection may ask again."""

    def __init__(self) -> None:
        super().__init__("has ended the session")


class Receiver(Protocol):
    """Whoever owns a link. Called on the event loop, in the order of arrival; must neither block nor raise."""

    def message(self, message: JSON, during: int | None) -> None:
        """A request or notification came from the server.

        Args:
            during: The id of our request on whose own response stream it came, where the wire tells.
        """
        ...

    def ended(self, reason: str) -> None:
        """The link is over, called once, before any request that is in flight fails. Not called by closing it.

        Args:
            reason: How it ended; continues a sentence that begins with the server's name.
        """
        ...


class Link(Protocol):
    """An open connection."""

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send a request and wait for its response. Cancelling stops the waiting, and tells the server so.

        Args:
            message: The JSON-RPC request. Its `id` is an integer that was never used on this link.
            headers: HTTP headers that belong to this request; other wires ignore them.

        Returns:
            The JSON-RPC response: it has a `result`, or an `error` that is an object.

        Raises:
            SessionExpiredError: The server no longer knows us.
            ConnectionLostError: The link is over.
            UpstreamError: This request failed; the link goes on.
        """
        ...

    async def notify(self, message: JSON) -> None:
        """Send a notification, or the response to a request of the server.

        Raises:
            UpstreamError: It could not be sent.
        """
        ...

    def agree(self, revision: str) -> None:
        """The protocol revision is settled: what the wire does differently from one to the next follows it from now.

        Args:
            revision: Such as `2025-11-25`.
        """
        ...

    @property
    def last_words(self) -> str:
        """The last line of the server's error output, redacted, for our own log; empty where there is none."""
        ...


class Transport(Protocol):
    """How to reach one server. Every `connect` is a new connection, and with a child process a new process."""

    def connect(self, receiver: Receiver) -> AbstractAsyncContextManager[Link]:
        """Open a link; closing it releases everything that it holds, within bounds, whatever the server does.

        Args:
            receiver: Is told what comes in.

        Raises:
            UpstreamError: On entering: the server cannot be reached. The text has no arguments and no values of the
                environment, which may be secrets.
        """
        ...
