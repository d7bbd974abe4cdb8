"""The servers of one asynchronous manager, on the background loop.

Each is an upstream as the bridge itself has them: supervised, and connected again when it went away. Everything here
runs on that loop; `tools` and `all` are replaced in one piece, so that other threads may read them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia.mcp.aio.handles import ServerTask, StopEvent
from gaia.mcp.aio.limits import ManagerLimits
from gaia.mcp.client.mcp_tool import free_name
from gaia_bridge.bridge.chaining import PublishedAgent, agent_named
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.errors import AnswerError
from gaia_bridge.model import (
    AgentServerSpec,
    Change,
    ChangeKind,
    ServerSpec,
    SourceState,
)
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON

__all__ = ["Server", "ServerTool", "Servers"]

logger = logging.getLogger(__name__)

_CONNECTED: Final = (SourceState.READY, SourceState.DEGRADED)

_FITTING: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every model provider accepts."""

_PROGRESSING: Final[Mapping[str, Any]] = {"progressToken": "call"}
"""A server that tells of its progress may take longer: its deadline begins anew each time."""


class Server:
    """One server, from when it is wanted to when it is stopped.

    Args:
        spec: Its entry in the configuration.
        limits: Its deadlines.
        changed: Called when its tools changed.
    """

    def __init__(self, spec: ServerSpec, limits: UpstreamLimits, changed: Callable[[], None]) -> None:
        self.name = spec.name
        transport = None
        if isinstance(spec, AgentServerSpec):
            transport = PublishedAgent(spec.name, partial(agent_named, spec.agent))
        kept = replace(spec, options=replace(spec.options, lazy=False))  # its session stays open between calls
        self._upstream = Upstream(kept, limits, transport=transport)
        self._changed = changed
        self._stopping = anyio.Event()
        loop = asyncio.get_running_loop()
        self.stop: Final = StopEvent(partial(_call_soon, loop, self._stopping.set))
        self.task: Final = ServerTask(self._run(), loop=loop, name=f"MCP server {spec.name}")

    @property
    def is_connected(self) -> bool:
        """Whether it is there right now. May be asked in any thread."""
        return not self.stop.is_set() and self._upstream.status.state in _CONNECTED

    @property
    def is_worth_waiting_for(self) -> bool:
        """Whether it is connected, or being connected: not if it failed, and is tried again later at best."""
        state = self._upstream.status.state
        return not self.stop.is_set() and (state in _CONNECTED or state is SourceState.STARTING)

    @property
    def has_failed(self) -> bool:
        """Whether it failed for good."""
        return self._upstream.status.state is SourceState.FAILED

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """Its tools, also while it is away for a moment; none once it has failed or was stopped."""
        return () if self.stop.is_set() else self._upstream.features.tools

    async def wait(self, seconds: float) -> None:
        """Wait until it is known whether it works; if that takes too long, say so in the log."""
        with anyio.move_on_after(seconds):
            await self._upstream.wait_settled()
            return
        logger.warning("MCP server '%s' has not answered within %g s; its tools appear when it has", self.name, seconds)

    async def call_tool(self, name: str, arguments: JSON) -> JSON:
        """Call a tool; cancelling that cancels the server's work.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
        """
        return await self._upstream.call_tool(name, arguments, _Call(self))

    async def _run(self) -> None:
        stop_listening = self._upstream.listen(self._heard)
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._upstream.run)
                await self._stopping.wait()
                tasks.cancel_scope.cancel()
        except Exception:  # nothing is expected: whoever waits for the task is not to be hit by it
            logger.exception("MCP server '%s' ended with an error", self.name)
        finally:
            stop_listening()
            self.stop.set()  # nobody else did, if the task was cancelled
            self._changed()

    def _heard(self, change: Change) -> None:
        if change.kind is ChangeKind.TOOLS:
            self._changed()


class ServerTool(Struct, frozen=True):
    """A tool of a server."""

    server: Server
    definition: Mapping[str, Any]
    """As the server describes it."""

    @property
    def name(self) -> str:
        """The server's own name for the tool."""
        return str(self.definition["name"])


class Servers:
    """All servers of one manager.

    Args:
        limits: Their deadlines.
    """

    def __init__(self, limits: ManagerLimits) -> None:
        self._limits = limits
        self.all: Mapping[str, Server] = {}
        """Those that were wanted and not stopped since, by name."""
        self.tools: Mapping[str, ServerTool] = {}
        """By the names that they have here, in an order that stays."""
        self.listener: Callable[[], object] = lambda: None
        """Called whenever `tools` changed. Must neither block nor raise."""
        self._tasks: set[ServerTask] = set()
        self._connecting = 0
        self._is_closed = False

    async def connect(self, specs: Sequence[ServerSpec]) -> None:
        """Connect those that are not connected, side by side, and wait for them, but not for long.

        Nothing is done once they were closed, by somebody who was quicker: nobody would end them any more.
        """
        if self._is_closed:
            return
        wanted = [self._wanted(spec) for spec in specs]
        self._connecting += 1  # meanwhile no names are given: whoever answers first should not have the better ones
        try:
            async with anyio.create_task_group() as tasks:
                for server in wanted:
                    tasks.start_soon(server.wait, self._limits.connect_wait)
        finally:
            self._connecting -= 1
            for server in wanted:
                if server.has_failed:
                    server.stop.set()
            self._changed()

    async def close(self) -> None:
        """Stop all servers, and wait until they are gone. Bounded by what is given to their processes."""
        self._is_closed = True
        for server in self.all.values():
            server.stop.set()
        self.all = {}
        self._changed()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _wanted(self, spec: ServerSpec) -> Server:
        """Return the server of that name; a new one if there is none, or it failed."""
        existing = self.all.get(spec.name)
        if existing is not None and existing.is_worth_waiting_for:
            return existing
        if existing is not None:
            existing.stop.set()
        server = Server(spec, self._limits.upstream, self._changed)
        self._tasks.add(server.task)
        server.task.add_done_callback(self._tasks.discard)
        self.all = {**self.all, spec.name: server}
        return server

    def _changed(self) -> None:
        """Update `all` and `tools`, and call the listener if the tools changed."""
        self.all = {name: server for name, server in self.all.items() if not server.stop.is_set()}
        if self._connecting:
            return
        before = self.tools
        self.tools = _named(self.all.values(), before)
        if self.tools != before:
            self.listener()


def _named(servers: Iterable[Server], before: Mapping[str, ServerTool]) -> dict[str, ServerTool]:
    """Give every tool a name of its own. Who has one keeps it; of others, the first has the plain name."""
    offered = {
        (server.name, str(definition["name"])): ServerTool(server, definition)
        for server in servers
        for definition in server.definitions
    }
    named = {
        name: offered.pop(identity)
        for name, tool in before.items()
        if (identity := (tool.server.name, tool.name)) in offered
    }
    for (server, name), tool in offered.items():
        fits = name not in named and _FITTING.fullmatch(name)
        named[name if fits else free_name(server, name, named)] = tool
    _warn_of_others(named, before)
    return named


def _warn_of_others(named: Mapping[str, ServerTool], before: Mapping[str, ServerTool]) -> None:
    """Say which tools are new and have another name than that of their server, in a line for each server."""
    renamed: dict[str, list[str]] = {}
    for name, tool in named.items():
        if name != tool.name and name not in before:
            renamed.setdefault(tool.server.name, []).append(name)
    for server, names in renamed.items():
        reason = "others have tools of the same name, or no model would accept it"
        logger.warning("tools of MCP server '%s' are called %s: %s", server, ", ".join(names), reason)


class _Call(OwnRequest):
    """A call without a client: no person can be asked or informed on the way."""

    meta = _PROGRESSING

    async def push(self, method: str, params: JSON) -> JSON:
        """Refuse a server's question, since no person can be asked.

        Raises:
            AnswerError: Always.
        """
        raise AnswerError(f"there is nobody who could answer {method}")


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and the server with it
        loop.call_soon_threadsafe(function)
