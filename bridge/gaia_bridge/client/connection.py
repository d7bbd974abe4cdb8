"""One open connection to one upstream server: the only interface to the server that the rest of the core uses."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.results.conversion import is_input_required
from gaia_bridge.calls.rounds import InputRequest, RoundsError, play_rounds
from gaia_bridge.client.json_rpc_peer import TOOL_CALL, JsonRpcPeer, open_peer
from gaia_bridge.client.lists import ReadPage, ToolHeaders, read_pages
from gaia_bridge.client.negotiation import DISCOVER, attempts, modern_meta
from gaia_bridge.client.questions import answer_of
from gaia_bridge.client.subscriptions import Subscriptions
from gaia_bridge.client.tasks import Tasks
from gaia_bridge.client.transport import (
    ConnectionLostError,
    MisconfiguredError,
    StartTimeoutError,
    Transport,
    UnheardError,
    UpstreamError,
)
from gaia_bridge.client.types import ClientDelegate, Era, OnProgress, ServerHandshake
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.kinds import TEMPLATE, DefinitionKind
from gaia_bridge.protocol.meta import LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.protocol.vocabulary import CAPABILITY_OF
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object, value_at


@asynccontextmanager
async def connect(
    transport: Transport,
    delegate: ClientDelegate,
    limits: UpstreamLimits,
    *,
    era: Era | None = None,
    only: Era | None = None,
    numbers: Iterator[int] | None = None,
    ready: Callable[[JsonRpcPeer], Awaitable[None]] | None = None,
) -> AsyncGenerator[Connection]:
    """Open a connection and agree on a revision; the end of the block closes it.

    One task opens and closes it, every task may use it. Exceptions of the block are raised unchanged.

    Args:
        transport: Opens a second link if the server ends the first because of the probe.
        era: The era of the server's last connection: it is tried first, without a probe. `None` probes.
        only: The only era to try; `None` for both.
        numbers: The ids of requests, for a caller that also makes its own over the same link; from 1 on if `None`.
        ready: Called with each new link; the handshake begins when it returns, in the time that was left before.

    Raises:
        EraRefusedError: The server does not speak `only`.
        UpstreamError: There is no connection, no common revision, or no answer within `limits.start_timeout`.
    """
    first: UpstreamError | None = None
    # The scope stays around the connection, because a link may have scopes of its own, which must end in its order.
    with anyio.CancelScope(deadline=anyio.current_time() + limits.start_timeout) as patience:
        for attempt in attempts(era, only):
            async with open_peer(transport, delegate, limits, numbers) as peer:
                if ready is not None:
                    left, patience.deadline = patience.deadline - anyio.current_time(), math.inf
                    await ready(peer)
                    patience.deadline = anyio.current_time() + left
                try:
                    handshake = await attempt.greet(peer, delegate, limits)
                except MisconfiguredError as error:
                    raise MisconfiguredError(_unanswered(error)) from None
                except UnheardError as error:  # the server ends before it reads anything, so a retry would not help
                    raise _unanswered_error(first, error) from None
                except attempt.gives_way_to as error:
                    first = first or error
                    continue
                except ConnectionLostError as error:
                    raise _unanswered_error(first, error) from None
                connection = Connection(peer, handshake, delegate, limits)
                await connection.start()
                patience.deadline = math.inf
                yield connection
                return
    if isinstance(first, ConnectionLostError):
        raise _unanswered_error(first, first)
    raise StartTimeoutError(f"did not complete the handshake within {limits.start_timeout:g} s (startup_timeout)")


def _unanswered_error(first: UpstreamError | None, last: ConnectionLostError) -> ConnectionLostError:
    """Describe how the server ended, in its first attempt if it ended there: later failures are mostly a consequence.

    The message does not name the request of the handshake, since none of them does any work.
    """
    return ConnectionLostError(_unanswered(first if isinstance(first, ConnectionLostError) else last))


def _unanswered(error: ConnectionLostError) -> str:
    ending = str(error).partition(" before it answered")[0]
    return f"{ending} before it completed the handshake"


class Connection:
    """Requests over one connection, which any task may make. Created by `connect`."""

    def __init__(
        self, peer: JsonRpcPeer, handshake: ServerHandshake, delegate: ClientDelegate, limits: UpstreamLimits
    ) -> None:
        self.handshake = handshake
        """The description that the server gave of itself."""
        self.ended = peer.over
        """Set when the connection is over, from either side."""
        self.new_id = peer.new_id
        """Returns an id for a request to be made, by which messages that belong to the request can be recognized."""
        self.direct = peer.direct
        """The direct calls that are neither answered nor adopted by `request`, by the ids of their requests."""
        self.abandon = peer.abandon
        """Gives up one of these."""
        self._peer = peer
        self._delegate = delegate
        self._limits = limits
        self._deadline = Deadline(limits.call_timeout, limits.call_cap)
        self._list_deadline = Deadline(limits.list_timeout, limits.list_timeout)
        self._headers = ToolHeaders(delegate.server)
        self._meta: JSON = {}
        self._tasks = Tasks(peer, {} if handshake.modern else handshake.capabilities, limits)
        self._subscriptions: Subscriptions | None = None
        if handshake.modern:
            self._meta = modern_meta(delegate.info, peer.declared, handshake.revision)
            self._subscriptions = Subscriptions(peer, limits, handshake.capabilities, self._meta)
            peer.on_notification = self._subscriptions.receive

    async def start(self) -> None:
        """Receive changes from now on; raise `ConnectionLostError` if it is over already. Called once, by `connect`."""
        if self._subscriptions is not None:
            await self._subscriptions.start()
        self._peer.check()
        self._peer.established = True

    @property
    def may_subscribe(self) -> bool:
        """Whether the server notifies of updates of resources."""
        return value_at(self.handshake.capabilities, "resources", "subscribe") is True

    @property
    def last_words(self) -> str:
        """The last line of the server's error output, redacted, for our own log; empty where there is none."""
        return self._peer.link.last_words

    async def request(
        self,
        method: str,
        params: JSON | None = None,
        *,
        on_progress: OnProgress | None = None,
        deadline: Deadline | None = None,
        rounds: bool = True,
        number: int | None = None,
    ) -> JSON:
        """Make one request; return its result, unchanged. Cancelling this notifies the server of that.

        Args:
            params: Its parameters, relayed as they are; a `_meta` among them is completed with the keys of our hop.
            on_progress: Requests and receives progress: awaited in the order of arrival, and for the last time
                before this returns.
            deadline: The time that the server may take, in each round anew, because users need their time too;
                `limits.call_timeout` and `limits.call_cap` if `None`.
            rounds: Whether an `input_required` result (2026-07-28) is answered by the delegate and the request
                repeated until it is complete. If not, that result is returned.
            number: Its id, from `new_id`, if the caller needs to know it; a request that is repeated has a new one.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            ConnectionLostError: The connection is over.
            SessionExpiredError: The server no longer knows the session.
            RequestTimeoutError: The server did not answer in time.
            UpstreamError: The answer of the server is missing or invalid.
        """
        deadline = deadline or self._deadline
        if self._tasks.tools and params is not None and self._tasks.needed(method, params):
            return await self._tasks.play(params, deadline, on_progress, number)
        sent, headers = params, None
        if self.handshake.modern:
            sent, headers = self._stamped(params), self._headers.of(params) if method == TOOL_CALL else None
        result = await self._peer.request(
            method, sent, deadline, on_progress=on_progress, headers=headers, number=number
        )
        if not rounds or not self.handshake.modern or not is_input_required(result):
            return result
        ask = partial(self._again, method, params, on_progress, deadline)
        most, questions = self._limits.max_rounds, self._limits.requests_in_result
        try:
            return await play_rounds(method, result, ask, self._answers, rounds=most, questions=questions)
        except RoundsError as error:
            raise UpstreamError(str(error)) from None

    def begin(self, call: DirectCall, params: JSON, meta: Mapping[str, Any]) -> bool:
        """Send the request of a direct call of a tool, if nothing stands in the way; return whether it was sent.

        Args:
            params: Its parameters, without `_meta`.
            meta: Its `_meta`, which is completed with the keys of our hop.
        """
        if self._tasks.tools and self._tasks.needed(TOOL_CALL, params):
            return False
        headers = None
        if self.handshake.modern:
            headers = self._headers.of(params)
            meta = {**self._meta, **meta, PROTOCOL_VERSION_KEY: self.handshake.revision}
        return self._peer.begin(call, params, meta, self._deadline, headers)

    async def notify(self, method: str, params: JSON | None = None) -> None:
        """Send a notification; raise `UpstreamError` if it cannot be sent."""
        await self._peer.notify(method, self._stamped(params) if self.handshake.modern else params)

    async def list_all(self, kind: str) -> list[Any]:
        """Read all definitions of a list, with `list_pages`."""
        return [item for page in await self.list_pages(kind) for item in page.items]

    async def list_declared(self, kind: DefinitionKind, problems: list[str]) -> list[JSON] | None:
        """Read a list that the server declares, as far as its items are objects.

        Args:
            problems: A failure is added to them, in words; then the result is `None`.
        """
        try:
            return [item for item in await self.list_all(kind.name) if is_object(item)]
        except ProtocolError as error:
            if kind is not TEMPLATE:  # many servers with resources have no templates
                problems.append(f"its {kind.name}s cannot be listed: {error.message} ({error.code})")
        except UpstreamError as error:
            problems.append(f"its {kind.name}s cannot be listed: it {error}")
        return None

    async def list_pages(self, kind: str) -> list[ReadPage]:
        """Read a list to its last page, or to the limit, with retries where these may help.

        The pages are unchecked, and without the definitions that the revision forbids a client to use.

        Args:
            kind: A key of `kinds.KINDS`.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            UpstreamError: It did not answer, not in time, or with no list.
        """
        ask = partial(self.request, deadline=self._list_deadline)
        pages = await read_pages(kind, ask, self._limits, self._delegate.server)
        if kind == "tool":
            self._tasks.learn([tool for page in pages for tool in page.items])
            if self.handshake.modern:
                return self._headers.admitted(pages)
        return pages

    async def ping(self) -> float:
        """Return the seconds that an answer took; raise `UpstreamError` if none came within `limits.ping_timeout`."""
        started = time.perf_counter()
        patience = Deadline(self._limits.ping_timeout, self._limits.ping_timeout)
        await self.request(DISCOVER if self.handshake.modern else "ping", deadline=patience)
        return time.perf_counter() - started

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of a resource, where the server offers that. Raises as `request` does."""
        if self._subscriptions is not None:
            await self._subscriptions.subscribe(uri)
        elif self.may_subscribe:
            await self.request("resources/subscribe", {"uri": uri}, deadline=self._list_deadline)

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe from updates of a resource. Raises as `request` does."""
        if self._subscriptions is not None:
            self._subscriptions.unsubscribe(uri)
        elif self.may_subscribe:
            await self.request("resources/unsubscribe", {"uri": uri}, deadline=self._list_deadline)

    async def set_log_level(self, level: str) -> None:
        """Request log messages of one of `model.LOG_LEVELS` and above, if the server has any. Raises as `request`."""
        if self.handshake.modern:
            self._meta[LOG_LEVEL_KEY] = level
        elif "logging" in self.handshake.capabilities:
            await self.request("logging/setLevel", {"level": level}, deadline=self._list_deadline)

    async def _again(
        self, method: str, params: JSON | None, on_progress: OnProgress | None, deadline: Deadline, more: JSON
    ) -> JSON:
        """Make a modern request again, with more parameters."""
        headers = self._headers.of(params) if method == TOOL_CALL else None
        sent = self._stamped(params) | more
        return await self._peer.request(method, sent, deadline, on_progress=on_progress, headers=headers)

    def _stamped(self, params: JSON | None) -> JSON:
        """Add our `_meta` to parameters. Keys that the caller set for its own client win, save the revision."""
        meta = None if params is None else params.get("_meta")
        if not is_object(meta):
            return {**(params or {}), "_meta": dict(self._meta)}
        return {**(params or {}), "_meta": {**self._meta, **meta, PROTOCOL_VERSION_KEY: self.handshake.revision}}

    async def _answer(self, method: str, params: JSON) -> JSON:
        """Answer a question of a round. One without a declared capability fails the call: the server is at fault."""
        if CAPABILITY_OF.get(method) not in self._peer.declared:
            raise UpstreamError(f"asks for {printable(method, 200)}, which was not declared to it")
        return await answer_of(self._delegate, self._peer.declared, method, params)

    async def _answers(self, questions: Mapping[str, InputRequest]) -> JSON:
        answers: JSON = {}
        failure: Exception | None = None

        async def put(key: str, question: InputRequest) -> None:
            nonlocal failure
            try:
                answers[key] = await self._answer(question.method, question.params)
            except Exception as error:  # raised below, not in the task group, which would wrap it
                failure = failure or error
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, question in questions.items():
                tasks.start_soon(put, key, question)
        if failure is not None:
            raise failure
        return {key: answers[key] for key in questions}
