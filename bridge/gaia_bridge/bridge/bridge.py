"""The bridge: agents and upstream servers on one side, endpoints on the other, joined by catalogs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from gaia_bridge.bridge.configured_servers import ConfiguredServers, Reloader
from gaia_bridge.bridge.contents import Servers, agent_offer, checked_middleware, server_specs
from gaia_bridge.bridge.making import SourceMaker, added_in_order
from gaia_bridge.bridge.report import GROUPS, INFO, Report
from gaia_bridge.bridge.served import ServedBridge, expect_open
from gaia_bridge.calls.bridge_hops import new_id
from gaia_bridge.client.transport import Transport
from gaia_bridge.contract import Publishable, Source
from gaia_bridge.errors import AgentLoadError, BridgeError, ConfigError, PublishError
from gaia_bridge.model import LeftOut, NamingPolicy, OpenApiServerSpec, ServerOptions, ServerSpec
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.runtime.event_loops import mark_thread_as_asyncio
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.server.backlog import Backlog
from gaia_bridge.server.catalog import Catalog, name_conflict
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.endpoint import Endpoint
from gaia_bridge.settings import Settings
from gaia_bridge.sources.agent.parts import unmet
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.composition.composed import RunningSource, innermost
from gaia_bridge.sources.composition.description import Composition
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia_bridge.middleware.base import Middleware

logger = logging.getLogger(__name__)


class Bridge(ServedBridge):
    """Everything that one process publishes.

    An asynchronous context manager: agents and servers are served, added and removed inside of it.

        bridge = Bridge(MyAgent(), servers={"time": "uvx mcp-server-time"})
        async with bridge:
            await bridge.serve_stdio()

    Args:
        *targets: Published from the beginning, as `add` takes them: agents, decorated functions, modules of them,
            server objects of MCP libraries, `ServerSpec`s, and compositions of these.
        servers: Servers that are published from the beginning, by name: entries as in `mcp_servers.json`, URLs or
            commands; or `ServerSpec`s.
        config: A file as `mcp_servers.json`, whose servers are published, and followed when it changes.
        settings: Limits and deadlines.
        names: How tools are named on the endpoint that publishes everything.
        cache: Remembers what servers offer, from one run to the next; a file in the user's folder if `None`.
        middleware: The middleware around requests, the outermost first; see `gaia_bridge.middleware`.
        agent_tools: Which tools of agents are published: all, none, or those of these names; as agents say if `None`.
        ask: Whether agents that converse have a tool that asks them; as they say if `None`.
        on_error_line: Called with the server's name and each line that a child writes to its error output, redacted.

    Attributes:
        left_out: Returns what is configured but not published, for the status.
        own_files: Returns the files that decide what this process starts.
        refusal: Returns why a server that needs approval must not be started now, or `None`; called from threads. This
            one and the two above are set by the reader of a configuration.

    Raises:
        ConfigError: An entry of `servers` cannot be used; on entering, if `agent_tools` or `ask` want too much.
        TypeError: Something is given that is no agent and no server.
    """

    def __init__(
        self,
        *targets: Publishable | ServerSpec | Composition,
        servers: Servers = (),
        config: Path | str | None = None,
        settings: Settings | None = None,
        names: NamingPolicy = NamingPolicy.DEFAULT,
        cache: FeatureCache | None = None,
        middleware: Sequence[Middleware] = (),
        agent_tools: bool | Collection[str] | None = None,
        ask: bool | None = None,
        on_error_line: Callable[[str, str], None] | None = None,
    ) -> None:
        from gaia_bridge_doors.conversation.models import Models

        if misplaced := next((agent for agent in targets if isinstance(agent, (Settings, NamingPolicy))), None):
            word = "settings" if isinstance(misplaced, Settings) else "names"
            raise TypeError(f"got {type(misplaced).__name__} among the agents; write {word}=...")
        self.settings = settings or Settings()
        self.left_out: Callable[[], Iterable[LeftOut]] = tuple
        self.own_files: Callable[[], Iterable[Path]] = tuple
        self.refusal: Callable[[ServerSpec], str | None] = lambda spec: None
        self._targets = targets
        self._servers = server_specs(servers)
        self._config = None if config is None else Path(config)
        self._id = new_id()
        self.middleware = checked_middleware(middleware)
        self.agent_offer = agent_offer(agent_tools, ask)
        self.names = names
        self.on_error_line = on_error_line
        self._maker = SourceMaker(self, self._id, cache)
        self._backlog = Backlog(self.settings.backlog)
        self._stack: AsyncExitStack
        self._tasks: TaskGroup
        self._everything: Catalog
        self._models = Models(self.settings.chats)
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        self._report = Report(self._endpoints, self._models, lambda: self.left_out())
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._registrations: dict[AgentSource, Callable[[], None]] = {}
        self._is_entered = False
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise RuntimeError("the bridge is open already; make another one")
        failure: Exception | None = None
        async with AsyncExitStack() as stack:
            stack.callback(setattr, self, "_is_entered", False)  # also if this is cancelled
            stack.callback(mark_thread_as_asyncio())
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._tasks.cancel_scope.cancel)
            self._everything = Catalog(INFO, self.names)
            self._is_entered = True
            await self._tasks.start(self._publish, self._everything, "", "")
            try:
                await self._fill()
            except Exception as error:  # raised again, not in the task group, which would wrap it
                failure = error
            else:
                self._stack = stack.pop_all()
        if failure is not None:
            raise failure
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        self._is_entered = self._is_open = False
        self.close_streams()
        for scope in tuple(self._scopes.values()):
            scope.cancel()  # a source that is being added belongs to its caller: the group does not cancel it
        if isinstance(exc_val, Exception):  # the program's own, which the task group would wrap
            await self._stack.__aexit__(None, None, None)
            return None
        return await self._stack.__aexit__(exc_type, exc_val, exc_tb)

    @property
    def sources(self) -> list[Source]:
        """The published agents and servers, in the order in which they were added."""
        return self._everything.sources

    @property
    def models(self) -> Mapping[str, str]:
        """The models of the OpenAI-compatible API by their ids, each with the name of its agent."""
        return {model.id: model.source.name for model in self._models}

    def calls_in_flight(self) -> list[str]:
        """Return the names of the tools and prompts, and the URIs of the resources, that clients wait for."""
        return [name for method, name in self._backlog.targets if method in NAMED]

    def status(self) -> JSON:
        """Return the answer of `/status`: each source, its state, path and number of offers, and what is left out."""
        return self._report.status()

    def readiness(self) -> JSON:
        """Return the answer of `/ready`: the state of each source."""
        return self._report.readiness()

    async def add(self, target: Publishable | ServerSpec | Composition, name: str | None = None) -> str:
        """Publish an agent or a server, as it is or composed.

        Args:
            target: An agent as for `add_agent`, the entry of a server, or a description that `source` made of either.
            name: The path segment and qualifier; that of the description or entry, or derived from the class name, if
                not given.

        Returns:
            The name it is published under.

        Raises:
            AgentLoadError: The object lacks the methods of an agent.
            PublishError: The name is not allowed, or taken.
        """
        return await self._add(self._maker.source(target, name))

    async def add_agent(
        self,
        agent: Publishable,
        name: str | None = None,
        *,
        tools: bool | Collection[str] | None = None,
        ask: bool | None = None,
    ) -> str:
        """Publish an agent: read its definitions, and notify connected clients.

        Args:
            agent: An `Agent`, any object with the methods of an agent, a decorated function (`@tool`), a module of such
                functions, a server object of an MCP library (`FastMCP`, `MCPServer`), which runs on an event loop of
                its own, or another `Bridge`.
            name: The path segment and qualifier; derived from the class name if not given.
            tools: As `agent_tools` of the bridge, for this agent.
            ask: As for the bridge, for this agent.

        Returns:
            The name it is published under.

        Raises:
            AgentLoadError: The object lacks the methods of an agent, or a tool that is named.
            PublishError: The name is not allowed, or taken.
        """
        return await self._add(self._maker.source(agent, name, agent_offer(tools, ask)))

    async def add_agents(self, agents: Mapping[str, Publishable]) -> dict[str, BridgeError]:
        """Publish several agents in the given order. Their definitions are read at the same time.

        Args:
            agents: The agents by their names.

        Returns:
            For each agent that could not be published, the error that `add_agent` would have raised.
        """

        async def add(name: str, turn: anyio.Event) -> None:
            await self._add(self._maker.source(agents[name], name), turn)

        return await added_in_order(list(agents), add)

    async def add_upstream(self, spec: ServerSpec, transport: Transport | None = None) -> str:
        """Publish an upstream server. Returns at once; its tools appear when the server has listed them.

        Args:
            spec: Its entry in the configuration.
            transport: How to reach it, if not in the way that the entry says.

        Raises:
            PublishError: The name is not allowed, or taken.
        """
        return await self._add(self._maker.upstream(spec, transport))

    async def add_openapi(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        name: str,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        options: ServerOptions | None = None,
    ) -> str:
        """Publish an HTTP API: each operation of its OpenAPI document is a tool. Returns at once, as `add_upstream`.

        Args:
            document: Where its document is, as a URL or as the path of a file; or the document itself, decoded.
            name: The path segment and qualifier.
            base_url: Where the API is; as the document says if not given.
            headers: Sent with every request, such as `Authorization`.
            options: The other options of an entry of the configuration.

        Returns:
            The name it is published under.

        Raises:
            PublishError: The name is not allowed, or taken.
        """
        place = str(document) if isinstance(document, Path) else document
        spec = OpenApiServerSpec(name, place, base_url, headers or {}, options or ServerOptions())
        return await self.add_upstream(spec)

    def adjust_upstream(self, spec: ServerSpec) -> None:
        """Change which tools of a server are published, and how. The server keeps running; clients are notified.

        Args:
            spec: Its new entry; only `allowed_tools`, `disabled_tools` and `tools` may differ from the old one.

        Raises:
            PublishError: No server is published under that name.
        """
        self._upstream(spec.name).adjust(spec)

    def retry(self, name: str) -> None:
        """Connect again to an upstream server that failed. Does nothing while the server works.

        Raises:
            PublishError: No server is published under that name.
        """
        self._upstream(name).retry()

    async def remove(self, name: str) -> None:
        """Stop publishing an agent or server, and notify connected clients.

        The name can be reused at once. A server that is working on requests gets some seconds to answer them.

        Raises:
            PublishError: Nothing is published under that name.
        """
        if (scope := self._scopes.get(name)) is None:
            raise PublishError(name, "nothing is published under that name")
        source = self._published(name)
        self._forget(name, scope)
        if source is not None and isinstance(server := innermost(source), Upstream):
            self._tasks.start_soon(self._drain, server, scope)
        else:
            scope.cancel()

    async def replace_agent(self, name: str, agent: Publishable, *, for_good: bool = False) -> None:
        """Publish another agent in the place of one: clients stay connected, and are notified of the differences.

        Args:
            name: The name that the agent is published under.
            agent: The other agent, as `add_agent` takes it.
            for_good: Whether nothing else uses the old one: once its calls are over, its `on_mcp_replaced` is
                called, and an agent with servers of its own lets them go.

        Raises:
            AgentLoadError: It is no agent, or its definitions cannot be read. The old one stays published.
            PublishError: No agent is published under that name.
        """
        if (old := next((agent for agent in self._agents if agent.name == name), None)) is None:
            raise PublishError(name, "no agent is published under that name")
        new = self._maker.source(agent, name)
        if not isinstance(new, AgentSource):
            raise AgentLoadError(name, "only an agent can take the place of an agent", "remove it, and add the other")
        await old.replace(new.agent, for_good=for_good)
        if (forget := self._registrations.pop(old, None)) is not None:
            self._registrations[old] = LOCAL_AGENTS.add(name, old.agent)
            forget()
            self._models.exchange(name, await self._models.read(old))

    def unmet_offer(self) -> str:
        """Return why agents are published otherwise than `agent_tools` and `ask` request; empty if none is."""
        return unmet(self.agent_offer, self._agents)

    @property
    def _agents(self) -> list[AgentSource]:
        return [own for source in self.sources if isinstance(own := innermost(source), AgentSource)]

    async def _fill(self) -> None:
        """Publish the agents, servers and configuration that the bridge was made with."""
        for target in self._targets:
            await self.add(target)
        if self._targets and (problem := self.unmet_offer()):
            raise ConfigError("Bridge", problem)
        for spec in self._servers:
            if not spec.options.disabled:
                await self.add_upstream(spec)
        if self._config is not None:
            configured = await anyio.to_thread.run_sync(ConfiguredServers, self._config)
            await self._follow(configured, await anyio.to_thread.run_sync(configured.first))

    async def _follow(self, configured: ConfiguredServers, servers: Sequence[ServerSpec]) -> None:
        """Publish the servers of a configuration, now and after each change of it."""
        self.own_files = lambda: configured.own_files
        self.refusal = configured.refusal
        reloader = Reloader(self, configured.again, lambda: configured.own_files)
        self.left_out = lambda: (*configured.left_out, *reloader.left_out)
        await reloader.apply(servers)
        await self._tasks.start(reloader.watch)

    def _published(self, name: str) -> Source | None:
        return next((source for source in self.sources if source.name == name), None)

    def _upstream(self, name: str) -> Upstream:
        source = self._published(name)
        if source is not None and isinstance(server := innermost(source), Upstream):
            return server
        raise PublishError(name, "no server is published under that name")

    async def _add(self, source: RunningSource, turn: anyio.Event | None = None) -> str:
        """Start a source, and publish it after those that were added before it. Returns its name."""
        expect_open(self._is_entered)
        if source.name in self._scopes:
            raise PublishError(source.name, name_conflict(source, self._published(source.name)))
        alone = Catalog(INFO, NamingPolicy.BARE, merges=False)
        alone.add(source)
        scope = self._scopes[source.name] = anyio.CancelScope()
        try:
            await self._tasks.start(self._own, source, alone, scope, turn)
        except RuntimeError:
            expect_open(self._is_entered)
            if not scope.cancel_called:
                raise
            raise PublishError(source.name, "it was removed while it was being added") from None
        except BaseExceptionGroup as group:
            error = only_error_in(group)
            raise error if isinstance(error, AgentLoadError) else group from None
        return source.name

    async def _own(
        self,
        source: RunningSource,
        alone: Catalog,
        scope: anyio.CancelScope,
        turn: anyio.Event | None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run a source and its endpoint in one task. If a source fails, nothing else does."""
        published = False
        agent = own if isinstance(own := innermost(source), AgentSource) else None
        if agent is not None:
            self._registrations[agent] = LOCAL_AGENTS.add(source.name, agent.agent)
        with scope:
            try:
                async with anyio.create_task_group() as tasks:
                    await tasks.start(source.run)
                    await tasks.start(self._publish, alone, GROUPS[source.kind], source.name)
                    model = await self._models.read(agent) if agent is not None else None
                    if turn is not None:
                        await turn.wait()
                    self._everything.add(source)
                    if model is not None:
                        self._models.add(model)
                    published = True
                    task_status.started()
            except Exception:
                if not published:
                    raise
                logger.exception("%s %s broke and is no longer published", source.kind.value, source.name)
            finally:
                if agent is not None:
                    self._registrations.pop(agent)()
                self._forget(source.name, scope)

    async def _drain(self, source: Upstream, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(self.settings.upstream.drain_timeout):
            await source.wait_drained()
        await source.lending.wait_returned()  # agents that use it have no other
        scope.cancel()

    def _forget(self, name: str, scope: anyio.CancelScope) -> None:
        """Stop publishing this source. Does nothing if it is not published, even if another one has its name now."""
        if self._scopes.get(name) is not scope:
            return
        del self._scopes[name]
        self._everything.remove(name)
        self._models.remove(name)
        for key in [key for key in self._endpoints if key[1] == name]:
            self._endpoints.pop(key).dispatcher.subscriptions.close_streams()

    async def _publish(
        self, catalog: Catalog, group: str, name: str, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Run an endpoint in a task."""
        prefix = f"/{group}/{name}" if group else ""
        dispatcher = Dispatcher(catalog, self.settings, prefix or "/", self._id, self._backlog, self.middleware)
        endpoint = Endpoint(dispatcher, prefix, self.settings.http)
        self._endpoints[group, name] = endpoint
        await endpoint.run(task_status=task_status)
