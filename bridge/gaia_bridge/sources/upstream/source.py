"""One upstream server as a source, over any transport: supervised, started when needed, its lists cached.

One task, `Upstream.run`, opens and closes the connections; all other code only uses the current one. Before the server
is started, the bridge publishes its last offer; the real lists replace that when they are known.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from gaia_bridge.calls.cancellation import note_failure
from gaia_bridge.calls.direct_call import DirectCall, begun_by
from gaia_bridge.calls.parked_calls import ParkedCalls, Waiting
from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.client import Connection, Era, EraRefusedError, ServerHandshake, connect
from gaia_bridge.client.transport import Transport, UpstreamError
from gaia_bridge.client.transport_factory import Pace, Watched, kind_of, limits_for, secrets_of, transport_for
from gaia_bridge.client.transports.json_rpc import ForeignTransport
from gaia_bridge.contract import ChangeListener, ClientRequest
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError, ToolError
from gaia_bridge.model import (
    AgentServerSpec,
    Change,
    ChangeKind,
    OpenApiServerSpec,
    ServerFeatures,
    ServerSpec,
    SourceKind,
    SourceState,
    SourceStatus,
    StdioServerSpec,
)
from gaia_bridge.protocol.kinds import TOOL
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.delegate import UpstreamDelegate
from gaia_bridge.sources.upstream.direct_tool import DirectTool
from gaia_bridge.sources.upstream.eras import OPTION_OF, KnownEras, OtherEras, era_of
from gaia_bridge.sources.upstream.error_lines import ErrorLines
from gaia_bridge.sources.upstream.isolation import PrivateConnections
from gaia_bridge.sources.upstream.lending import Lending
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Unseen
from gaia_bridge.sources.upstream.listing.feature_lists import summary
from gaia_bridge.sources.upstream.listing.features import FeatureTracker, FirstLook
from gaia_bridge.sources.upstream.parked_call import ParkedCall
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import Relay, may_be_asked
from gaia_bridge.sources.upstream.requests import AsksServer, ServerRequests
from gaia_bridge.sources.upstream.resource_subscriptions import ResourceSubscriptions
from gaia_bridge.sources.upstream.restart_policy import RestartPolicy
from gaia_bridge.sources.upstream.supervisor import Supervisor
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)


class Upstream(AsksServer):
    """A `Source` whose capabilities come from a server: a child process, over HTTP, or over any given transport.

    Args:
        limits: Deadlines and bounds of all servers; the entry may set its own.
        transport: Replaces the transport that the entry describes.
        cache: Remembers the offers of servers, from one run to the next. Without it, the server is started at once, to
            read its lists.
        on_error_line: Called with every line of a child's error output, redacted.
        launches: Limits the launches of children; shared by all upstreams on one event loop.
        refusal: Called before each start; returns the reason if the server must not be started. See `Watched`.
        alone: The era to try first, if this is a further connection to a server that has a first one already. Such a
            connection opens no others.
    """

    kind = SourceKind.SERVER

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
        alone: Era | None = None,
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._limits = limits = limits_for(limits, spec)
        self._errors = ErrorLines(on_error_line)
        launches_child = transport is None and isinstance(spec, StdioServerSpec)
        self._transport = Watched(
            transport_for(spec, limits, self._errors.note) if transport is None else ForeignTransport(transport),
            launches if launches is not None and launches_child else Pace(0),
            self._errors.last.clear,
            refusal,
        )
        self._redacted = Redactor(secrets_of(spec))
        self._tracker = FeatureTracker(spec, limits, cache, own)
        restarts = RestartPolicy(limits, gives_up=isinstance(spec, StdioServerSpec))
        one_of_both = alone is not None and spec.options.era != "auto"
        called = f"{spec.name} ({spec.options.era})" if one_of_both else spec.name
        self._supervisor: Supervisor[Connection] = Supervisor(called, self, limits, restarts, lazy=spec.options.lazy)
        waiting = Waiting(limits.max_parked)
        self._relays = Relays(spec.name, limits, self.for_log, waiting, self._redacted)
        self._calls = ParkedCalls[ParkedCall](waiting, limits.question_timeout)
        self._requests = ServerRequests(
            spec.name, self._supervisor, self._relays, self._transport, limits, self._is_open
        )
        self._delegate = UpstreamDelegate(spec.name, own, self._relays, self._tracker, self._supervisor)
        self._tasks: TaskGroup | None = None
        self._connection: Connection | None = None
        self._used = False
        self._eras = KnownEras(spec.options, alone)
        self._look = FirstLook(limits)
        self._interests = ResourceSubscriptions(spec.name, self._supervisor, limits.call_timeout)
        self.refused = False
        """Whether the server refused the only era that this connection may use."""
        self.lending = Lending(self, self._transport, spec, limits, lends=transport is None and alone is None)
        """The lender through which agents of this process use the server."""
        shared = replace(spec.options, isolation="shared")

        another = partial(
            Upstream,
            limits=limits,
            transport=transport,
            on_error_line=on_error_line,
            launches=launches,
            own=own,
            refusal=refusal,
        )

        def of_era(era: Era) -> Upstream:
            options = replace(shared, era=OPTION_OF[era], lazy=True)
            return another(replace(self.lending.spec, options=options), alone=era)

        def of_client(request: ClientRequest) -> Upstream:
            private = another(replace(spec, options=shared), alone=era_of(request))
            private._delegate.represent(request)
            private.listen(partial(self._tracker.tell_alone, request.client))
            return private

        alike = isinstance(spec, OpenApiServerSpec) or (isinstance(spec, AgentServerSpec) and spec.alike)
        has_others = alone is None and not alike
        give_way = self._give_way if isinstance(spec, StdioServerSpec) else None
        self._others = OtherEras(
            spec.name,
            self._eras,
            self._look.second,
            of_era if has_others else None,
            self._overheard,
            self._note_eras,
            give_way,
        )
        self._private: PrivateConnections[Upstream] | None = None
        if spec.options.isolation == "session" and transport is None and alone is None:
            self._private = PrivateConnections(of_client, limits.max_sessions)

    @property
    def features(self) -> ServerFeatures:
        """The offer of the server now, or when it was last connected; nothing if it failed."""
        return self._tracker.features

    @property
    def everything(self) -> ServerFeatures:
        """The whole offer, including definitions that the configuration does not permit."""
        return self._tracker.everything

    @property
    def status(self) -> SourceStatus:
        """The state of the server."""
        return self._supervisor.status

    @property
    def details(self) -> JSON:
        """Further details for the status; contains no secrets."""
        supervisor, handshake = self._supervisor, self._connection and self._connection.handshake
        garbage, lines = self._transport.garbage
        return {
            "transport": kind_of(self._spec),
            "protocolVersion": handshake.revision if handshake else None,
            "starts": supervisor.starts,
            "retryIn": round(supervisor.pause, 1),
            "requests": supervisor.requests,
            "subscriptions": len(self._interests),
            "era": self._spec.options.era,
            "otherEras": self._others.details,
            **({} if self._private is None else {"sessions": len(self._private)}),
            "errorLines": self._errors.count,
            "lastErrorLines": list(self._errors.last),
            "cause": self._errors.cause,
            "garbageLines": garbage,
            "firstGarbage": [self._redacted(line) for line in lines],
        }

    @property
    def unseen(self) -> Unseen | None:
        """Entry, process and cache folder of a server that starts for the first time; `None` if it does not."""
        starts = not self.features.is_known and self.status.state is SourceState.STARTING
        return (self._spec, self._transport.pid, self._tracker.cache_folder) if starts else None

    async def wait_settled(self) -> SourceStatus:
        """Wait for the first attempt to connect, if one is needed yet. Bounded once `run` was started."""
        await self._supervisor.first_attempt_ended.wait()
        return self.status

    async def wait_drained(self) -> None:
        """Wait until no request is in flight. Bounded by the deadlines of the requests."""
        await self._supervisor.using.wait_drained()
        for _, other in self._others:
            await other.wait_drained()

    async def connected(self) -> ServerHandshake:
        """Wait for a connection, as a request does, and return the server's handshake.

        Raises:
            UpstreamError: There is no connection; the message says why, and what to do.
        """
        if (ready := self._supervisor.ready) is not None:
            return ready.handshake
        with self._supervisor.using:
            return (await self._supervisor.connection(self._limits.call_timeout)).handshake

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        return self._supervisor.awaited or any(other.awaited for other in self._beside())

    async def started(self) -> None:
        """Wait until the server has started or failed to start. Bounded by the deadline for a start."""
        await self._supervisor.attempted()
        for other in self._beside():
            await other.started()

    def _beside(self) -> Iterator[Upstream]:
        """Yield the further connections: those of the other era, and those of single clients."""
        yield from (other for _, other in self._others)
        yield from self._private or ()

    @property
    def is_awaited(self) -> bool:
        """Whether a call waits for its client to come back with an answer."""
        return len(self._calls) > 0 or any(other.is_awaited for other in self._beside())

    def retry(self) -> None:
        """Connect again now if the server failed. Does nothing while it works."""
        self._supervisor.retry()
        for _, other in self._others:
            other.retry()

    def adjust(self, spec: ServerSpec) -> None:
        """Publish the tools as a new entry wants them, and connect again now if the server failed.

        Args:
            spec: The new entry; only `allowed_tools`, `disabled_tools` and `tools` may be different.
        """
        self._spec = spec
        self._tracker.adjust(spec)
        self._supervisor.retry()

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; return an idempotent function that stops it."""
        return self._tracker.listen(listener)

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait until the offer is known, or the server fails; `first_look` seconds at most, or `first_list`."""
        if not self.features.is_known and not self._supervisor.first_attempt_ended.is_set():
            await self._look.within(self.learn, listed_once=listed_once)

    async def meet(self, request: ClientRequest) -> None:
        """Connect in the era of a client, if the server was never connected in it. Only the first client waits.

        The client's first call would need a connection of that era as well.
        """
        if self._tasks is None or self._connection is None or not self._look.is_first_of(era_of(request)):
            return
        if self.features.for_era(modern=request.modern).modern is not request.modern:
            with anyio.move_on_after(self._look.second()), suppress(UpstreamError):
                await self._others.of(request, self.connected, self._tasks)

    async def learn(self) -> None:
        """Wait until the offer is known, or the server fails."""
        if not self.features.is_known:
            with self._supervisor.using:
                await self._supervisor.first_attempt_ended.wait()

    async def seek(self) -> None:
        """Wait as `settle` does; then read the lists again."""
        await self.settle()
        await self._tracker.renew(0, self._limits.first_look)

    @property
    def is_due(self) -> bool:
        """Whether the offer is not known, or lists are old."""
        return not self.features.is_known or self._tracker.is_due(self._limits.list_max_age)

    async def refresh(self) -> None:
        """Wait as `settle` does; then read old lists again. Waits briefly."""
        await self.settle()
        await self._tracker.renew(self._limits.list_max_age, self._limits.renewal)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the server connected until cancelled. Reports that it started at once, without waiting for the server.

        Failures show in `status`, and as one line each in the log. When cancelled, this returns only after everything
        that the transport holds is released.
        """
        if self._spec.options.disabled:
            self._supervisor.close("its entry in the configuration disables it")
            task_status.started()
            await anyio.sleep_forever()
        if (remembered := await self._tracker.recall()) is not None:
            self._eras.recall(remembered.era, remembered.both)
        self.lending.anticipate()
        task_status.started()
        try:
            async with anyio.create_task_group() as tasks, self.lending.offered():
                self._tasks = tasks
                await self._supervisor.run(at_once=remembered is None or not self._spec.options.lazy)
        finally:
            self._calls.close("the server is no longer published")
            self._tracker.end()

    # Requests

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Run a tool of the server. A failure of the connection becomes an `isError` result.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or the configuration does not permit the tool.
        """
        try:
            own, arguments = self._tracker.published.call(name, arguments)
        except ToolError as error:
            return error_result(str(error))
        return await self.call(own, arguments, request, called=name)

    async def call(
        self, own: str, arguments: JSON, request: ClientRequest, *, called: str | None = None, beside: bool = True
    ) -> JSON:
        """Run a tool by the server's own name for it, whatever its published name; see `call_tool`.

        Args:
            called: The name that the client used.
            beside: Whether a second connection may be used, of the client's era.
        """
        name = own if called is None else called
        try:
            result = await self._relay("tools/call", {"name": own, "arguments": arguments}, request, beside=beside)
        except ToolError as error:
            return error_result(str(error))
        except UpstreamError as error:
            return error_result(f"{self._described(error)} (tool {name!r})")
        if problem := self._tracker.outputs.problem(own, result):
            promise = f"the output schema of its tool {name!r}"
            return error_result(
                f"upstream {self.name!r} answered with structured content against {promise}:\n{problem}"
            )
        return result

    def direct_tool(self, name: str) -> DirectTool | None:
        """Return the way for direct calls of a tool; `None` if they all have to be looked at on their way."""
        published = self._tracker.published
        if published.is_transformed(name) or self._private is not None:
            return None
        deadline = min(self._limits.call_timeout, self._limits.call_cap)
        return DirectTool((self, name), deadline, self._begin, self._requests, self._tracker.outputs.problem)

    def _begin(self, call: DirectCall, own: str, arguments: JSON) -> bool:
        return self._is_open() and self._requests.begin(call, own, arguments)

    def _is_open(self) -> bool:
        """Return whether requests can be made on the shared connection, and count it as used then."""
        if self._others.turning is not None or self._tasks is None:
            return False
        self._used = True
        return True

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Pass on a request whose method the bridge does not know. Raises as `ask` does."""
        result = await self.ask(method, params, request)
        if method == TOOL.method and is_array(tools := result.get(TOOL.field)):
            return {**result, "tools": self._tracker.published.listed(tools)}
        return result

    def roots_changed(self, request: ClientRequest) -> None:
        """Notify the server, over the connection on which it asked for root folders."""
        private = None if self._private is None else self._private.there(request)
        for upstream in (self if private is None else private, *(other for _, other in self._others)):
            if upstream._tasks is not None and upstream._connection is not None:
                upstream._tasks.start_soon(upstream._relays.roots_changed, upstream._connection, request)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of `uri`. Does nothing if the server has no subscriptions.

        The subscription is renewed on every new connection, and keeps the server running.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """
        try:
            await self._interests.add(uri)
        except UpstreamError as error:
            raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; the last one also ends that of the server. Never raises."""
        await self._interests.discard(uri, self._connection)

    def _described(self, error: UpstreamError) -> str:
        """Return the error for the client of a failed request. The call log notes if the deadline had passed."""
        note_failure(too_late=error.too_late, unreached=error.unreached)
        return self._redacted.without_known(f"upstream {self.name!r} {error}")

    async def ask(self, method: str, params: JSON, request: ClientRequest, *, beside: bool = True) -> JSON:
        """Forward a request to the server; see `AsksServer.ask`, and `call` for `beside`."""
        try:
            return await self._relay(method, params, request, beside=beside)
        except UpstreamError as error:
            raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def _relay(self, method: str, params: JSON, request: ClientRequest, *, beside: bool = True) -> JSON:
        """Forward a request. The result may be a question, for a client that cannot be asked in another way."""
        direct = begun_by(self, request)
        if direct is not None and self._tasks is not None:
            relay = Relay(method, params, request, self._tasks, self._limits)
            relay.direct = direct
            try:
                return await self._requests.perform(relay)
            finally:
                relay.end()
        if self._private is not None and self._tasks is not None:
            async with self._private.serving(request, self._tasks) as private:
                if private is not None:
                    return await private._relay(method, params, request)
        call = None if request.request_state is None else self._calls.resumed(request)
        if call is None:
            if self._tasks is None:
                await self._supervisor.connection(0)  # raises with the reason why there is none
                raise UpstreamError("is not running")
            ready = self._supervisor.ready
            same_era = ready is not None and ready.handshake.modern is request.modern and self._others.turning is None
            if beside and not same_era:
                other = await self._others.of(request, self.connected, self._tasks)
                if other is not None:
                    return await other._relay(method, params, request)
            self._used = True
            relay = Relay(method, params, request, self._tasks, self._limits)
            if same_era or not self._may_be_parked(request):
                try:
                    return await self._requests.perform(relay)
                finally:
                    relay.end()
            call = relay.standing = ParkedCall(self._tasks, relay.notes, partial(self._requests.perform, relay))
        asked = await self._calls.run_or_park(call, request, f"{method} at {self.name}", self._limits.call_cap)
        return call.result if asked is None else asked

    def _may_be_parked(self, request: ClientRequest) -> bool:
        """Return whether a call may ask its client in a way that only works when the call outlives the request."""
        speaks_modern = self._connection is not None and self._connection.handshake.modern
        return request.modern and not speaks_modern and may_be_asked(request)

    # The methods for the supervisor: see `supervisor.Life`

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Connection]:
        """Open a connection."""
        era, limits = self._eras.begin(), self._limits
        self._look.begins()
        if self._others.turning:
            limits = replace(limits, connect_timeout=min(limits.connect_timeout, self._look.second()))
        try:
            async with connect(self._transport, self._delegate, limits, era=era, only=self._eras.only) as connection:
                self._connection, self._used = connection, False
                self._eras.record(connection.handshake, era)
                try:
                    yield connection
                finally:
                    self._connection = None
        except EraRefusedError:
            self.refused = True
            raise

    async def prepare(self, connection: Connection) -> None:
        """Read the lists, and renew the subscriptions of clients."""
        with anyio.move_on_after(self._limits.connect_timeout) as patience:
            self._tracker.both = self._eras.both
            await self._tracker.read(connection)
            await self._relays.want_logs(connection)
            await self._interests.renew(connection)
        if patience.cancelled_caught:
            raise UpstreamError(f"did not say within {self._limits.connect_timeout:g} s what it offers")

    async def attend(self, connection: Connection) -> None:
        """Follow the changes of the offer."""
        self._look.succeeded()
        logger.info("%s is ready: %s", self.name, summary(self.features))
        await self._tracker.follow(connection)

    @property
    def needed(self) -> bool:
        """Whether a client is subscribed to a resource, or an agent of this process connected."""
        return len(self._interests) > 0 or self.lending.is_used

    def explained(self, error: UpstreamError) -> str:
        """Explain why the server failed, by its error output, redacted; by its last line if the cause is not known."""
        words = self._connection.last_words if self._connection is not None else ""
        return self._errors.explained(self.lending.spec, error, words)

    def for_log(self, text: str) -> str:
        """Return text of the server for a log or a status, without the secrets that the server was given."""
        return printable(self._redacted(text))

    def changed(self, status: SourceStatus) -> None:
        """Publish the effects of a new state."""
        if status.state is SourceState.FAILED:
            self._tracker.withdraw()
        elif status.state is SourceState.READY:
            self._errors.cause = None
            self._tracker.connected()
            for uri in self._interests:
                self._tracker.announce(Change(ChangeKind.RESOURCE_UPDATED, uri))  # it may have changed meanwhile

    def _overheard(self, other: Upstream, change: Change) -> None:
        """React to a change on a connection of the other era: the same may have changed on this one."""
        self._tracker.overheard(change, other.everything)
        if change.kind.is_list and self._connection is None:
            self._supervisor.retry()

    def _give_way(self, reason: str = "is spoken to in the era of its first client") -> bool:
        """End the connection in favour of another, if no request used it. Returns whether it ended."""
        if self._used or self._supervisor.requests:
            return False
        self._tracker.hurry()
        with self._supervisor.using:  # it is needed again at once, and this end counts as no failure
            self._supervisor.lost(reason, blameless=True)
        return True

    def start_as(self, spec: ServerSpec) -> bool:
        """Start the server in another way from now on, unless it is used already; return whether it will be.

        Args:
            spec: The entry, in which only the inherited variables differ.
        """
        if self._connection is not None and not self._give_way("is started with the variables that an agent gives it"):
            return False
        self._transport.exchange(transport_for(spec, self._limits, self._errors.note))
        return True

    def _note_eras(self) -> None:
        self._tracker.both = self._eras.both
        if self._tasks is not None and self._connection is not None:
            self._tasks.start_soon(self._tracker.remember, self._connection)
