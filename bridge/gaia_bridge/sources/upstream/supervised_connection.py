"""The connection to one server: opened when a request needs it, watched, and opened again after a failure.

Over it go the requests of clients, in turn and within the deadline of each; over it come the server's lists, and its
messages for clients. One task, `SupervisedConnection.run`, opens and closes the connections to the server; all other
code only uses the current one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.parked_calls import ParkedCalls, Waiting
from gaia_bridge.client import Connection, Deadline, Era, EraRefusedError, ServerHandshake, connect
from gaia_bridge.client.transport import (
    ConnectionLostError,
    SessionExpiredError,
    Transport,
    UnreachableError,
    UpstreamError,
)
from gaia_bridge.client.transport_factory import Pace, Watched, kind_of, secrets_of, transport_for
from gaia_bridge.client.transports.json_rpc import ForeignTransport
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Change, ChangeKind, ServerSpec, SourceState, SourceStatus, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.crossing import ResultChecker, error_for_client
from gaia_bridge.sources.upstream.delegate import UpstreamDelegate
from gaia_bridge.sources.upstream.eras import KnownEras
from gaia_bridge.sources.upstream.error_lines import ErrorLines
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge.sources.upstream.listing.feature_lists import summary
from gaia_bridge.sources.upstream.listing.features import FeatureTracker, FirstLook
from gaia_bridge.sources.upstream.parked_call import ParkedCall
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import Relay, may_be_asked
from gaia_bridge.sources.upstream.resource_subscriptions import ResourceSubscriptions
from gaia_bridge.sources.upstream.restart_policy import RestartPolicy
from gaia_bridge.sources.upstream.supervisor import Supervisor
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)

_CANNOT_ASK: Final = "this transport context has no back-channel"
"""A part of the error of version 2 of the Python SDK for a question to a client of 2026-07-28."""
_ASKS_BY_REQUEST: Final = (
    "upstream %r asked its client a question in a way that 2026-07-28 does not have, and the call failed; "
    'write "era": "handshake" into its entry: the bridge then translates its questions'
)


class SupervisedConnection:
    """The connection to one server. Implements `supervisor.Life`.

    Args:
        limits: Deadlines and bounds of this server. The other arguments up to `refusal` are those of `Upstream`.
        first_era: The era to try first, if this is a further connection to a server that has a first one already.
        is_lent: Returns whether an agent of this process uses the server, so that it has to keep running.
    """

    def __init__(
        self,
        spec: ServerSpec,
        limits: UpstreamLimits,
        *,
        transport: Transport | None = None,
        cache: FeatureCache | None = None,
        on_error_line: Callable[[str], None] | None = None,
        launches: Pace | None = None,
        own: str = "",
        refusal: Callable[[], str | None] | None = None,
        first_era: Era | None = None,
        is_lent: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        """The entry by which the server is started or reached."""
        self._limits = limits
        self._is_lent = is_lent
        self._errors = ErrorLines(on_error_line)
        launches_child = transport is None and isinstance(spec, StdioServerSpec)
        self.transport = Watched(
            transport_for(spec, limits, self._errors.note) if transport is None else ForeignTransport(transport),
            launches if launches is not None and launches_child else Pace(0),
            self._errors.last.clear,
            refusal,
        )
        self.redactor = Redactor(secrets_of(spec))
        """Removes the secrets that the server was given."""
        self.tracker = FeatureTracker(spec, limits, cache, own)
        """The offer of the server, as this connection has it."""
        restarts = RestartPolicy(limits, gives_up=isinstance(spec, StdioServerSpec))
        one_of_both = first_era is not None and spec.options.era != "auto"
        called = f"{spec.name} ({spec.options.era})" if one_of_both else spec.name
        self.supervisor = Supervisor(called, self, limits, restarts, lazy=spec.options.lazy)
        waiting = Waiting(limits.max_parked)
        self.relays = Relays(spec.name, limits, self.for_log, waiting, self.redactor)
        """The requests that the server works on."""
        self._parked = ParkedCalls[ParkedCall](waiting, limits.question_timeout)
        self._delegate = UpstreamDelegate(spec.name, own, self.relays, self.tracker, self.supervisor)
        self.subscriptions = ResourceSubscriptions(spec.name, self.supervisor, limits.call_timeout)
        self.eras = KnownEras(spec.options, first_era)
        self.look = FirstLook(limits)
        """The time that clients may wait for the connection."""
        self.connection: Connection | None = None
        """The connection to the server, from the handshake on."""
        self.refused = False
        """Whether the server refused the only era that this connection may use."""
        self.turning: anyio.Event | None = None
        """Set at the end; there while the connection is opened anew in the era of the first client."""
        self._tasks: TaskGroup | None = None
        self.used = False
        """Whether a request used the connection since it was opened."""
        self._checker = ResultChecker()
        self._has_explained = False

    @property
    def revision(self) -> str | None:
        """The revision that both sides agreed on; `None` while there is no connection."""
        return None if self.connection is None else self.connection.handshake.revision

    @property
    def details(self) -> JSON:
        """Further details for the status; contains no secrets."""
        supervisor, errors = self.supervisor, self._errors
        garbage, lines = self.transport.garbage
        return {
            "transport": kind_of(self.spec),
            "protocolVersion": self.revision,
            "starts": supervisor.starts,
            "retryIn": round(supervisor.pause, 1),
            "requests": supervisor.requests,
            "subscriptions": len(self.subscriptions),
            "era": self.spec.options.era,
            "errorLines": errors.count,
            "lastErrorLines": list(errors.last),
            "cause": errors.cause,
            "garbageLines": garbage,
            "firstGarbage": [self.redactor(line) for line in lines],
        }

    @property
    def is_awaited(self) -> bool:
        """Whether a call waits for its client to come back with an answer."""
        return len(self._parked) > 0

    async def run(self, *, at_once: bool = True, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the server connected until cancelled. Reports that it started at once, without waiting for the server.

        Args:
            at_once: Whether to connect before a request needs the server.
        """
        task_status.started()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await self.supervisor.run(at_once=at_once)
        finally:
            self._parked.close("the server is no longer published")
            self.tracker.end()

    async def connected(self) -> ServerHandshake:
        """Wait for a connection, as a request does, and return the server's handshake.

        Raises:
            UpstreamError: There is no connection; the message says why, and what to do.
        """
        if (ready := self.supervisor.ready) is not None:
            return ready.handshake
        with self.supervisor.using:
            return (await self.supervisor.connection(self._limits.call_timeout)).handshake

    def give_way(self, reason: str = "is spoken to in the era of its first client") -> bool:
        """End the connection in favour of another, if no request used it. Returns whether it ended."""
        if self.used or self.supervisor.requests:
            return False
        self.tracker.hurry()
        with self.supervisor.using:  # it is needed again at once, and this end counts as no failure
            self.supervisor.lost(reason, blameless=True)
        return True

    def start_as(self, spec: ServerSpec) -> bool:
        """Start the server in another way from now on, unless it is used already; return whether it will be.

        Args:
            spec: The entry, in which only the inherited variables differ.
        """
        if self.connection is not None and not self.give_way("is started with the variables that an agent gives it"):
            return False
        self.spec = spec
        self.transport.exchange(transport_for(spec, self._limits, self._errors.note))
        return True

    def note_eras(self) -> None:
        """Remember that both eras are known now, or that the server has only one."""
        self.tracker.both = self.eras.both
        if self._tasks is not None and self.connection is not None:
            self._tasks.start_soon(self.tracker.remember, self.connection)

    def represent(self, request: ClientRequest) -> None:
        """Act as the client of a request: use its name and its capabilities."""
        self._delegate.represent(request)

    def roots_changed(self, request: ClientRequest) -> None:
        """Notify the server that the root folders of a client changed, if it asked for them on this connection."""
        if self._tasks is not None and self.connection is not None:
            self._tasks.start_soon(self.relays.roots_changed, self.connection, request)

    # Requests

    async def request(
        self, method: str, params: JSON, request: ClientRequest, direct: DirectCall | None = None
    ) -> JSON:
        """Make a request. The result may be a question, for a client that cannot be asked in another way.

        Args:
            request: The request of a client, for which it is made.
            direct: The direct call that it takes over.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            ToolError: The user refused an action that the server needs.
            UpstreamError: The server gave no valid answer.
        """
        if self._tasks is None:
            await self.supervisor.connection(0)  # raises with the reason why there is none
            raise UpstreamError("is not running")
        call = None if request.request_state is None else self._parked.resumed(request)
        if call is None:
            self.used = True
            relay = Relay(method, params, request, self._tasks, self._limits)
            relay.direct = direct
            speaks_modern = self.connection is not None and self.connection.handshake.modern
            if direct is not None or not request.modern or speaks_modern or not may_be_asked(request):
                return await self._perform(relay)
            # Its client can only be asked when the call outlives the request.
            call = relay.standing = ParkedCall(self._tasks, relay.notes, partial(self._perform, relay))
        asked = await self._parked.run_or_park(call, request, f"{method} at {self.name}", self._limits.call_cap)
        return call.result if asked is None else asked

    async def _perform(self, relay: Relay) -> JSON:
        """Make a request in its turn, and make it once more if the server forgot the session."""
        direct, supervisor, using, limits = relay.direct, self.supervisor, self.supervisor.using, self._limits
        began = time.monotonic() if direct is None else direct.began
        if direct is not None:
            using.take_over()
        elif not using.take():
            await using.wait()
        relay.resting = using.resting
        try:
            connection: Connection | None = supervisor.ready if direct is None else direct.connection
            if connection is None:
                connection = await supervisor.connection(limits.call_timeout)
            try:
                rest = limits.call_cap - (time.monotonic() - began)
                deadline = Deadline(limits.call_timeout, rest if rest > 0 else 0)
                result = await self.relays.call(connection, relay, deadline)
            except SessionExpiredError:
                result = await self._repeated(connection, relay, began)
            except (ProtocolError, UpstreamError) as error:
                raise self._failure(connection, relay, error, began) from None
            if supervisor.doubted:
                supervisor.answered()
            return await self._checker.checked(relay.method, result)
        finally:
            using.give(asyncio.get_running_loop().time())
            if relay.queue is not None:
                relay.queue.end()

    async def _repeated(self, connection: Connection, relay: Relay, began: float) -> JSON:
        """Make a request once more: if the server forgot the session, and only then, it certainly did nothing."""
        self.supervisor.expired(connection)
        relay.direct = None
        limits = self._limits
        connection = await self.supervisor.connection(limits.call_timeout)
        deadline = Deadline(limits.call_timeout, max(0, limits.call_cap - (time.monotonic() - began)))
        try:
            return await self.relays.call(connection, relay, deadline)
        except (ProtocolError, UpstreamError) as error:
            raise self._failure(connection, relay, error, began) from None

    def _failure(self, connection: Connection, relay: Relay, error: Exception, began: float) -> Exception:
        """Return the error of a request in the form that the rest of the core expects, and count it."""
        if isinstance(error, ProtocolError):
            self.supervisor.answered()
            modern = connection.handshake.modern
            if modern and _CANNOT_ASK in error.message and not self._has_explained:
                self._has_explained = True
                logger.warning(_ASKS_BY_REQUEST, self.name)
            return error_for_client(error, relay.method, relay.params, same_era=modern is relay.request.modern)
        if isinstance(error, UpstreamError) and not isinstance(error, ConnectionLostError):
            self.supervisor.unanswered(connection, unreachable=isinstance(error, UnreachableError))
            if self.transport.has_garbage_since(began):  # the answer, perhaps, over several lines
                return error.adding("wrote lines to its standard output that are no MCP messages")
        return error

    # The methods for the supervisor: see `supervisor.Life`

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Connection]:
        """Open a connection."""
        era, limits = self.eras.begin(), self._limits
        self.look.begins()
        if self.turning is not None:
            limits = replace(limits, connect_timeout=min(limits.connect_timeout, self.look.second()))
        try:
            async with connect(self.transport, self._delegate, limits, era=era, only=self.eras.only) as connection:
                self.connection, self.used = connection, False
                self.eras.record(connection.handshake, era)
                try:
                    yield connection
                finally:
                    self.connection = None
        except EraRefusedError:
            self.refused = True
            raise

    async def prepare(self, connection: Connection) -> None:
        """Read the lists, and renew the subscriptions of clients."""
        with anyio.move_on_after(self._limits.connect_timeout) as patience:
            self.tracker.both = self.eras.both
            await self.tracker.read(connection)
            await self.relays.want_logs(connection)
            await self.subscriptions.renew(connection)
        if patience.cancelled_caught:
            raise UpstreamError(f"did not say within {self._limits.connect_timeout:g} s what it offers")

    async def attend(self, connection: Connection) -> None:
        """Follow the changes of the offer."""
        self.look.succeeded()
        logger.info("%s is ready: %s", self.name, summary(self.tracker.features))
        await self.tracker.follow(connection)

    @property
    def needed(self) -> bool:
        """Whether a client is subscribed to a resource, or an agent of this process connected."""
        return len(self.subscriptions) > 0 or self._is_lent()

    def explained(self, error: UpstreamError) -> str:
        """Explain why the server failed, by its error output, redacted; by its last line if the cause is not known."""
        words = self.connection.last_words if self.connection is not None else ""
        return self._errors.explained(self.spec, error, words)

    def for_log(self, text: str) -> str:
        """Return text of the server for a log or a status, without the secrets that the server was given."""
        return printable(self.redactor(text))

    def changed(self, status: SourceStatus) -> None:
        """Publish the effects of a new state."""
        if status.state is SourceState.FAILED:
            self.tracker.withdraw()
        elif status.state is SourceState.READY:
            self._errors.cause = None
            self.tracker.connected()
            for uri in self.subscriptions:
                self.tracker.announce(Change(ChangeKind.RESOURCE_UPDATED, uri))  # it may have changed meanwhile
