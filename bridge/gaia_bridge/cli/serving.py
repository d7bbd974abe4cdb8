"""Runs a bridge for `gaia-bridge serve`, over HTTP or stdio, from the first descriptor to the last signal.

The order matters. On stdio the protocol's two descriptors are taken away before any agent is imported, because an
agent may print while it is imported (F-108). Over HTTP the address is bound first, because nothing else fails as often.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import click

from gaia_bridge.bridge import Bridge
from gaia_bridge.cli.banner import Access, banner
from gaia_bridge.cli.exits import ExitCode
from gaia_bridge.cli.logs import keep_log
from gaia_bridge.cli.shutdown import Deadline, Shutdown, ended_by_interrupt
from gaia_bridge.config import default_servers_path, load_servers
from gaia_bridge.discovery import LoadedAgent, find_agents
from gaia_bridge.errors import ConfigError, PublishError
from gaia_bridge.inbound.access import AccessPolicy, check_exposure
from gaia_bridge.inbound.listener import HttpServer, bind
from gaia_bridge.inbound.stdio import claim_stdio
from gaia_bridge.inbound.token import load_or_create_token
from gaia_bridge.model import NamingPolicy, ServerSpec
from gaia_bridge.settings import Settings

__all__ = ["ServeOptions", "run"]

logger = logging.getLogger(__name__)

_PROJECT_SERVERS = Path("mcp_servers.json")


@dataclass(frozen=True, slots=True)
class ServeOptions:
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
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True)
class _Content:
    """What is published."""

    agents: Sequence[LoadedAgent]
    servers: Sequence[ServerSpec]


def run(options: ServeOptions) -> int:
    """Serve until a signal, or until the client of a stdio server has gone.

    Returns:
        The exit code.

    Raises:
        BridgeError: It could not start.
    """
    with ended_by_interrupt():
        if options.stdio:
            _run_stdio(options)
        else:
            _run_http(options)
    return ExitCode.OK


def _run_stdio(options: ServeOptions) -> None:
    claimed = claim_stdio()
    content = _load(options)

    async def serve(bridge: Bridge, shutdown: Shutdown) -> None:
        await bridge.serve_stdio(claimed)

    _run(options, content, options.settings.stdio_grace, serve)


def _run_http(options: ServeOptions) -> None:
    limits = options.settings.http
    token, token_file = load_or_create_token() if options.auth else (None, None)
    check_exposure(options.host, options.allow_hosts, token)
    with ExitStack() as opened:
        sockets = bind(options.host, options.port)
        for sock in sockets:
            opened.callback(sock.close)
        port: int = sockets[0].getsockname()[1]
        policy = AccessPolicy.for_address(options.host, port, options.allow_hosts, options.allow_origins, token, limits)
        access = Access(options.host, port, options.allow_hosts, policy.hosts, token_file)
        content = _load(options)

        async def serve(bridge: Bridge, shutdown: Shutdown) -> None:
            app = bridge.asgi(policy)
            server = HttpServer(app, sockets=sockets, limits=limits, on_shutdown=[bridge.close_streams])
            async with anyio.create_task_group() as tasks:
                await tasks.start(server.run)
                shutdown.stop = server.stop
                click.echo(banner(bridge.sources, access), err=True)

        _run(options, content, limits.shutdown_grace, serve)


def _run(
    options: ServeOptions, content: _Content, grace: float, serve: Callable[[Bridge, Shutdown], Awaitable[None]]
) -> None:
    """Publish the content and serve it, on a loop of its own, until `serve` returns or a signal comes."""
    deadline = Deadline()

    async def main() -> None:
        shutdown = Shutdown(deadline, grace, children=bool(content.servers))
        async with anyio.create_task_group() as tasks:
            await tasks.start(shutdown.watch)
            async with Bridge(options.settings, options.names) as bridge:
                with shutdown.scope:
                    await _publish(bridge, content)
                    await serve(bridge, shutdown)
                shutdown.begin()
            tasks.cancel_scope.cancel()

    use_uvloop = importlib.util.find_spec("uvloop") is not None
    try:
        anyio.run(main, backend_options={"use_uvloop": use_uvloop})
    finally:
        deadline.finish()


async def _publish(bridge: Bridge, content: _Content) -> None:
    refused = await bridge.add_agents({loaded.name: loaded.agent for loaded in content.agents})
    for error in refused.values():
        raise error
    for spec in content.servers:
        try:
            await bridge.add_upstream(spec)
        except PublishError as error:
            logger.error("server %s is left out: %s", spec.name, error)


def _load(options: ServeOptions) -> _Content:
    servers = _servers(options.config)
    with keep_log():
        found = find_agents(options.agents)
    for entry in found:
        if not entry.agents:
            raise entry.failures[0]
        for failure in entry.failures:
            logger.warning("left out: %s", failure)
    return _Content([agent for entry in found for agent in entry.agents], servers)


def _servers(config: Path | None) -> Sequence[ServerSpec]:
    """The upstream servers of the user's own file, or of the one that was named.

    A file that lies in the project may come from a stranger, and its command lines would be run: it must be named.
    """
    path = config or _user_servers()
    if config is None and _PROJECT_SERVERS.is_file() and not (path and path.samefile(_PROJECT_SERVERS)):
        logger.warning("./%s is not used; with --config ./%s it is", _PROJECT_SERVERS, _PROJECT_SERVERS)
    if path is None:
        return ()
    found = load_servers(path)
    if not found.servers and not found.skipped:
        logger.warning('%s names no servers; expected {"mcpServers": {NAME: {"command": ...}}}', found.path)
    for warning in found.warnings:
        logger.warning("%s", warning)
    for skipped in found.skipped:
        logger.warning("%s: server %s is left out: %s", found.path, skipped.name, skipped.reason)
    return found.servers


def _user_servers() -> Path | None:
    with suppress(ConfigError):  # no home folder
        path = default_servers_path()
        return path if os.path.exists(path) else None  # also false where we may not look; Path.exists would raise
    return None
