"""A connection in separate calls, for callers that cannot hold an `async with` open: open, initialize, use, close.

`client.connect` is a block that one task enters and leaves. A `DetachedConnection` keeps such a task, so that every
step may come from a task of its own, as synchronous code on a background loop requires. It opens the link first
and shakes hands later, because the specification's transports have those two steps. Answers have the shape of
JSON-RPC responses, and failures are Python's own exceptions, as in the specification's `MCPTransport.send_request`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import anyio
from msgspec.structs import replace

from gaia.mcp.client.transports.base import ConnectionOverError
from gaia_bridge.calls.rounds import InputRequest, RoundsError, play_rounds
from gaia_bridge.client import ClientDelegate, Connection, Deadline, Era, RequestTimeoutError, ServerHandshake, connect
from gaia_bridge.client.transport import (
    ConnectionLostError,
    Link,
    Receiver,
    SessionExpiredError,
    Transport,
    UpstreamError,
)
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError, ToolError
from gaia_bridge.protocol.kinds import KIND_OF_METHOD
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import ASKABLE, Relay
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

Notified = Callable[[str, JSON], None]
"""Called on the event loop with the method and the parameters of a notification; must neither block nor raise."""

_CLOSED: Final = "is no longer connected"

T = TypeVar("T")


class DetachedConnection:
    """One connection to one server. Every method that is a coroutine runs on the same event loop.

    Args:
        limits: Deadlines and bounds; `call_timeout` is the limit of one request without progress.
        era: The era of the server last time. If it is not known, the server gets `initialize` first, as the
            specification demands, and `server/discover` only after it refused that.
        own: The id that requests list as passed. With one, `relay` can be used.
        introduction: The parameters of `initialize` on the connection before this one. If there was one, its users may
            not know that it is over: the handshake comes before their requests.
        asks: Whether the server may ask the clients of requests that are relayed.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        limits: UpstreamLimits,
        notified: Notified,
        era: Era | None = None,
        own: str = "",
        introduction: JSON | None = None,
        *,
        asks: bool = True,
    ) -> None:
        self.name = name
        self._id = own
        self._asks = asks
        self._relays = Relays(name, limits)
        self._transport = transport
        self._limits = limits
        self._deadline = Deadline(limits.call_timeout, max(limits.call_timeout, limits.call_cap))
        self._notified = notified
        self._era = era or Era.LEGACY
        self._introduction = introduction
        self._held: _HeldLink | None = None
        self._opening: _HeldLink | None = None
        self._connection: _Held[Connection] | None = None
        self._is_closing = False
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)

    @property
    def handshake(self) -> ServerHandshake | None:
        """The result of the server's handshake, once there is one."""
        connection = None if self._connection is None else self._connection.entered
        return None if connection is None else connection.handshake

    @property
    def link(self) -> Link | None:
        """The open link, if there is one. May be read in any thread."""
        held = self._held
        return None if held is None or held.ending is not None else held.entered

    @property
    def last_link(self) -> Link | None:
        """The link, also after its end."""
        return None if self._held is None else self._held.entered

    async def open(self) -> None:
        """Open the link: start the process, or reach the address.

        Raises:
            UpstreamError: The server cannot be reached.
        """
        with anyio.move_on_after(self._limits.start_timeout):
            await self._new_link()
            return
        raise UpstreamError(f"could not be reached within {self._limits.start_timeout:g} s")

    async def initialize(self, params: JSON) -> JSON:
        """Shake hands with the server, whatever its era, or wait for the handshake that has begun.

        There is one for all, with the same result. A caller that gives up leaves the handshake to the others; it ends
        by itself, in bounded time.

        Args:
            params: The parameters of an `initialize` request; `clientInfo` and `capabilities` are used.

        Returns:
            The response to `initialize`, also where the server has no such request.

        Raises:
            TimeoutError: The server did not answer in time.
            RuntimeError: The connection is over.
        """

        async def introduce() -> JSON:
            handshake = (await self._agreed(params)).handshake
            result: JSON = {
                "protocolVersion": handshake.revision,
                "capabilities": handshake.capabilities,
                "serverInfo": handshake.info,
            }
            return result if handshake.instructions is None else {**result, "instructions": handshake.instructions}

        return await self._respond(introduce(), next(self._numbers))

    async def request(self, method: str, params: JSON | None, number: int) -> JSON:
        """Make one request. A list is read to its last page, unless a cursor is given.

        If the first request on a link is any other than `initialize`, all are sent unchanged; those that are made
        during the handshake wait for its end.

        Args:
            number: The `id` of the response.

        Returns:
            A JSON-RPC response. A failure of this request alone has the shape of an error response.

        Raises:
            TimeoutError: The request was not answered in time.
            RuntimeError: The connection is over.
        """
        if self._connection is None and self._introduction is None:
            return await self._respond(self._request_as_it_is(method, params), number, is_response=True)
        return await self._respond(self._answer(method, params), number)

    async def relay(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Make a request on behalf of another one, whose client gets its progress and answers its questions.

        Args:
            request: The other request; one that can be asked directly.

        Raises:
            RequestError: There is no result.
        """
        try:
            return await self._relayed(method, params, request)
        except UpstreamError as error:
            raise ToolError(f"server {self.name!r} {error}") from None

    async def request_for(self, method: str, params: JSON, number: int, request: ClientRequest) -> JSON:
        """Make a request as `request` does, on behalf of another as `relay` does."""
        return await self._respond(self._relayed(method, params, request), number)

    async def _relayed(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        outcome: JSON | Exception = {}
        async with anyio.create_task_group() as tasks:
            relay = Relay(method, params, request, tasks, self._limits)
            try:
                outcome = await self._in_rounds(relay)
            except Exception as error:  # raised again, not in the task group, which would wrap it
                outcome = error
            finally:
                relay.end()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _in_rounds(self, relay: Relay) -> JSON:
        connection = await self._agreed()
        request: Any = relay.request

        async def ask() -> JSON:
            return await self._relays.call(connection, relay, self._deadline)

        async def again(more: JSON) -> JSON:
            relay.request = request.next_round(more.get("inputResponses") or {}, more.get("requestState"))
            return await ask()

        async def answer(questions: Mapping[str, InputRequest]) -> JSON:
            return {key: await relay.ask(*question) for key, question in questions.items()}

        rounds, most = self._limits.max_rounds, self._limits.requests_in_result
        try:
            return await play_rounds(relay.method, await ask(), again, answer, rounds=rounds, questions=most)
        except RoundsError as error:
            raise UpstreamError(str(error)) from None

    async def notify(self, method: str, params: JSON | None) -> None:
        """Send a notification; it is lost if the connection is over."""
        message: JSON = {"jsonrpc": "2.0", "method": method}
        link = self.link
        if link is not None:
            try:
                await link.notify(message if params is None else {**message, "params": params})
            except UpstreamError as error:
                logger.debug("%s: %s was not sent: it %s", self.name, method, error)

    async def close(self) -> None:
        """Close the connection, within the bounds of its transport; twice is harmless."""
        self._is_closing = True
        for held in (self._connection, self._opening, self._held):
            if held is not None:
                await held.close()

    async def _agreed(self, params: JSON | None = None) -> Connection:
        """Return the connection after its handshake, which is begun with these or the last parameters if it was not."""
        if self._connection is None:
            params = self._introduction if params is None else params
            if params is None:
                raise ConnectionLostError("is not connected")
            self._connection = self._begin(params)
        return await self._connection.opened()

    def _begin(self, params: JSON) -> _Held[Connection]:
        """Begin the handshake, in a task that owns the connection."""
        if self._is_closing:
            raise ConnectionLostError(_CLOSED)
        delegate = _Delegate(self.name, params, self._notified)
        if self._id:
            delegate.id = self._id
            if self._asks:
                delegate.capabilities, delegate.relays = dict(ASKABLE), self._relays
        # The timer below keeps the deadline; that of `connect` comes too late to matter.
        more = {name: getattr(self._limits, name) + 1 for name in ("connect_timeout", "download_timeout")}
        limits = replace(self._limits, **more)
        opening = connect(_HeldLinks(self._link_for), delegate, limits, era=self._era, numbers=self._ids)
        held = _Held(self.name, "connection", opening)
        patience = self._limits.start_timeout
        timer = asyncio.get_running_loop().call_later(patience, held.fail, RequestTimeoutError("initialize", patience))
        held.entering.add_done_callback(lambda _: timer.cancel())
        return held

    async def _answer(self, method: str, params: JSON | None) -> JSON:
        connection = await self._agreed()
        listed = None if params else KIND_OF_METHOD.get(method)
        if listed is None:
            return await connection.request(method, params, deadline=self._deadline)
        return {listed.field: await connection.list_all(listed.name)}

    async def _request_as_it_is(self, method: str, params: JSON | None) -> JSON:
        """Make a request on a link without a handshake; return the server's response."""
        link = self.link
        if link is None:
            ending = None if self._held is None else self._held.ending
            raise ConnectionLostError(ending or "is not connected")
        message: JSON = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}
        with anyio.move_on_after(self._limits.call_timeout):
            return await link.request(message)
        raise RequestTimeoutError(method, self._limits.call_timeout)

    async def _respond(self, answer: Awaitable[JSON], number: int, *, is_response: bool = False) -> JSON:
        """Return the response for an answer; raise as `request` does."""
        try:
            outcome = await answer
            return {**outcome, "id": number} if is_response else {"jsonrpc": "2.0", "id": number, "result": outcome}
        except ProtocolError as error:
            return _failure(number, error.code, error.message, error.data)
        except RequestTimeoutError as error:
            raise TimeoutError(f"{self.name} {error}") from None
        except SessionExpiredError as error:
            raise ConnectionOverError(f"{self.name} {error}") from None
        except ConnectionLostError as error:
            raise RuntimeError(f"{self.name} {error}") from None
        except UpstreamError as error:
            return _failure(number, INTERNAL_ERROR, f"{self.name} {error}")

    async def _link_for(self, receiver: Receiver) -> _HeldLink:
        """Return the link that was opened already, or a new one for each further attempt to agree with the server."""
        held = self._held
        if held is None or held.receiver is not None:
            held = await self._new_link()
        held.hand_to(receiver)
        return held

    async def _new_link(self) -> _HeldLink:
        if self._is_closing:
            raise ConnectionLostError(_CLOSED)
        held = self._opening = _HeldLink(self.name, self._transport, self._notified)
        try:
            await held.opened()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await held.close()
            raise
        self._held = held
        return held


class _Held(Generic[T]):
    """A context manager held open by a task of its own, because the task that entered it has to leave it."""

    def __init__(self, server: str, kind: str, manager: AbstractAsyncContextManager[T]) -> None:
        self.entered: T | None = None
        """The context manager's value, once it was entered; also after its end."""
        self.entering: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.entering.add_done_callback(_retrieve)
        self._server = server
        self._released = asyncio.Event()
        self._task = asyncio.create_task(self._hold(manager), name=f"{kind} to {server}")

    async def opened(self) -> T:
        """Wait until the context manager is entered, and return its value; raise the error of entering it."""
        if not self.entering.done():
            await asyncio.wait({self.entering})
        if self.entering.cancelled():
            raise ConnectionLostError(_CLOSED)
        return self.entering.result()

    def fail(self, error: Exception) -> None:
        """Give up entering the context manager, if that still waits."""
        if not self.entering.done():
            self.entering.set_exception(error)
            self._task.cancel()

    def release(self) -> None:
        """Leave the context manager, without waiting for that."""
        self._released.set()

    async def close(self) -> None:
        """Leave the context manager; bounded by its transport."""
        self.release()
        if not self.entering.done():  # perhaps it never will be
            self._task.cancel()
        await asyncio.wait({self._task})

    def lost(self, error: Exception) -> None:
        """Log an error after the context manager was entered."""
        if not isinstance(error, UpstreamError):
            logger.exception("%s: the connection ended with an error", self._server)

    async def _hold(self, manager: AbstractAsyncContextManager[T]) -> None:
        try:
            async with manager as self.entered:
                if not self.entering.done():
                    self.entering.set_result(self.entered)
                await self._released.wait()
        except Exception as error:
            if not self.entering.done():
                self.entering.set_exception(error)
            else:
                self.lost(error)
        finally:
            self.entering.cancel()  # does nothing to one that is done


def _retrieve(entering: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future, as perhaps no caller waits for it."""
    if not entering.cancelled():
        entering.exception()


class _HeldLinks:
    """The transport for `connect`. Implements `transport.Transport`."""

    def __init__(self, link_for: Callable[[Receiver], Awaitable[_HeldLink]]) -> None:
        self._link_for = link_for

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Hand out a link; leaving closes it."""
        held = await self._link_for(receiver)
        try:
            yield await held.opened()
        finally:
            with anyio.CancelScope(shield=True):
                await held.close()


class _HeldLink(_Held[Link]):
    """An open link. Implements `transport.Receiver`: incoming messages are passed on, once there is a receiver."""

    def __init__(self, server: str, transport: Transport, notified: Notified) -> None:
        self.receiver: Receiver | None = None
        self.ending: str | None = None
        """The reason for the end of the link, if it ended."""
        self._notified = notified
        super().__init__(server, "link", transport.connect(self))

    async def close(self) -> None:
        """Close the link; bounded by its transport."""
        self.ending = self.ending or _CLOSED
        await super().close()

    def lost(self, error: Exception) -> None:
        """Log an error of the open link."""
        logger.debug("%s: the link did not close in good order: %s", self._server, error)

    def hand_to(self, receiver: Receiver) -> None:
        """Pass incoming messages on from now on."""
        self.receiver = receiver
        if self.ending is not None:
            receiver.ended(self.ending)

    def message(self, message: JSON, during: int | None) -> None:
        """Pass on a request or notification of the server."""
        if self.receiver is not None:
            self.receiver.message(message, during)
        elif "id" not in message and isinstance(method := message.get("method"), str):
            params = message.get("params")
            self._notified(method, params if is_object(params) else {})

    def ended(self, reason: str) -> None:
        """Handle the end of the link by the server."""
        self.ending = reason
        self.release()  # its resources are useless now, and others may soon have their numbers
        if self.receiver is not None:
            self.receiver.ended(reason)


class _Delegate(ClientDelegate):
    """Our identity: the client info of the caller of `initialize`."""

    relays: Relays | None = None
    """The requests whose clients can be asked."""

    def __init__(self, server: str, params: JSON, notified: Notified) -> None:
        self.server = server
        info, capabilities = params.get("clientInfo"), params.get("capabilities")
        self.info = info if is_object(info) else ClientDelegate.info
        # Nothing answers questions here, so nothing that asks is declared.
        self.capabilities = capabilities if is_object(capabilities) else {}
        self._notified = notified

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Let the client of the relayed request answer."""
        if self.relays is None:
            return await super().answer(method, params, during)
        return await self.relays.answer(method, params, during)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Pass a notification on."""
        self._notified(method, params)


def _failure(number: int, code: int, message: str, data: Any = None) -> JSON:
    error: JSON = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": number, "error": error}
