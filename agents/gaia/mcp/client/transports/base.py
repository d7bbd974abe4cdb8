"""The interface of every transport under an `MCPClient` ("MCPTransport")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import anyio.to_thread

from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError, ToolError
from gaia_bridge.text.json_types import is_object

__all__ = ["ConnectionOverError", "MCPTransport", "OnNotification"]

OnNotification = Callable[[str, dict[str, Any]], None]
"""Called with the method and the parameters of a notification, in a thread of the transport; must not block."""


class ConnectionOverError(RuntimeError):
    """The server forgot the session and did not do the work: the request may be sent again over a new connection."""


class MCPTransport(ABC):
    """How JSON-RPC messages reach one MCP server. Synchronous; usable from any thread.

    A transport of your own needs the four abstract methods. Where it can also send notifications and hear those of the
    server, it overrides `send_notification` and calls `on_notification`.
    """

    on_notification: OnNotification | None = None
    """Set by the client that uses the transport: called with the server's notifications."""

    last_error: str = ""
    """Why `connect` returned `False`, if the transport says; for logs and error messages."""

    last_words: str = ""
    """The last lines that a server wrote to its error output before it ended, if the transport knows them. For logs
    only: they may hold what nobody else should see."""

    @abstractmethod
    def connect(self) -> bool:
        """Establish the connection; an open one is kept.

        Returns:
            Whether it is established.
        """

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection and release everything that it holds. Twice is harmless."""

    @abstractmethod
    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and wait for its response.

        Args:
            method: The JSON-RPC method, such as `tools/list`.
            params: Its parameters.

        Returns:
            The JSON-RPC response, with `result` or `error`.

        Raises:
            RuntimeError: The connection is not established, or is over.
            TimeoutError: It was not answered in time.
        """

    @abstractmethod
    def is_connected(self) -> bool:
        """Whether the connection is established."""

    async def relay(self, method: str, params: dict[str, Any], request: Any) -> dict[str, Any]:
        """Make a request on behalf of another, whose client hears of its progress and answers its questions.

        As it stands, it is made in a thread, and nobody hears of anything but its result.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.
            request: The other request, a `gaia_bridge.contract.ClientRequest`.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            RequestError: It did not answer as it should.
        """
        try:
            response = await anyio.to_thread.run_sync(self.send_request, method, params, abandon_on_cancel=True)
        except (RuntimeError, TimeoutError) as failure:
            raise ToolError(str(failure)) from failure
        error, result = response.get("error"), response.get("result")
        if is_object(error):
            code = error.get("code")
            code = code if isinstance(code, int) else INTERNAL_ERROR
            raise ProtocolError(code, str(error.get("message")), error.get("data"))
        if not is_object(result):
            raise ToolError(f"the server answered {method} with neither a result nor an error")
        return result

    def send_notification(self, method: str, params: dict[str, Any] | None = None) -> None:  # noqa: B027 - optional
        """Send a notification, such as `notifications/initialized`. As it stands, it goes nowhere.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.
        """
