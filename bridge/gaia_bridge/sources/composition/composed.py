"""A source with the offer of another one, rewritten by the steps of a composition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import anyio
from anyio.abc import TaskStatus

from gaia_bridge.calls.direct_call import DirectCall, DirectRoute, OffersDirect
from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.contract import ChangeListener, ClientRequest, FollowsRoots, Introducible, Source, Starts
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, RequestError, ResourceNotFoundError, ToolError
from gaia_bridge.model import Change, ChangeKind, ServerFeatures, SourceKind, SourceStatus
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.kinds import KIND_OF_METHOD
from gaia_bridge.protocol.skills import DIRECTORY_READ, SKILLS_GET
from gaia_bridge.sources.composition.offer import Offer, Offers
from gaia_bridge.sources.composition.steps import Step
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class RunningSource(Source, Protocol):
    """A source that runs in a task of its own."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled."""
        ...


class _RunningServer(RunningSource, FollowsRoots, Introducible, Starts, Protocol):
    """A source with all optional methods of a source."""


class ComposedSource:
    """Offers the definitions of a source, rewritten. Implements `gaia_bridge.contract.Source`.

    Requests for a definition that is not offered raise `ProtocolError`; the others, whatever the source raises.
    """

    def __init__(self, wrapped: RunningSource, steps: Sequence[Step]) -> None:
        self.wrapped = wrapped
        self._steps = tuple(steps)
        self._composed: ServerFeatures | None = None
        self._offers = Offers(wrapped.features, (), wrapped.kind)
        self._reported: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.wrapped.name

    @property
    def kind(self) -> SourceKind:
        """That of the source."""
        return self.wrapped.kind

    @property
    def agent(self) -> object:
        """The agent, if the source is one: the bridge recognizes it by this, so as not to give an agent to itself."""
        return getattr(self.wrapped, "agent", None)

    @property
    def features(self) -> ServerFeatures:
        """The definitions that the source offers now, rewritten."""
        return self._current().features

    @property
    def status(self) -> SourceStatus:
        """The status of the source."""
        return self.wrapped.status

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change, except updates of resources that are not offered."""

        def heard(change: Change) -> None:
            if change.kind is not ChangeKind.RESOURCE_UPDATED or self._current().reads(change.uri):
                listener(change)

        return self.wrapped.listen(heard)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the source until cancelled."""
        await self.wrapped.run(task_status=task_status)

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait as the source does."""
        await self.wrapped.settle(listed_once=listed_once)

    async def learn(self) -> None:
        """Wait as the source does."""
        await self.wrapped.learn()

    @property
    def is_due(self) -> bool:
        """Whether the source's lists are old."""
        return self.wrapped.is_due

    async def refresh(self) -> None:
        """Refresh the source."""
        await self.wrapped.refresh()

    async def seek(self) -> None:
        """Let the source read its definitions again."""
        await self.wrapped.seek()

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Run a tool of the source."""
        try:
            own, arguments = await self._look_up(lambda: self._offer(request).tool(name, arguments))
        except ToolError as error:
            return error_result(str(error))
        return await self.wrapped.call_tool(own, arguments, request)

    def direct_tool(self, name: str) -> DirectRoute | None:
        """Return the way for direct calls of a tool, if the source has one, and the tool the same name in both eras."""
        wrapped, names = self.wrapped, self._current().names_of_tool(name)
        route = wrapped.direct_tool(names.pop()) if len(names) == 1 and isinstance(wrapped, OffersDirect) else None
        return None if route is None else _DirectTool(self, name, route, self._begin_direct)

    def _begin_direct(self, call: DirectCall, name: str, arguments: JSON, route: DirectRoute) -> bool:
        try:
            _, arguments = self._current().of_era(modern=call.origin.modern).tool(name, arguments)
        except RequestError:  # which the ordinary call reports
            return False
        return route.begin(call, arguments)

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Fill in a prompt of the source."""
        own = await self._look_up(lambda: self._offer(request).prompt(name))
        return await self.wrapped.get_prompt(own, arguments, request)

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Read a resource of the source."""
        own = await self._look_up(lambda: self._offer(request).resource(uri))
        return await self.wrapped.read_resource(own, request)

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Ask the source for suggestions."""
        if ref["type"] == "ref/prompt":
            name: str = ref["name"]
            ref = {**ref, "name": await self._look_up(lambda: self._offer(request).prompt(name))}
        else:
            uri: str = ref["uri"]
            ref = {**ref, "uri": await self._look_up(lambda: self._offer(request).template(uri))}
        return await self.wrapped.complete(ref, argument, context, request)

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Let the source serve a request whose method the bridge does not know.

        Lists and reads stay limited to what is offered; the bridge cannot know the further meaning of the method.
        """
        if method == DIRECTORY_READ and self._offer(request).filters_resources:
            raise ProtocolError(METHOD_NOT_FOUND, "of what is left of it, its lists tell")
        if method == SKILLS_GET and not self._offer(request).has_skill(str(params.get("uri"))):
            raise ProtocolError(INVALID_PARAMS, f"No skill is served at {params.get('uri')}")
        if method != DIRECTORY_READ and method.startswith("resources/") and isinstance(uri := params.get("uri"), str):
            await self._look_up(lambda: self._offer(request).resource(uri))
        result = await self.wrapped.forward(method, params, request)
        kind = KIND_OF_METHOD.get(method)
        return result if kind is None else self._offer(request).page(kind.name, result)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of a resource."""
        if not self._current().reads(uri):
            raise ResourceNotFoundError(uri)
        await self.wrapped.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription."""
        await self.wrapped.unsubscribe(uri)

    def _offer(self, request: ClientRequest) -> Offer:
        return self._current().of_era(modern=request.modern)

    def _current(self) -> Offers:
        """Return the current offer; it is composed anew only when the source's definitions change."""
        features = self.wrapped.features
        if features is not self._composed:
            self._offers, self._composed = Offers(features, self._steps, self.kind), features
            self._report(features)
        return self._offers

    def _report(self, features: ServerFeatures) -> None:
        """Log each definition that the composition leaves out, once."""
        own = frozenset(features.left_out)
        left_out = [item for item in self._offers.features.left_out if item not in own]
        for item in left_out:
            if (item.kind, item.name, item.reason) not in self._reported:
                logger.warning("%s: %s", self.name, printable(f"{item.kind} {item.name!r} is left out: {item.reason}"))
        self._reported = frozenset((item.kind, item.name, item.reason) for item in left_out)

    async def _look_up(self, find: Callable[[], _T]) -> _T:
        """Return the result of `find`; if it raises, let the source read its definitions again, and repeat `find`."""
        try:
            return find()
        except ProtocolError:
            await self.wrapped.seek()
            if not self.wrapped.features.is_known:
                await self.wrapped.learn()
            return find()


class _DirectTool:
    """One tool of a composed source. A `DirectRoute` around that of the source inside."""

    def __init__(
        self,
        composed: Source,
        name: str,
        inner: DirectRoute,
        begin: Callable[[DirectCall, str, JSON, DirectRoute], bool],
    ) -> None:
        self.target = composed, name
        self.source = inner.source
        self.deadline = inner.deadline
        self.plain_result = inner.plain_result
        self.answered = inner.answered
        self.release = inner.release
        self.abandon = inner.abandon
        self._inner = inner
        self._begin = begin

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Begin the call with the arguments of the source; see `DirectRoute.begin`."""
        return self._begin(call, self.target[1], arguments, self._inner)


class ComposedServer(ComposedSource):
    """Offers the definitions of a server, rewritten, with all further methods of a server."""

    def __init__(self, wrapped: _RunningServer, steps: Sequence[Step]) -> None:
        super().__init__(wrapped, steps)
        self._server = wrapped

    def roots_changed(self, request: ClientRequest) -> None:
        """Notify the server."""
        self._server.roots_changed(request)

    async def meet(self, request: ClientRequest) -> None:
        """Learn the server's introduction in the era of this client."""
        await self._server.meet(request)

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        return self._server.awaited

    async def started(self) -> None:
        """Wait until the server has started or failed to start."""
        await self._server.started()


def composed(source: RunningSource, steps: Sequence[Step]) -> RunningSource:
    """Return the source with the steps of a composition; the source itself if there are no steps."""
    if not steps:
        return source
    if isinstance(source, FollowsRoots) and isinstance(source, Introducible) and isinstance(source, Starts):
        return ComposedServer(source, steps)
    return ComposedSource(source, steps)


def innermost(source: Source) -> Source:
    """Return the source inside of a composed one, or the source itself."""
    return source.wrapped if isinstance(source, ComposedSource) else source
