"""A server object of the official SDK, or of FastMCP, as a server that is reached without a process and a socket.

It runs on an event loop of its own, in a thread of its own (`sdk_host`): what it blocks is nobody else's loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio

from gaia_bridge.bridge.chaining.sdk_host import SdkHost, Serve
from gaia_bridge.calls.in_flight import SentRequests
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.client.transports.json_rpc import cancellation, is_response
from gaia_bridge.runtime.agent_runner import LoopHandle, Outcome
from gaia_bridge.runtime.own_loop import own_loop_of
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON

__all__ = ["SdkServerTransport"]

_LOWLEVEL: Final = ("_lowlevel_server", "_mcp_server")
"""Where `MCPServer` and `FastMCP` have the server that runs on a pair of streams. Neither says so in public."""

_ENDED: Final = "ended"


class SdkServerTransport:
    """Reaches a server object. Implements `gaia_bridge.client.transport.Transport`.

    Args:
        server: The server: `mcp.server.Server`, `mcp.server.mcpserver.MCPServer` or `fastmcp.FastMCP`.
        name: What it is called, for threads.
        limits: How long it may take to put away what it holds.

    Raises:
        TypeError: It is none of these.
    """

    def __init__(self, server: object, name: str, limits: AgentLimits | None = None) -> None:
        lowlevel = _lowlevel(server)
        if lowlevel is None:
            raise TypeError(f"{server!r} is no MCP server; expected a FastMCP, an MCPServer, or a Server of the SDK")
        self._server: Any = lowlevel
        self._own_loop = own_loop_of(server)
        self._name = name
        self._limits = limits or AgentLimits()
        self._host: SdkHost | None = None

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the server, which runs as long as there is one. Each connection is a session of its own."""
        if self._host is None or self._host.is_over:
            self._host = SdkHost(
                self._server, self._name, None if self._own_loop is None else self._own_loop.borrowed()
            )
            self._host.start()
        host, link = self._host, _SdkLink(receiver)
        host.join(link)
        try:
            await link.opened(self._limits.definitions_timeout)
            yield link
        finally:
            link.close()
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(self._limits.farewell) as waiting:
                    await link.ended.wait()
                stuck = waiting.cancelled_caught
                if stuck:
                    link.cancel()
                if self._host is host and (stuck or not link.began):  # who connects anew is given another
                    self._host = None
                await host.leave(link, self._limits.farewell, stuck=stuck)


class _SdkLink:
    """Implements `client.transport.Link` and `sdk_host.Session`. `serve` and `_pump` run on the server's loop."""

    last_words = ""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pending = SentRequests()
        self._ours = LoopHandle()
        self._theirs: LoopHandle | None = None
        self._scope = anyio.CancelScope()
        self._put: Callable[[Any], None] | None = None
        self._end: Callable[[], None] = lambda: None
        self._is_open = anyio.Event()
        self._is_closed = False
        self._reason: str | None = None
        self.ended = anyio.Event()

    async def serve(self, serve: Serve) -> None:
        """Be served until its input is closed."""
        to_server, reading = anyio.create_memory_object_stream[Any](math.inf)
        writing, from_server = anyio.create_memory_object_stream[Any](0)
        self._put, self._end = to_server.send_nowait, to_server.close
        self._theirs = LoopHandle()
        self._ours.call_soon(self._is_open.set)
        if self._is_closed:
            for stream in (to_server, reading, writing, from_server):
                stream.close()
            return
        error: BaseException | None = None
        try:
            with self._scope:
                async with to_server, reading, writing, from_server, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._pump, from_server)
                    await serve(reading, writing)
                    tasks.cancel_scope.cancel()
        except asyncio.CancelledError:
            raise
        except BaseException as raised:  # noqa: B036 - a SystemExit of its author's code is the end of one session
            error = raised
        finally:
            self.over(Outcome(error=error))

    async def _pump(self, from_server: Any) -> None:
        async for item in from_server:
            message = item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            during = getattr(item.metadata, "related_request_id", None)
            self._ours.call_soon(partial(self._take, message, during if type(during) is int else None))

    def over(self, outcome: Outcome) -> None:
        """The connection ended, or the whole server did; called in any thread."""
        error = outcome.error
        reason = _ENDED if error is None else f"{_ENDED}: {type(error).__name__}"
        self._ours.call_soon(partial(self._finish, reason))

    @property
    def began(self) -> bool:
        """Whether the server serves it, or did."""
        return self._is_open.is_set()

    async def opened(self, timeout: float) -> None:  # noqa: ASYNC109 - whose bound it is
        """Wait until it runs.

        Raises:
            UpstreamError: It does not.
        """
        with anyio.move_on_after(timeout):
            await self._is_open.wait()
        if self._reason is not None:
            raise UpstreamError(f"cannot be reached: it {self._reason}")
        if not self._is_open.is_set():
            raise UpstreamError(f"cannot be reached: it did not start within {timeout:g} s")

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send a request and wait for its response."""
        number: int = message["id"]
        future = self._pending.add(number)
        try:
            self._send(message)
            return await future
        except asyncio.CancelledError:
            if message["method"] != "initialize" and not self._is_closed and self._reason is None:
                self._send(cancellation(number))
            raise
        finally:
            self._pending.forget(number)

    async def notify(self, message: JSON) -> None:
        """Send a notification or a response."""
        self._send(message)

    def agree(self, revision: str) -> None:
        """Nothing to do: the wire is the same in every revision."""

    def close(self) -> None:
        """Close the server's input, which ends the session."""
        self._is_closed = True
        if self._theirs is not None:
            self._theirs.call_soon(self._end)
        else:
            self.ended.set()

    def cancel(self) -> None:
        """Give the session up."""
        if self._theirs is not None:
            self._theirs.call_soon(self._scope.cancel)

    def _send(self, message: JSON) -> None:
        if self._reason is not None or self._theirs is None or self._put is None:
            raise ConnectionLostError(self._reason or _ENDED)
        self._theirs.call_soon(partial(self._put, _session_message(message)))

    def _take(self, message: JSON, during: int | None) -> None:
        if self._is_closed:
            return
        if is_response(message):
            self._pending.resolve(message.get("id"), message)
        else:
            self._receiver.message(message, during)

    def _finish(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self._is_open.set()
        self.ended.set()
        if not self._is_closed:
            self._receiver.ended(reason)
        self._pending.fail(ConnectionLostError(f"{reason} before it answered; whether it did the work is unknown"))


def _lowlevel(value: object) -> Any:
    if isinstance(value, type):
        return None
    for candidate in (value, *(getattr(value, name, None) for name in _LOWLEVEL)):
        if candidate is not None and all(
            callable(getattr(candidate, name, None)) for name in ("run", "create_initialization_options")
        ):
            return candidate
    return None


def _session_message(message: JSON) -> Any:
    """A message as the SDK has it. Whoever has a server object has loaded the SDK already."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
