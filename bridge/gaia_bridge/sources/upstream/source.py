"""One upstream server as a source, over any transport: its offer, and the connections by which it serves clients.

Before the server is started, the bridge publishes its last offer; the real lists replace that when they are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from gaia_bridge.calls.cancellation import note_failure
from gaia_bridge.calls.direct_call import begun_by
from gaia_bridge.calls.parked_calls import resumes_parked
from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.client import Era
from gaia_bridge.client.transport import Transport, UpstreamError
from gaia_bridge.client.transport_factory import Pace, limits_for
from gaia_bridge.contract import ChangeListener, ClientRequest
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError, ToolError
from gaia_bridge.model import (
    AgentServerSpec,
    Change,
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
from gaia_bridge.sources.upstream.direct_tool import DirectTool
from gaia_bridge.sources.upstream.eras import OPTION_OF, era_of
from gaia_bridge.sources.upstream.isolation import PrivateConnections
from gaia_bridge.sources.upstream.lending import Lending
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Unseen
from gaia_bridge.sources.upstream.other_eras import OtherEras
from gaia_bridge.sources.upstream.supervised_connection import SupervisedConnection
from gaia_bridge.text.json_types import JSON, is_array


class _AsksServer(ABC):
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


class Upstream(_AsksServer):
    """A `Source` whose capabilities come from a server: a child process, over HTTP, or over any given transport.

    Most clients share one connection. Others have one of their era, or one of their own.

    Args:
        limits: Deadlines and bounds of all servers; the entry may set its own.
        transport: Replaces the transport that the entry describes.
        cache: Remembers the offers of servers, from one run to the next. Without it, the server is started at once, to
            read its lists.
        on_error_line: Called with every line of a child's error output, redacted.
        launches: Limits the launches of children; shared by all upstreams on one event loop.
        refusal: Called before each start; returns the reason if the server must not be started. See `Watched`.
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
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._limits = limits = limits_for(limits, spec)
        self._tasks: TaskGroup | None = None
        connection = partial(
            SupervisedConnection,
            limits=limits,
            transport=transport,
            on_error_line=on_error_line,
            launches=launches,
            own=own,
            refusal=refusal,
        )
        self._shared = shared = connection(spec, cache=cache, is_lent=lambda: self.lending.is_used)
        self._tracker = shared.tracker
        self.lending: Lending = Lending(_UnchangedServer(self), shared, limits, lends=transport is None)
        """The lender through which agents of this process use the server."""

        def of_era(era: Era) -> SupervisedConnection:
            options = replace(spec.options, era=OPTION_OF[era], lazy=True)
            return connection(replace(shared.spec, options=options), first_era=era)

        def of_client(request: ClientRequest) -> SupervisedConnection:
            private = connection(spec, first_era=era_of(request))
            private.represent(request)
            private.tracker.listen(partial(self._tracker.tell_alone, request.client))
            return private

        alike = isinstance(spec, OpenApiServerSpec) or (isinstance(spec, AgentServerSpec) and spec.alike)
        yields = isinstance(spec, StdioServerSpec)
        self._others = OtherEras(shared, None if alike else of_era, self._overheard, yields=yields)
        self._private: PrivateConnections | None = None
        if spec.options.isolation == "session" and transport is None:
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
        return self._shared.supervisor.status

    @property
    def details(self) -> JSON:
        """Further details for the status; contains no secrets."""
        sessions = {} if self._private is None else {"sessions": len(self._private)}
        return {**self._shared.details, "otherEras": self._others.details, **sessions}

    @property
    def unseen(self) -> Unseen | None:
        """Entry, process and cache folder of a server that starts for the first time; `None` if it does not."""
        starts = not self.features.is_known and self.status.state is SourceState.STARTING
        return (self._spec, self._shared.transport.pid, self._tracker.cache_folder) if starts else None

    async def wait_settled(self) -> SourceStatus:
        """Wait for the first attempt to connect, if one is needed yet. Bounded once `run` was started."""
        await self._shared.supervisor.first_attempt_ended.wait()
        return self.status

    async def wait_drained(self) -> None:
        """Wait until no request is in flight. Bounded by the deadlines of the requests."""
        for connection in (self._shared, *self._others):
            await connection.supervisor.using.wait_drained()

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        return any(connection.supervisor.awaited for connection in self._connections())

    async def started(self) -> None:
        """Wait until the server has started or failed to start. Bounded by the deadline for a start."""
        for connection in self._connections():
            await connection.supervisor.attempted()

    def _connections(self) -> Iterator[SupervisedConnection]:
        """Yield the shared connection, and the further ones: of the other era, and of single clients."""
        yield self._shared
        yield from self._others
        yield from self._private or ()

    def retry(self) -> None:
        """Connect again now if the server failed. Does nothing while it works."""
        for connection in (self._shared, *self._others):
            connection.supervisor.retry()

    def adjust(self, spec: ServerSpec) -> None:
        """Publish the tools as a new entry wants them, and connect again now if the server failed.

        Args:
            spec: The new entry; only `allowed_tools`, `disabled_tools` and `tools` may be different.
        """
        self._spec = spec
        self._tracker.adjust(spec)
        self._shared.supervisor.retry()

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; return an idempotent function that stops it."""
        return self._tracker.listen(listener)

    def _overheard(self, other: SupervisedConnection, change: Change) -> None:
        """React to a change on a connection of the other era: the same may have changed on the shared one."""
        self._tracker.overheard(change, other.tracker.everything)
        if change.kind.is_list and self._shared.connection is None:
            self._shared.supervisor.retry()

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait until the offer is known, or the server fails; `first_look` seconds at most, or `first_list`."""
        if not self.features.is_known and not self._shared.supervisor.first_attempt_ended.is_set():
            await self._shared.look.within(self.learn, listed_once=listed_once)

    async def meet(self, request: ClientRequest) -> None:
        """Connect in the era of a client, if the server was never connected in it. Only the first client waits.

        The client's first call would need a connection of that era as well.
        """
        look = self._shared.look
        if self._tasks is None or self._shared.connection is None or not look.is_first_of(era_of(request)):
            return
        if self.features.for_era(modern=request.modern).modern is not request.modern:
            with anyio.move_on_after(look.second()), suppress(UpstreamError):
                await self._others.of(request, self._tasks)

    async def learn(self) -> None:
        """Wait until the offer is known, or the server fails."""
        if not self.features.is_known:
            with self._shared.supervisor.using:
                await self._shared.supervisor.first_attempt_ended.wait()

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
        shared, options = self._shared, self._spec.options
        if options.disabled:
            shared.supervisor.close("its entry in the configuration disables it")
            task_status.started()
            await anyio.sleep_forever()
        if (remembered := await self._tracker.recall()) is not None:
            shared.eras.recall(remembered.era, remembered.both)
        self.lending.anticipate()
        async with anyio.create_task_group() as tasks, self.lending.offered():
            self._tasks = tasks
            await shared.run(at_once=remembered is None or not options.lazy, task_status=task_status)

    # Requests

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest, *, unchanged: bool = False) -> JSON:
        """Run a tool of the server. A failure of the connection becomes an `isError` result.

        Args:
            name: Its published name; the server's own name for it, if it is `unchanged`.
            unchanged: Whether to run it as the server has it, over the shared connection, whatever the client's era.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or the configuration does not permit the tool.
        """
        try:
            own, arguments = (name, arguments) if unchanged else self._tracker.published.call(name, arguments)
            params: JSON = {"name": own, "arguments": arguments}
            result = await self._relay("tools/call", params, request, beside=not unchanged)
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
        if self._tracker.published.is_transformed(name) or self._private is not None:
            return None
        deadline = min(self._limits.call_timeout, self._limits.call_cap)
        return DirectTool((self, name), deadline, self._shared)

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Pass on a request whose method the bridge does not know. Raises as `ask` does."""
        result = await self.ask(method, params, request)
        if method == TOOL.method and is_array(tools := result.get(TOOL.field)):
            return {**result, "tools": self._tracker.published.listed(tools)}
        return result

    def roots_changed(self, request: ClientRequest) -> None:
        """Notify the server, over the connection on which it asked for root folders."""
        private = None if self._private is None else self._private.there(request)
        for connection in (private or self._shared, *self._others):
            connection.roots_changed(request)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of `uri`. Does nothing if the server has no subscriptions.

        The subscription is renewed on every new connection, and keeps the server running.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """
        try:
            await self._shared.subscriptions.add(uri)
        except UpstreamError as error:
            raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; the last one also ends that of the server. Never raises."""
        await self._shared.subscriptions.discard(uri, self._shared.connection)

    def _described(self, error: UpstreamError) -> str:
        """Return the error for the client of a failed request. The call log notes if the deadline had passed."""
        note_failure(too_late=error.too_late, unreached=error.unreached)
        return self._shared.redactor.without_known(f"upstream {self.name!r} {error}")

    async def ask(self, method: str, params: JSON, request: ClientRequest, *, unchanged: bool = False) -> JSON:
        """Forward a request to the server; see `_AsksServer.ask`, and `call_tool` for `unchanged`."""
        try:
            return await self._relay(method, params, request, beside=not unchanged)
        except UpstreamError as error:
            raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def _relay(self, method: str, params: JSON, request: ClientRequest, *, beside: bool) -> JSON:
        """Make a request over the connection that serves its client.

        Args:
            beside: Whether a second connection may be used, of the client's era.
        """
        shared, tasks = self._shared, self._tasks
        direct = begun_by(self, request)
        if direct is not None:
            return await shared.request(method, params, request, direct)
        if self._private is not None and tasks is not None:
            async with self._private.serving(request, tasks) as private:
                if private is not None:
                    return await private.request(method, params, request)
        ready = shared.supervisor.ready
        is_of_its_era = ready is not None and ready.handshake.modern is request.modern
        if beside and tasks is not None and not is_of_its_era and not resumes_parked(request):
            other = await self._others.of(request, tasks)
            if other is not None:
                return await other.request(method, params, request)
        return await shared.request(method, params, request)


class _UnchangedServer(_AsksServer):
    """The unchanged offer of a server, over the connection that all share. Implements `Source`."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @property
    def name(self) -> str:
        return self._upstream.name

    @property
    def kind(self) -> SourceKind:
        return self._upstream.kind

    @property
    def features(self) -> ServerFeatures:
        return self._upstream.everything

    @property
    def status(self) -> SourceStatus:
        return self._upstream.status

    @property
    def awaited(self) -> bool:
        return self._upstream.awaited

    async def started(self) -> None:
        await self._upstream.started()

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        return self._upstream.listen(listener)

    async def settle(self, *, listed_once: bool = False) -> None:
        await self._upstream.settle(listed_once=listed_once)

    async def learn(self) -> None:
        await self._upstream.learn()

    @property
    def is_due(self) -> bool:
        return self._upstream.is_due

    async def refresh(self) -> None:
        await self._upstream.refresh()

    async def seek(self) -> None:
        await self._upstream.seek()

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        return await self._upstream.call_tool(name, arguments, request, unchanged=True)

    async def ask(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        return await self._upstream.ask(method, params, request, unchanged=True)

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        return await self.ask(method, params, request)

    async def subscribe(self, uri: str) -> None:
        await self._upstream.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self._upstream.unsubscribe(uri)
