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
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
from msgspec.structs import replace

from gaia.mcp.client.transports.base import ConnectionOverError
from gaia_bridge.calls.rounds import InputRequest, RoundsError, play_rounds
from gaia_bridge.client import ClientDelegate, Connection, Deadline, Era, RequestTimeoutError, ServerHandshake, connect
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer
from gaia_bridge.client.transport import (
    ConnectionLostError,
    Link,
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
        self._ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._greeted, self._released = anyio.Event(), anyio.Event()
        self._task: asyncio.Task[None] | None = None
        self._peer: JsonRpcPeer | None = None
        self._connection: Connection | None = None
        self._reason: Exception = ConnectionLostError(_CLOSED)
        """The reason of the end, if it was not ours."""

    @property
    def handshake(self) -> ServerHandshake | None:
        """The result of the server's handshake, once there is one."""
        return None if self._connection is None else self._connection.handshake

    @property
    def link(self) -> Link | None:
        """The open link, if there is one. May be read in any thread."""
        peer = self._peer
        return None if peer is None or peer.over.is_set() else peer.link

    @property
    def last_link(self) -> Link | None:
        """The link, also after its end."""
        return None if self._peer is None else self._peer.link

    async def open(self) -> None:
        """Open the link: start the process, or reach the address.

        Raises:
            UpstreamError: The server cannot be reached.
        """
        task, patience = self._begin(), self._limits.start_timeout
        try:
            with anyio.move_on_after(patience):
                await asyncio.wait({self._opening})
                return self._opening.result()
            raise UpstreamError(f"could not be reached within {patience:g} s")
        except BaseException:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task})
            raise

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
        if not self._greeted.is_set() and self._introduction is None:
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
                if relay.queue is not None:
                    relay.queue.end()
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
        self._released.set()
        if self._task is not None:
            if not self._opening.done() or (self._greeted.is_set() and not self._agreement.done()):
                self._task.cancel()  # what it waits for may never come
            await asyncio.wait({self._task})

    async def _agreed(self, params: JSON | None = None) -> Connection:
        """Return the connection after its handshake, which is begun with these or the last parameters if it was not."""
        if not self._greeted.is_set():
            params = self._introduction if params is None else params
            if params is None:
                raise ConnectionLostError("is not connected")
            if self._task is None:
                self._begin()
            self._delegate.introduce(params)
            self._greeted.set()
            patience = self._limits.start_timeout
            timer = asyncio.get_running_loop().call_later(patience, self._give_up, patience)
            self._agreement.add_done_callback(lambda _: timer.cancel())
        if not self._agreement.done():
            await asyncio.wait({self._agreement})
        return self._agreement.result()

    def _begin(self) -> asyncio.Task[None]:
        """Begin to connect, in a task of its own: the one that enters a connection has to leave it as well."""
        if self._released.is_set():
            raise ConnectionLostError(_CLOSED)
        loop = asyncio.get_running_loop()
        self._opening: asyncio.Future[None] = loop.create_future()
        self._agreement: asyncio.Future[Connection] = loop.create_future()
        self._delegate = _Delegate(
            self.name, self._id, self._relays if self._id and self._asks else None, self._notified
        )
        self._task = loop.create_task(self._hold(), name=f"connection to {self.name}")
        self._task.add_done_callback(self._resolve)
        return self._task

    async def _hold(self) -> None:
        """Hold the connection until it is released, or ends by itself."""
        # The timers of `open` and `_agreed` keep the deadlines; that of `connect` comes too late to matter.
        more = {name: getattr(self._limits, name) + 1 for name in ("connect_timeout", "download_timeout")}
        limits = replace(self._limits, **more)
        connecting = partial(connect, self._transport, self._delegate, limits, era=self._era, numbers=self._ids)
        try:
            async with connecting(ready=self._linked) as connection:
                if not self._agreement.done():
                    self._connection = connection
                    self._agreement.set_result(connection)
                    await _first(self._released, connection.ended)
        except Exception as error:
            self._reason = error
            if self._agreement.done() and not isinstance(error, UpstreamError):
                logger.exception("%s: the connection ended with an error", self.name)

    def _resolve(self, _: asyncio.Task[None]) -> None:
        """Raise the reason of the end in callers that still wait; also if the task was cancelled before it began."""
        for future in (self._opening, self._agreement):
            if not future.done():
                future.set_exception(self._reason)
            future.exception()  # retrieved: perhaps no caller waits for it

    async def _linked(self, peer: JsonRpcPeer) -> None:
        """Wait, on a new link, until the handshake is to begin."""
        self._peer = peer
        if not self._opening.done():
            self._opening.set_result(None)
        await _first(self._greeted, self._released, peer.over)
        if self._released.is_set():
            raise ConnectionLostError(_CLOSED)
        try:
            peer.check()
        except ConnectionLostError as error:
            raise ConnectionLostError(f"{error} before it completed the handshake") from None

    def _give_up(self, seconds: float) -> None:
        """End a handshake that takes too long."""
        assert self._task is not None
        if not self._agreement.done():
            self._agreement.set_exception(RequestTimeoutError("initialize", seconds))
            self._task.cancel()

    async def _answer(self, method: str, params: JSON | None) -> JSON:
        connection = await self._agreed()
        listed = None if params else KIND_OF_METHOD.get(method)
        if listed is None:
            return await connection.request(method, params, deadline=self._deadline)
        return {listed.field: await connection.list_all(listed.name)}

    async def _request_as_it_is(self, method: str, params: JSON | None) -> JSON:
        """Make a request on a link without a handshake; return the server's response."""
        if self._peer is None:
            raise ConnectionLostError("is not connected")
        link = self._peer.check()
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


async def _first(*events: anyio.Event) -> None:
    """Wait for the first of some events."""

    async def wait(event: anyio.Event) -> None:
        await event.wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for event in events:
            tasks.start_soon(wait, event)


class _Delegate(ClientDelegate):
    """Our identity: the client info of the caller of `initialize`."""

    def __init__(self, server: str, own: str, relays: Relays | None, notified: Notified) -> None:
        self.server, self.id = server, own
        self.relays = relays
        """The requests whose clients can be asked."""
        self.capabilities = {}
        self._notified = notified

    def introduce(self, params: JSON) -> None:
        """Use the parameters of `initialize`.

        The link, which is open, has the object with the capabilities already: it is filled in here.
        """
        info, capabilities = params.get("clientInfo"), params.get("capabilities")
        self.info = info if is_object(info) else self.info
        if self.relays is not None:
            self.capabilities |= ASKABLE
        elif is_object(capabilities):
            self.capabilities |= capabilities

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
