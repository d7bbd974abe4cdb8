"""Runs a bridge for `gaia-bridge serve`, over HTTP or stdio, from the first descriptor to the last signal.

The order matters. On stdio the protocol's two descriptors are claimed before any agent is imported, because an agent
may print while it is imported. Over HTTP the address is bound first, because that fails most often.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import click
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.bridge.configured_servers import ConfiguredServers, Reloader
from gaia_bridge.bridge.discovery import LoadedAgent
from gaia_bridge.calls.process_ancestry import LINEAGE
from gaia_bridge.client.transport_factory import secrets_of
from gaia_bridge.client.transports.children.guardian_client import GUARDIAN
from gaia_bridge.config.fingerprints import digest
from gaia_bridge.errors import AgentLoadError, ConfigError, ListenError
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.model import NamingPolicy, ServerSpec, SourceKind
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.runtime.file_watch import FILE_INTERVAL, FileWatch
from gaia_bridge.runtime.watchdog import watching
from gaia_bridge.server.transports.stdio import ClaimedStdio, claim_stdio
from gaia_bridge.settings import Settings
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge_cli.interrupts import ended_by_interrupt
from gaia_bridge_cli.logs import hide_in_log, keep_log
from gaia_bridge_cli.server_logs import ServerLogs, default_log_folder
from gaia_bridge_cli.serving.agent_choice import AgentChoice, told_of_slow_imports
from gaia_bridge_cli.serving.agent_reloading import AgentReloader
from gaia_bridge_cli.serving.shutdown import Shutdown

if TYPE_CHECKING:
    from gaia_bridge.server.http.access_policy import LiveToken
    from gaia_bridge_cli.serving.banner import BannerFacts
    from gaia_bridge_daemon.background.serving import Background

logger = logging.getLogger(__name__)

_WRITTEN: Final = {"--config": "config=...", "--agent-tools": "agent_tools=...", "--ask": "ask=..."}
_ALONE: Final = "give both contents to one Bridge(...), or serve file.py:NAME"


class ServeOptions(Struct, frozen=True):
    """The command line of `gaia-bridge serve`."""

    agents: tuple[str, ...]
    stdio: bool
    host: str
    port: int
    auth: bool
    allow_hosts: tuple[str, ...]
    allow_origins: tuple[str, ...]
    config: Path | None
    names: NamingPolicy
    with_agents: bool = True
    public_url: str | None = None
    """The address that clients use, where a proxy stands in front."""
    proxies: tuple[str, ...] = ()
    """The proxies that are trusted."""
    settings: Settings = Settings()
    reload: bool = False
    """Whether the agents are reloaded when their files change."""
    shows_calls: bool = False
    """Whether each call is written to standard error, with its arguments and result."""
    inspector: bool = False
    """Whether the MCP Inspector is started beside the bridge."""
    with_servers: bool = True
    """Whether the servers of the configuration are published, too."""
    agent_tools: bool | tuple[str, ...] | None = None
    """The tools of agents that are published; `None`: those of their classes."""
    ask: bool | None = None
    """Whether agents have a tool that asks them; `None`: as their classes decide."""
    background: Background | None = None
    """The place in the background where it is served, instead of over HTTP or stdio."""
    verbose: bool = False
    """Whether the banner shows everything."""
    bridge: Bridge | None = None
    """The bridge to serve instead of agents and a configuration: it has its own sources."""
    to_editor: Callable[[Bridge, ClaimedStdio], Awaitable[None]] | None = None
    """Serves the one agent on standard input and output, in another protocol than MCP."""


class _Content(Struct, frozen=True):
    """The content of a bridge."""

    agents: Sequence[LoadedAgent]
    servers: Sequence[ServerSpec]
    """The servers at the start."""
    configured: ConfiguredServers | None
    """The source of later changes of the servers."""
    token: LiveToken | None = None
    """The token that clients need."""
    bridge: Bridge | None = None
    """The bridge to publish the content on, if the user's program made one."""
    reloader: AgentReloader | None = None
    """Reloads the agents."""


def run(options: ServeOptions, deadline: ExitDeadline | None = None) -> int:
    """Serve until a signal, or until the client of a stdio server has gone.

    Args:
        options: The options.
        deadline: Bounds the end of the process; if `None`, the end of this run alone.

    Returns:
        The exit code.

    Raises:
        BridgeError: The bridge could not start.
    """
    if deadline is None:
        deadline = ExitDeadline()
    else:  # the process is ours
        GUARDIAN.watch_agents()
        deadline.last = GUARDIAN.last_news
    deadline.start()
    try:
        with ended_by_interrupt():
            if options.background is not None:
                _run_background(options, options.background, deadline)
            elif options.stdio:
                _run_stdio(options, deadline)
            else:
                _run_http(options, deadline)
    except Exception as error:
        deadline.code = exit_code_of(only_error_in(error))  # the process may end before the report
        raise
    finally:
        deadline.finish()
    return ExitCode.OK


def _run_stdio(options: ServeOptions, deadline: ExitDeadline) -> None:
    claimed = claim_stdio()
    content = _load(options)

    async def serve(bridge: Bridge, shutdown: Shutdown) -> None:
        await (bridge.serve_stdio(claimed) if options.to_editor is None else options.to_editor(bridge, claimed))

    _run(options, content, deadline, options.settings.stdio_grace, serve)


def _run_http(options: ServeOptions, deadline: ExitDeadline) -> None:
    with imported_for_good():
        from gaia_bridge.server.http.access_policy import AccessPolicy, LiveToken
        from gaia_bridge.server.http.listener import HttpServer, bind
        from gaia_bridge.server.http.token import load_or_create_token
        from gaia_bridge_cli.serving.banner import ClientAccess, banner

    limits = options.settings.http
    text, token_file = load_or_create_token() if options.auth or options.public_url is not None else (None, None)
    token = LiveToken(text)
    policy_for = partial(
        AccessPolicy.for_address,
        options.host,
        allow_hosts=options.allow_hosts,
        allow_origins=options.allow_origins,
        token=token,
        limits=limits,
        public_url=options.public_url,
        proxies=options.proxies,
    )
    policy_for(1)  # report invalid options before anything else
    with ExitStack() as opened:
        try:
            sockets = bind(options.host, options.port)
        except ListenError as error:
            raise _explained(error, options) from None
        for sock in sockets:
            opened.callback(sock.close)
        port: int = sockets[0].getsockname()[1]
        policy = policy_for(port)
        access = ClientAccess(options.host, port, options.allow_hosts, policy.hosts, token_file, policy.public)
        content = _load(options, token)

        async def serve(bridge: Bridge, shutdown: Shutdown) -> None:
            app = bridge.asgi(policy)
            server = HttpServer(app, sockets=sockets, limits=limits, on_shutdown=[bridge.close_streams])
            async with anyio.create_task_group() as beside:
                if token_file is not None:
                    beside.start_soon(follow_token, token, token_file, _hide_also)
                async with anyio.create_task_group() as tasks:
                    await tasks.start(server.run)
                    shutdown.stop = server.stop
                    click.echo(banner(bridge.sources, access, _banner_facts(options, content, bridge)), err=True)
                    if options.inspector:
                        beside.start_soon(_inspector(), f"{access.base_url}/mcp")
                beside.cancel_scope.cancel()

        _run(options, content, deadline, limits.shutdown_grace, serve)


def _explained(error: ListenError, options: ServeOptions) -> ListenError:
    """Return the error of an address that is taken; if another bridge has it, with the command that shows that one."""
    from gaia_bridge.server.http.listener import PORT_IN_USE
    from gaia_bridge_cli.options import bridge_url
    from gaia_bridge_cli.running_bridge import is_bridge_at

    if error.problem != PORT_IN_USE:
        return error
    url = bridge_url(None if options.host in ("0.0.0.0", "::") else options.host, options.port, None)
    if not is_bridge_at(url):
        return error
    status = "gaia-bridge status" if url == bridge_url(None, None, None) else f"gaia-bridge status --url {url}"
    hint = f"see what it serves: {status}; end it, or choose another --port"
    return ListenError(error.address, "another gaia-bridge listens there", hint)


def _banner_facts(options: ServeOptions, content: _Content, bridge: Bridge) -> BannerFacts:
    """Return the facts of the command line for the banner."""
    from gaia_bridge_cli.serving.banner import BannerFacts

    config = [] if options.config is None else ["--config", str(options.config)]
    no_servers = [] if options.with_servers else ["--no-servers"]
    asks_token = options.auth or options.public_url is not None
    is_ours = options.bridge is None and not asks_token and not options.allow_hosts
    return BannerFacts(
        models=tuple(bridge.models),
        installed=(*options.agents, *config, *no_servers) if is_ours else None,
        has_auth=asks_token,
        configured=_names_of_configured(content) if options.config is None else (),
        verbose=options.verbose,
    )


def _names_of_configured(content: _Content) -> frozenset[str]:
    """Return the names of the configured servers, but for those that an agent or a server of a file has already."""
    return frozenset(spec.name for spec in content.servers).difference(loaded.name for loaded in content.agents)


def _run_background(options: ServeOptions, background: Background, deadline: ExitDeadline) -> None:
    with imported_for_good():
        from gaia_bridge_daemon.background.serving import serve_background
        from gaia_bridge_daemon.background.sockets import listening, remove_left

    with listening(background.place.front) as fronts, listening(background.place.http) as http:
        content = _load(options)

        async def serve(bridge: Bridge, shutdown: Shutdown) -> None:
            await serve_background(bridge, background, fronts, http, partial(setattr, shutdown, "stop"))

        _run(options, content, deadline, options.settings.http.shutdown_grace, serve)
    remove_left(background.place)  # not reached after a failure, whose log is wanted


def _run(
    options: ServeOptions,
    content: _Content,
    deadline: ExitDeadline,
    grace: float,
    serve: Callable[[Bridge, Shutdown], Awaitable[None]],
) -> None:
    """Publish the content and serve it, on a loop of its own, until `serve` returns or a signal comes."""

    async def main() -> None:
        shutdown = Shutdown(
            deadline,
            grace,
            has_children=lambda: options.inspector or _has_servers(bridge),
            calls=bridge.calls_in_flight,
        )
        with watching():
            await until_end(shutdown)

    async def until_end(shutdown: Shutdown) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(shutdown.watch)
            async with bridge:
                with shutdown.scope:
                    await _publish(bridge, content, tasks)
                    await serve(bridge, shutdown)
                shutdown.begin()
            tasks.cancel_scope.cancel()

    use_uvloop = importlib.util.find_spec("uvloop") is not None
    with closing(_server_logs()) as logs:
        bridge = content.bridge or Bridge(
            settings=options.settings,
            names=options.names,
            middleware=_shown_calls() if options.shows_calls else (),
            agent_tools=options.agent_tools,
            ask=options.ask,
        )
        bridge.on_error_line = bridge.on_error_line or logs.write
        anyio.run(main, backend_options={"use_uvloop": use_uvloop})


async def _publish(bridge: Bridge, content: _Content, tasks: TaskGroup) -> None:
    configured = content.configured
    if configured is not None:
        bridge.own_files = lambda: configured.own_files
        bridge.refusal = configured.refusal
    refused = await bridge.add_agents({loaded.name: loaded.agent for loaded in content.agents})
    for name, error in refused.items():
        if content.reloader is None:
            raise error
        content.reloader.left_out(name, error)
    _check_offer(bridge, is_final=content.reloader is None)
    if content.reloader is not None:
        await tasks.start(content.reloader.watch, bridge)
    if configured is None:
        return
    reloader = Reloader(bridge, lambda: _hidden(configured.again(), content.token), lambda: configured.own_files)
    bridge.left_out = lambda: (*configured.left_out, *reloader.left_out)
    await reloader.apply(content.servers)
    await tasks.start(reloader.watch)
    await tasks.start(_reload_when_asked, reloader)


def _check_offer(bridge: Bridge, *, is_final: bool) -> None:
    """Report options about agents that no published agent satisfies.

    Args:
        bridge: The bridge with its agents.
        is_final: Whether no further agent will be added.

    Raises:
        ConfigError: No agent has the wanted tools.
    """
    if problem := bridge.unmet_offer():
        if is_final:
            raise ConfigError("--agent-tools, --ask", problem)
        logger.warning("--agent-tools, --ask: %s", problem)


async def _reload_when_asked(reloader: Reloader, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """Reload on SIGHUP, as servers do. In a terminal that signal means that the terminal is gone."""
    if os.isatty(2):
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            logger.info("SIGHUP: the configuration is read again")
            await reloader.reload()


def _hidden(servers: Sequence[ServerSpec], token: LiveToken | None) -> Sequence[ServerSpec]:
    """Return the servers, after masking their secrets and the token in the log from now on."""
    hide_in_log(
        [*([token.text] if token and token.text else []), *(secret for spec in servers for secret in secrets_of(spec))]
    )
    return servers


def _hide_also(token: str) -> None:
    hide_in_log([token], more=True)


def _reaches_beyond(options: ServeOptions) -> bool:
    from gaia_bridge.server.http.access_policy import reaches_beyond

    return options.public_url is not None or reaches_beyond(options.host, options.allow_hosts)


def _has_servers(bridge: Bridge) -> bool:
    return any(source.kind is SourceKind.SERVER for source in bridge.sources)


def _server_logs() -> ServerLogs:
    try:
        return ServerLogs(default_log_folder())
    except ConfigError:  # no home folder: their lines are in our own log
        return ServerLogs(None)


def _load(options: ServeOptions, token: LiveToken | None = None) -> _Content:
    if options.bridge is not None:
        _announce([sys.argv, os.getcwd()])
        _hidden((), token)
        return _Content((), (), None, token, options.bridge)
    configured = ConfiguredServers(options.config) if options.with_servers else None
    files = [] if configured is None else [str(file.resolve()) for file in configured.files]
    with suppress(FileNotFoundError):  # the current folder is gone, which is reported below
        _announce([*([files] if options.with_servers else []), options.agents, os.getcwd()])
    if options.to_editor is not None:
        return _Content([_only_agent(options)], (), None)
    servers = _hidden(() if configured is None else configured.first(), token)
    beyond = not options.stdio and _reaches_beyond(options)
    if options.reload:
        return _reloading(options, _Content((), servers, configured, token))
    in_windows = options.background is not None
    wanted = options.with_agents or (in_windows and not servers)  # else editors would have nothing at all
    choice = AgentChoice(options.agents, wanted, beyond, options.config is not None, in_windows)
    may_come = configured is not None and not options.stdio  # to an editor, an error says more than an empty list
    agents = choice.load(others=bool(servers) or may_come)
    made = [agent for agent in agents if isinstance(agent.agent, Bridge)]
    if not made:
        return _Content(agents, servers, configured, token)
    bridge = made[0].agent
    assert isinstance(bridge, Bridge)
    if len(made) > 1:
        problem = f"one process serves one Bridge, and {made[0].reference} is one"
        raise AgentLoadError(made[1].reference, problem, _ALONE)
    no_servers = None if options.with_servers else True
    given = {
        "--config": options.config,
        "--no-servers": no_servers,
        "--agent-tools": options.agent_tools,
        "--ask": options.ask,
    }
    if option := next((name for name, value in given.items() if value is not None), None):
        problem = f"{made[0].reference} is a Bridge, which says itself what it publishes"
        written = f", or write Bridge({_WRITTEN[option]})" if option in _WRITTEN else ""
        raise ConfigError(option, problem, f"leave it out{written}")
    return _Content([agent for agent in agents if agent is not made[0]], (), None, token, bridge)


def _only_agent(options: ServeOptions) -> LoadedAgent:
    """Return the one agent that an editor converses with.

    Raises:
        AgentLoadError: There are several agents, or the agent cannot converse.
    """
    from gaia_bridge_doors.acp.serving import check_agent

    reference = " ".join(options.agents)
    agents = AgentChoice(options.agents, wanted=True, beyond=False, configured=False).load(others=False)
    if len(agents) != 1:
        names = ", ".join(loaded.reference for loaded in agents)
        raise AgentLoadError(reference, f"an editor converses with one agent; there are {names}", "name one of them")
    check_agent(agents[0].agent, reference)
    return agents[0]


def _reloading(options: ServeOptions, content: _Content) -> _Content:
    """Return the content with agents that are reloaded when their files change."""
    reloader = AgentReloader(options.agents)
    with keep_log(), told_of_slow_imports():
        return replace(content, agents=reloader.first(), reloader=reloader)


def _shown_calls() -> list[Middleware]:
    from gaia_bridge_cli.serving.call_lines import CallLines

    return [CallLines()]


def _inspector() -> Callable[[str], Coroutine[Any, Any, None]]:
    from gaia_bridge_cli.serving.inspector import run_inspector

    return run_inspector


def _announce(what: object) -> None:
    """Give the processes that we start the identity of this bridge.

    Raises:
        LineageError: This bridge is started by itself.
    """
    LINEAGE.serve(digest(what))


async def follow_token(token: LiveToken, path: Path, exchanged: Callable[[str], object]) -> None:
    """Follow every change of the token file until cancelled. A file that is removed is made anew, with another token.

    Args:
        exchanged: Called with another token before clients need it.
    """
    from gaia_bridge.server.http.token import load_or_create_token

    watch = FileWatch(lambda: (path,), FILE_INTERVAL)  # at the start, where the file was read just now
    while True:
        await watch.until_saved()
        await anyio.to_thread.run_sync(watch.read)
        try:
            text, _ = await anyio.to_thread.run_sync(load_or_create_token, path)
        except ConfigError as error:
            logger.warning("clients need the same token as before: %s", error)
            continue
        if text != token.text:
            exchanged(text)
            token.exchange(text)
            logger.warning("clients need another token from now on: that in %s", path)
