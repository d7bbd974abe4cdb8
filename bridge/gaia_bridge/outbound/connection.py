"""One open connection to one upstream server: requests with deadlines, lists to their last page, and its end.

Requests and results are relayed as plain JSON: the SDK's dispatcher carries them, its typed methods are not used,
because those drop unknown fields, validate output schemas and list tools on their own account.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, InitializeResult
from pydantic import ValidationError

from gaia_bridge.errors import ProtocolError
from gaia_bridge.jsontypes import JSON, is_array
from gaia_bridge.outbound.transport import ConnectionLostError, UpstreamError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text import printable
from gaia_bridge.wire import LIST_FIELDS, result_problem

__all__ = ["Connection", "WatchedStream"]

logger = logging.getLogger(__name__)


class _Readable(Protocol):
    async def receive(self) -> SessionMessage | Exception: ...

    async def aclose(self) -> None: ...


class WatchedStream:
    """What a server sends, with word of the end for us before anyone else learns of it; the SDK has no such hook.

    Args:
        stream: The transport's stream.
        on_end: Called once, when the server has closed the connection.
    """

    def __init__(self, stream: _Readable, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end
        self.ended = anyio.Event()

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.ended.set()
            self._on_end()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Connection:
    """Requests over one connection. Any task may make them.

    Args:
        session: An entered session.
        dispatcher: What the session runs on.
        limits: Deadlines.
    """

    def __init__(
        self, session: ClientSession, dispatcher: JSONRPCDispatcher[TransportContext], limits: UpstreamLimits
    ) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self._limits = limits

    async def initialize(self) -> InitializeResult:
        """Shake hands, in the way of the revisions before 2026-07-28, which every stdio server understands.

        Raises:
            UpstreamError: There was no agreement, or none in time (F-005, F-041).
        """
        with anyio.move_on_after(self._limits.connect_timeout):
            try:
                return await self._session.initialize()
            except MCPError as error:
                if _is_lost(error):
                    raise UpstreamError("ended before it completed the handshake") from None
                raise UpstreamError(f"refused the handshake: {printable(error.message)} ({error.code})") from None
            except ValidationError as error:
                raise UpstreamError(f"answered the handshake with {error.error_count()} mistakes") from None
            except RuntimeError as error:
                raise UpstreamError(f"does not fit: {printable(str(error))}") from None
        raise UpstreamError(f"did not complete the handshake within {self._limits.connect_timeout:g} s")

    async def call(self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None = None) -> JSON:
        """Relay one request that a client is waiting for.

        Args:
            method: The JSON-RPC method.
            params: Its parameters, as they go over the wire.
            on_progress: Asks for progress, and receives it.

        Returns:
            The result as it came.

        Raises:
            ProtocolError: The upstream answered with a JSON-RPC error.
            UpstreamError: It did not answer, not in time, or with something that MCP does not allow.
        """
        result = await self._request(method, params, self._limits.call_timeout, on_progress)
        if problem := result_problem(method, result):
            raise UpstreamError(f"answered {method} with a result that MCP does not allow: {problem}")
        return result

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Make a request whose result is empty, such as `resources/subscribe`. Raises as `call` does."""
        await self._request(method, params, self._limits.list_timeout)

    async def list_all(self, kind: str) -> list[Any]:
        """Read a list to its last page, or to the limit (P-4, F-036).

        Args:
            kind: A key of `LIST_FIELDS`.

        Returns:
            The definitions, unchecked.

        Raises:
            ProtocolError: The upstream answered with a JSON-RPC error.
            UpstreamError: It did not answer, not in time, or with no list.
        """
        method, field = LIST_FIELDS[kind]
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        while len(seen) < self._limits.pages:
            params = {} if cursor is None else {"cursor": cursor}
            page = await self._request(method, params, self._limits.list_timeout)
            items, following = page.get(field), page.get("nextCursor")
            if not is_array(items):
                raise UpstreamError(f"answered {method} with something that is no list")
            found += items
            cursor = following if isinstance(following, str) else None
            if not cursor:
                return found
            if cursor in seen:
                break
            seen.add(cursor)
        logger.warning("%s does not end after %d pages; what follows is left out", method, len(seen))
        return found

    async def _request(
        self, method: str, params: Mapping[str, Any], seconds: float, on_progress: ProgressFnT | None = None
    ) -> JSON:
        options: CallOptions = {} if on_progress is None else {"on_progress": on_progress}
        # A deadline of our own: the SDK's starts when the request is written, which a child that no longer reads
        # its input can put off for ever (F-027).
        with anyio.move_on_after(seconds):
            try:
                return await self._dispatcher.send_raw_request(method, params, options)
            except MCPError as error:
                if _is_lost(error):
                    raise ConnectionLostError from None
                raise ProtocolError(error.code, error.message, error.data) from None
        raise UpstreamError(f"did not answer {method} within {seconds:g} s")


def _is_lost(error: MCPError) -> bool:
    """Whether the SDK itself reports the end of the connection; servers use the same code for errors of their own."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed"
