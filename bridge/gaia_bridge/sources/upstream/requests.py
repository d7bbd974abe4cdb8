"""The requests to one server: those by which a source serves its clients, and the way of each to the server."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol

import anyio

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.client import Connection, Deadline
from gaia_bridge.client.transport import ConnectionLostError, SessionExpiredError, UnreachableError, UpstreamError
from gaia_bridge.client.transport_factory import Watched
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.crossing import error_for_client, meta_for_server
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import Relay
from gaia_bridge.sources.upstream.result_checks import ResultChecker
from gaia_bridge.sources.upstream.supervisor import Supervisor
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

_CANNOT_ASK: Final = "this transport context has no back-channel"
"""A part of the error of version 2 of the Python SDK for a question to a client of 2026-07-28."""
_ASKS_BY_REQUEST: Final = (
    "upstream %r asked its client a question in a way that 2026-07-28 does not have, and the call failed; "
    'write "era": "handshake" into its entry: the bridge then translates its questions'
)


class AsksServer(ABC):
    """Part of a `Source` whose capabilities come from a server."""

    @abstractmethod
    async def ask(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Forward a request to the server.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Fill in a prompt of the server. Raises as `ask` does."""
        return await self.ask("prompts/get", {"name": name, "arguments": arguments}, request)

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Read a resource of the server.

        Raises:
            ResourceNotFoundError: The server has nothing there.
            ProtocolError: The server answered with another JSON-RPC error, or not at all.
        """
        return await self.ask("resources/read", {"uri": uri}, request)

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Ask the server for suggestions. Raises as `ask` does."""
        params: JSON = {"ref": ref, "argument": argument}
        if context:
            params["context"] = {"arguments": context}
        return await self.ask("completion/complete", params, request)


class _HasTurn(Protocol):
    """Waits for a turn."""

    def set(self) -> None:
        """Take the turn, which has come."""
        ...


class Turns:
    """A semaphore for the concurrent requests of one server, which a holder may release for a while.

    Use only on the event loop.

    Args:
        limit: The most concurrent requests; others wait in order of arrival.
        patience: Seconds for which a request waits.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        self._free = limit
        """Negative while more than `limit` hold the semaphore: those that rested return without waiting."""
        self._queue: deque[_HasTurn] = deque()

    async def __aenter__(self) -> None:
        """Acquire the semaphore.

        Raises:
            UpstreamError: The semaphore was not free in time.
        """
        if self._free > 0:  # then the queue is empty: a released turn goes to the next in it
            self._free -= 1
        else:
            await self._wait()

    async def __aexit__(self, *raised: object) -> None:
        """Release the semaphore."""
        self.give()

    def take(self) -> bool:
        """Acquire the semaphore if it is free; return whether it was."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def give(self) -> None:
        """Release the semaphore."""
        self._free += 1
        if self._free > 0 and self._queue:
            self._free -= 1
            self._queue.popleft().set()

    def wait_for(self, call: _HasTurn) -> None:
        """Wait in order of arrival, without a task; only while the semaphore is not free."""
        self._queue.append(call)

    def leave(self, call: _HasTurn) -> None:
        """Wait no longer, if the turn has not come."""
        if call in self._queue:
            self._queue.remove(call)

    @asynccontextmanager
    async def taken_over(self) -> AsyncGenerator[None]:
        """Hold the semaphore without waiting, for a request that another holder has made."""
        self._free -= 1
        try:
            yield
        finally:
            self.give()

    @contextmanager
    def resting(self) -> Generator[None]:
        """Release the semaphore during the block, while the server waits for an answer."""
        self.give()
        try:
            yield
        finally:
            self._free -= 1

    async def _wait(self) -> None:
        turn = anyio.Event()
        self._queue.append(turn)
        try:
            with anyio.move_on_after(self._patience):
                await turn.wait()
        except BaseException:
            self._leave(turn)
            raise
        if not turn.is_set():
            self._leave(turn)
            raise UpstreamError(f"works on {self._limit} requests, which is all it may; try again later")

    def _leave(self, turn: anyio.Event) -> None:
        if turn.is_set():  # it came just now
            self.give()
        else:
            self._queue.remove(turn)


class _DirectWaiting:
    """A direct call that waits for its turn."""

    def __init__(self, requests: ServerRequests, call: DirectCall, own: str, arguments: JSON) -> None:
        self._take = partial(requests.take_turn, call, own, arguments)

    def set(self) -> None:
        """Send the request soon: whoever gives the turn has something else to do."""
        asyncio.get_running_loop().call_soon(self._take)


class ServerRequests:
    """Makes requests over the connection that all clients share: in turn, and within the deadline of each."""

    def __init__(
        self,
        name: str,
        supervisor: Supervisor[Connection],
        relays: Relays,
        transport: Watched,
        limits: UpstreamLimits,
        is_open: Callable[[], bool],
    ) -> None:
        self._is_open = is_open
        self._name = name
        self._supervisor = supervisor
        self._relays = relays
        self._transport = transport
        self._limits = limits
        self._checker = ResultChecker()
        self._has_explained = False
        self._turns = Turns(limits.max_concurrency, limits.call_timeout)

    async def perform(self, relay: Relay) -> JSON:
        """Make a request, and make it once more if the server forgot the session.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            ToolError: The user refused an action that the server needs.
            UpstreamError: The server gave no valid answer.
        """
        direct = relay.direct
        began = time.monotonic() if direct is None else direct.began
        relay.resting = self._turns.resting
        with self._supervisor.using:
            async with self._turns if direct is None else self._turns.taken_over():
                connection = await self._connection(direct)
                try:
                    return await self._send(connection, relay, began)
                except SessionExpiredError:
                    # The only case in which it is certain that the server did nothing.
                    self._supervisor.expired(connection)
                    relay.direct = None
                connection = await self._supervisor.connection(self._limits.call_timeout)
                return await self._send(connection, relay, began)

    def begin(self, call: DirectCall, own: str, arguments: JSON) -> bool:
        """Send the request of a direct call, or let it wait for its turn; return whether one of both was possible.

        Args:
            own: The server's name of the tool.
        """
        connection, client = self._supervisor.ready, call.origin
        if connection is None or connection.handshake.modern is not client.modern:
            return False
        if not self._relays.admits(connection, client):
            return False
        if not self._turns.take():
            call.connection = waiting = _DirectWaiting(self, call, own, arguments)
            call.is_unsent = True
            self._turns.wait_for(waiting)
            return True
        return self.begin_now(call, connection, own, arguments)

    def begin_now(self, call: DirectCall, connection: Connection, own: str, arguments: JSON) -> bool:
        """Send the request of a direct call, whose turn it is; if that is not possible, give the turn back."""
        client = call.origin
        meta = client.meta
        if client.modern:
            meta = meta_for_server(client.meta, client.client_capabilities, client.log_level)
        if not connection.begin(call, {"name": own, "arguments": arguments}, meta):
            self._turns.give()
            return False
        call.connection, call.is_unsent = connection, False
        self._supervisor.using.count += 1
        return True

    def answered(self, call: DirectCall, now: float) -> None:
        """Stop counting a direct call, which was answered."""
        connection: Connection = call.connection
        del connection.direct[call.number]
        self._relays.note(call.origin, now)
        self._supervisor.answered()
        self._turns.give()
        self._supervisor.using.leave(now)

    def release(self) -> None:
        """Stop counting a direct call, which an ordinary one has taken over."""
        self._turns.give()
        self._supervisor.using.__exit__()

    def abandon(self, call: DirectCall) -> None:
        """Give up a direct call that no ordinary one has taken over."""
        if call.is_withdrawn:
            self._turns.leave(call.connection)
            return
        self._relays.note_given_up(call.origin)  # first: this may release messages of the server
        connection: Connection = call.connection
        connection.abandon(call)

    def take_turn(self, call: DirectCall, own: str, arguments: JSON) -> None:
        """Send the request of a direct call that has waited for its turn, or make the call an ordinary one."""
        connection, client = self._supervisor.ready, call.origin
        is_open = not call.is_withdrawn and self._is_open()
        if not is_open or connection is None or connection.handshake.modern is not client.modern:
            self._turns.give()
        elif not self._relays.admits(connection, client):
            self._turns.give()
        elif self.begin_now(call, connection, own, arguments):
            return
        call.make_ordinary()

    async def _connection(self, direct: DirectCall | None) -> Connection:
        if direct is None:
            return await self._supervisor.connection(self._limits.call_timeout)
        connection: Connection = direct.connection
        return connection

    async def _send(self, connection: Connection, relay: Relay, began: float) -> JSON:
        rest = self._limits.call_cap - (time.monotonic() - began)
        deadline = Deadline(self._limits.call_timeout, rest if rest > 0 else 0)
        garbage, _ = self._transport.garbage
        try:
            result = await self._relays.call(connection, relay, deadline)
        except ConnectionLostError:
            raise
        except UpstreamError as error:
            self._supervisor.unanswered(connection, unreachable=isinstance(error, UnreachableError))
            if self._transport.garbage[0] > garbage:  # the answer, perhaps, over several lines
                raise error.adding("wrote lines to its standard output that are no MCP messages") from None
            raise
        except ProtocolError as error:
            self._supervisor.answered()
            if connection.handshake.modern and _CANNOT_ASK in error.message:
                self._explain_once()
            same_era = connection.handshake.modern is relay.request.modern
            raise error_for_client(error, relay.method, relay.params, same_era=same_era) from None
        self._supervisor.answered()
        return await self._checker.checked(relay.method, result)

    def _explain_once(self) -> None:
        """Log the remedy for a server that cannot ask a client of 2026-07-28."""
        if not self._has_explained:
            self._has_explained = True
            logger.warning(_ASKS_BY_REQUEST, self._name)
