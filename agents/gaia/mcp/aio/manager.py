"""The asynchronous manager of MCP servers ("MCPClientManager")."""

from __future__ import annotations

import asyncio
import copy
import difflib
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gaia.background_loop import BACKGROUND
from gaia.mcp.aio.limits import ManagerLimits
from gaia.mcp.aio.results import failure, outcome
from gaia.mcp.client.server_config import client_spec
from gaia_bridge.config import EntryError
from gaia_bridge.config.documents import servers_of
from gaia_bridge.config.file_reader import read_json
from gaia_bridge.config.launching.workplaces import in_own_folder, lies_in_workspace
from gaia_bridge.errors import BridgeError, ConfigError, ProtocolError, ToolError
from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.runtime.lent_loop import Lease
from gaia_bridge.text.json_types import JSON, is_object

if TYPE_CHECKING:
    from gaia.mcp.aio.servers import Server, Servers, ServerTool

__all__ = ["MCPClientManager", "ServerSession"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_OWN_KIND: Final = "logicore"
"""Servers whose names begin like this are the specification's own agents, which would connect to themselves."""

_SIMILAR: Final = 3
"""Names that are suggested for one that is unknown."""


class ServerSession(Struct, frozen=True):
    """The open session of one server. Usable on any event loop."""

    name: str
    """The server's name in the configuration."""
    _lease: Lease
    _server: Server

    async def list_tools(self) -> list[JSON]:
        """Return the server's tools as it describes them."""
        return [dict(definition) for definition in self._server.definitions]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> JSON:
        """Call a tool.

        Args:
            name: What the server calls it.
            arguments: Its arguments.

        Returns:
            The MCP result as it came; one that says `isError` also where the server could not be reached.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
        """
        return await _there(self._lease, partial(self._server.call_tool, name, dict(arguments or {})))


class _Open(Struct, frozen=True):
    """The state of an open manager."""

    lease: Lease
    servers: Servers
    finalizer: weakref.finalize[..., Any]


class MCPClientManager:
    """Connections to several MCP servers, for code that runs on an event loop.

        async with MCPClientManager(config={"mcpServers": {"time": {"command": "uvx", "args": [...]}}}) as manager:
            print(await manager.execute_tool("get_current_time", {"timezone": "UTC"}))

    The connections live on the background loop: every method may be awaited on any event loop, also on several, one
    after the other or at once. A server that ends by itself is started again.

    Args:
        config_path: The configuration file, in the format `{"mcpServers": {name: entry}}`. It need not exist.
        config: The same as a dictionary; then the file is not read.
        limits: Deadlines.
    """

    def __init__(
        self,
        config_path: str | Path = "mcp.json",
        config: Mapping[str, Any] | None = None,
        *,
        limits: ManagerLimits | None = None,
    ) -> None:
        self.config_path = str(config_path)
        """The configuration file."""
        self._given = config is not None
        self.config: dict[str, Any] = dict(config or {})
        """The configuration that counts: what was given, or what the file said when it was last read."""
        self._limits = limits or ManagerLimits()
        self._listener: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._closing: Future[None] | None = None

    @property
    def sessions(self) -> dict[str, ServerSession]:
        """The open sessions, by server."""
        open_ = self._open
        if open_ is None:
            return {}
        return {
            name: ServerSession(name, open_.lease, server)
            for name, server in open_.servers.all.items()
            if server.is_connected
        }

    @property
    def tools(self) -> Mapping[str, ServerTool]:
        """The tools of all servers, by the names that they have here. Replaced, never changed, when they change."""
        open_ = self._open
        return {} if open_ is None else open_.servers.tools

    @property
    def server_tools_map(self) -> dict[str, str]:
        """For every tool, by the name that it has here, the server that has it."""
        return {name: tool.server.name for name, tool in self.tools.items()}

    @property
    def server_tasks(self) -> dict[str, asyncio.Task[None]]:
        """The tasks that keep the connections alive, by server. They may be awaited and cancelled on any event loop."""
        return {name: server.task for name, server in self._servers().items()}

    @property
    def server_stop_events(self) -> dict[str, asyncio.Event]:
        """The signals for servers to stop in good order; setting one is enough."""
        return {name: server.stop for name, server in self._servers().items()}

    async def load_config(self) -> dict[str, Any]:
        """Read the configuration file, unless a dictionary was given. What is wrong with it is logged.

        Returns:
            The configuration, which is `config` too; empty if there is none that can be used.
        """
        if not self._given:
            self.config = await asyncio.to_thread(self._read_config)
        return self.config

    async def connect_to_servers(self) -> None:
        """Connect to all servers of the configuration that are not connected, side by side.

        Waits for each of them for `ManagerLimits.connect_wait` at most. One that takes longer goes on in the
        background, and its tools appear when it is ready; one that fails is logged. Servers whose names begin with
        `logicore` are left alone.

        Cancelling this leaves what is on its way to `cleanup`.
        """
        await self.load_config()
        specs = await asyncio.to_thread(self._specs)
        if specs:
            open_ = await asyncio.to_thread(self._opened)
            try:
                await _there(open_.lease, partial(open_.servers.connect, specs))
            except RuntimeError:  # the background loop has ended
                if self._open is open_:
                    raise  # and not because somebody has cleaned up meanwhile

    async def get_tools(self) -> list[dict[str, Any]]:
        """Return the present tools of all servers, as OpenAI's function calling describes them.

        Left out are those that MCP Apps keep from models.

        A tool has the name that its server gave it. Where two servers have the same, the first keeps it, and that of
        the other is `<server>__<tool>`; so is one that no model provider would accept.

        Returns:
            `{"type": "function", "function": {"name", "description", "parameters"}}`, with each input schema as it is.
        """
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": tool.definition.get("description") or "",
                    "parameters": copy.deepcopy(tool.definition.get("inputSchema", {"type": "object"})),
                },
            }
            for name, tool in self.tools.items()
            if is_model_visible(tool.definition)
        ]

    async def execute_tool(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool. Cancelling this cancels the server's work.

        Args:
            tool_name: What the tool is called here: a key of `server_tools_map`.
            arguments: Its arguments.

        Returns:
            `{"success": True, "content": text}`, or `{"success": False, "error": text}` if the tool failed, or its
            server is gone or did not answer in time. Of what is no text, only that it is there: `[Image: image/png]`,
            `[Resource: file:///a]`.

        Raises:
            ValueError: No server has such a tool.
        """
        try:
            return outcome(await self.call_tool(tool_name, arguments))
        except ToolError as error:
            return failure(str(error))

    async def call_tool(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> JSON:
        """As `execute_tool`, but return the whole MCP result, as it came.

        Raises:
            ValueError: No server has such a tool.
            ToolError: Its server is gone, refused, or did not answer in time.
        """
        open_ = self._open
        tool = self.tools.get(tool_name)
        if open_ is None or tool is None:
            similar = difflib.get_close_matches(tool_name, self.tools, _SIMILAR)
            hint = f"; there is {', '.join(similar)}" if similar else ""
            raise ValueError(f"Tool {tool_name} not found in external servers{hint}")
        try:
            return await _there(open_.lease, partial(tool.server.call_tool, tool.name, dict(arguments or {})))
        except (BridgeError, RuntimeError) as error:
            raise ToolError(error.message if isinstance(error, ProtocolError) else str(error)) from error

    async def cleanup(self) -> None:
        """Disconnect all servers, and wait until their processes are gone. Twice is harmless; so is to connect again.

        Cancelling this does not keep it from being done.
        """
        with self._lock:
            open_, self._open = self._open, None
            if open_ is not None:
                open_.finalizer.detach()
                self._closing = open_.lease.finish(open_.servers.close)
            closing = self._closing
        if closing is not None:
            await asyncio.shield(asyncio.wrap_future(closing))

    def on_tools_changed(self, listener: Callable[[], object]) -> None:
        """Set the function to call when there are other tools than before.

        Args:
            listener: Called on the background loop; must neither block nor raise.
        """
        self._listener = listener
        if self._open is not None:
            self._open.servers.listener = listener

    async def __aenter__(self) -> Self:
        """Connect to all servers."""
        try:
            await self.connect_to_servers()
        except BaseException:
            await self.cleanup()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cleanup()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config_path!r}, connected={sorted(self.sessions)!r})"

    def _servers(self) -> Mapping[str, Server]:
        open_ = self._open
        return {} if open_ is None else open_.servers.all

    def _read_config(self) -> JSON:
        path = Path(self.config_path).expanduser()
        if not path.exists():
            logger.warning("there is no %s, and so there are no MCP servers", path)
            return {}
        try:
            return read_json(path).document
        except ConfigError as error:
            logger.error("MCP servers are missing: %s", error)
            return {}

    def _specs(self) -> list[ServerSpec]:
        """Return the servers to connect."""
        try:
            entries = servers_of(self.config, Path("the configuration" if self._given else self.config_path))
        except ConfigError as error:
            logger.error("MCP servers are missing: %s", error)
            return []
        specs = ((name, self._spec(name, entry)) for name, entry in entries.items())
        return [spec for _, spec in specs if spec is not None]

    def _spec(self, name: str, entry: object) -> ServerSpec | None:
        if name.startswith(_OWN_KIND):
            logger.info("MCP server '%s' is skipped: by its name it is an agent of this kind", name)
            return None
        if is_object(entry) and entry.get("disabled") is True:
            return None
        folder = Path() if self._given else Path(self.config_path).expanduser().parent
        if not self._given and not lies_in_workspace(Path(self.config_path).expanduser()):
            entry = in_own_folder(name, entry)
        try:
            spec = client_spec(name, entry, folder)
        except EntryError as error:
            logger.warning("MCP server '%s' is skipped: %s", name, error)
            return None
        if isinstance(spec, StdioServerSpec):
            return replace(spec, command=which(spec.command) or spec.command)
        return spec

    def _opened(self) -> _Open:
        from gaia.mcp.aio.servers import Servers  # with all that it takes to connect: half a second

        with self._lock:
            if self._open is None or not self._open.lease.is_alive:  # it is not in a forked child
                servers = Servers(self._limits)
                servers.listener = self._listener
                lease = BACKGROUND.acquire()
                finalizer = weakref.finalize(self, lease.finish, servers.close)
                finalizer.atexit = False  # the background loop closes everything by itself then
                self._open = _Open(lease, servers, finalizer)
            return self._open


async def _there(lease: Lease, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for something on the background loop, which does not end meanwhile, if others clean up."""
    with BACKGROUND.acquire():
        return await lease.wait(function)
