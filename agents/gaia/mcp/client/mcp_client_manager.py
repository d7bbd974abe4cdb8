"""Several MCP servers and their configuration file ("MCPClientManager")."""

from __future__ import annotations

import logging
import shlex
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from gaia.mcp.client.config import MCPConfig, ServerToStart
from gaia.mcp.client.mcp_client import MCPClient, disconnect
from gaia.mcp.client.parallel import side_by_side
from gaia.mcp.client.transports.agent import AgentTransport
from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.config.expansion import referenced_files
from gaia_bridge.config.process_rules import ONLY_SHOWN
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import is_object

__all__ = ["MCPClientManager"]

logger = logging.getLogger(__name__)

_UNKNOWN: Final = "it could not be connected; the log says why"
_ENDED: Final = "its connection has ended"


class MCPClientManager:
    """The connections to several servers. Usable from any thread, and a context manager that disconnects all.

    Args:
        config: Where servers are remembered; `~/.gaia/mcp_servers.json` and the project's file if not given.
        debug: Whether what happens is logged at level DEBUG.
        owner: The agent whose connections these are, if they are an agent's.
    """

    def __init__(self, config: MCPConfig | None = None, debug: bool = False, owner: object | None = None) -> None:
        self._owner: Callable[[], object | None] = (lambda: None) if owner is None else weakref.ref(owner)
        self.config = MCPConfig(agent=owner) if config is None else config
        self.debug = debug
        self.own_id = ""
        """The agent's id in requests to its servers, if it republishes them; see `gaia_bridge.calls.bridge_hops`."""
        self._clients: dict[str, MCPClient] = {}
        self._connecting: set[str] = set()
        self._failed: dict[str, str] = {}
        self._lock = threading.Lock()

    def add_server(self, name: str, config: dict[str, Any]) -> MCPClient:
        """Connect to a server, and remember it in the configuration file.

        A server of that name that is no longer connected, because its process ended, is replaced.

        Args:
            name: What the server is called here.
            config: As `MCPClient.from_config` takes it; relative paths in `${file:...}` begin in the folder of the
                file that it is written to. One with an `agent` is not written: that agent is there while a program
                publishes it.

        Returns:
            The connected client.

        Raises:
            ValueError: There is a server of that name already, or the configuration names none.
            RuntimeError: It could not be connected; nothing is remembered then.
        """
        client = self._client(name, config)
        if not self._reserve(name):
            raise ValueError(f"MCP server '{name}' already exists")
        if not self._connect(name, client):
            raise RuntimeError(f"Failed to connect to MCP server '{name}': {client.last_error}")
        if "agent" not in config:
            self._remember(name, config)
        return client

    def remove_server(self, name: str) -> None:
        """Disconnect a server and remove it from the configuration file. An unknown name is a warning.

        Args:
            name: What the server is called here.

        Raises:
            ConfigError: The file cannot be edited.
        """
        client = self._take(name)
        if client is not None:
            disconnect(client)
        self._failed.pop(name, None)
        if self.config.server_exists(name):
            self.config.remove_server(name)
            if not ONLY_SHOWN.holds:
                logger.warning("MCP server '%s' is taken out of the configuration", name)
        elif client is None:
            logger.warning("MCP server '%s' is not known; there is nothing to remove", name)

    def disconnect_server(self, name: str) -> None:
        """Disconnect a server that stays in the configuration file. An unknown name is no matter."""
        client = self._take(name)
        if client is not None:
            disconnect(client)

    def get_client(self, name: str) -> MCPClient | None:
        """Return the client of a server, or `None`."""
        return self._clients.get(name)

    def list_servers(self) -> list[str]:
        """Return the names of the servers that are connected right now."""
        return [name for name, client in self._clients.copy().items() if client.is_connected()]

    def get_status_report(self) -> list[dict[str, Any]]:
        """Return the state of each server that was to be connected, without those that are disabled.

        Returns:
            For each `name`, `connected`, `tool_count`, and `error`: `None`, or why it is not connected.
        """
        clients, failed = self._clients.copy(), self._failed.copy()
        report = [_status(name, client) for name, client in clients.items()]
        return report + [
            {"name": name, "connected": False, "tool_count": 0, "error": error}
            for name, error in failed.items()
            if name not in clients
        ]

    def disconnect_all(self) -> None:
        """Disconnect all servers, side by side. What goes wrong with one is logged."""
        with self._lock:
            clients, self._clients, self._failed = self._clients, {}, {}
        side_by_side(disconnect, clients.values())

    def load_from_config(self) -> None:
        """Connect to all servers of the configuration, side by side. Never raises: what goes wrong is logged.

        Those that are connected already, are disabled, or do not say how they are reached are left alone.
        """
        servers, held_back = self.config.to_start()
        connected_already = self.list_servers()
        for name, reason in held_back.items():
            if name not in connected_already:
                logger.warning("MCP server '%s' is not started: %s", name, reason)
                self._failed[name] = reason
        created = ((name, self._new(name, server)) for name, server in servers.items())
        clients = {name: client for name, client in created if client is not None}
        connected: list[bool] = []
        try:
            connected = side_by_side(_connects, clients.values())
        finally:
            with self._lock:
                self._connecting.difference_update(clients)
                for (name, client), succeeded in zip(clients.items(), connected, strict=False):
                    self._settle(name, client, succeeded)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect_all()

    def _new(self, name: str, server: ServerToStart) -> MCPClient | None:
        """Make a client for an entry of the configuration, and reserve its name; `None` if it is not to connect."""
        if is_object(server.entry) and server.entry.get("disabled"):
            return None
        try:
            client = self._client(name, server.entry, server.folder)
            client.refusal = server.refusal
            if isinstance(client.transport, ConnectionTransport):
                client.transport.refusal = server.refusal
        except ValueError as error:
            logger.warning("MCP server '%s' is skipped: %s", name, error)
            self._failed[name] = str(error)
            return None
        return client if self._reserve(name) else None

    def _client(self, name: str, config: dict[str, Any], folder: Path | None = None) -> MCPClient:
        # Only where it matters: what programs put in place of `from_config` takes what AMD's takes.
        beside: dict[str, Any] = {}
        if is_object(config) and referenced_files(config):
            beside["folder"] = folder or self.config.folder_of(name)
        client = MCPClient.from_config(name, config, debug=self.debug, **beside)
        owner = self._owner()
        if owner is not None and isinstance(client.transport, AgentTransport):
            client.transport.used_by(owner)
        if isinstance(client.transport, ConnectionTransport):
            client.transport.own_id = self.own_id
            client.transport.shares = owner is not None
        return client

    def _reserve(self, name: str) -> bool:
        """Claim a name, so that two threads do not connect the same server; not if it is connected, or about to be."""
        with self._lock:
            client = self._clients.get(name)
            if name in self._connecting or (client is not None and (client.is_connected() or client.is_connecting())):
                return False
            self._connecting.add(name)
            self._clients.pop(name, None)
        if client is not None:
            disconnect(client)
        return True

    def _connect(self, name: str, client: MCPClient) -> bool:
        """Connect a client whose name was reserved, and keep it if that works."""
        try:
            connected = client.connect()
        except BaseException:
            with self._lock:
                self._connecting.discard(name)
            raise
        with self._lock:
            self._connecting.discard(name)
            self._settle(name, client, connected)
        return connected

    def _settle(self, name: str, client: MCPClient, connected: bool) -> None:
        """Keep a client that is connected, or why it is not."""
        if connected:
            self._clients[name] = client
            self._failed.pop(name, None)
        else:
            self._failed[name] = client.last_error or _UNKNOWN

    def _take(self, name: str) -> MCPClient | None:
        with self._lock:
            return self._clients.pop(name, None)

    def _remember(self, name: str, config: dict[str, Any]) -> None:
        is_news = self.config.get_server(name) != config and not ONLY_SHOWN.holds
        try:
            self.config.add_server(name, self.config.as_remembered(name, config))
        except (ConfigError, OSError) as error:
            # The server is connected, which is what counts for an agent whose home folder is read-only.
            logger.warning("MCP server '%s' is connected, but will not be remembered: %s", name, error)
            return
        if is_news:  # a warning, so that programs that set up no log show it
            file, option = self.config.kept_in(name)
            logger.warning("kept in %s; `gaia-bridge remove %s%s` takes it out", file, shlex.quote(name), option)


def _status(name: str, client: MCPClient) -> dict[str, Any]:
    if client.is_connected():
        return {"name": name, "connected": True, "tool_count": len(client.list_tools()), "error": None}
    return {"name": name, "connected": False, "tool_count": 0, "error": client.last_error or _ENDED}


def _connects(client: MCPClient) -> bool:
    try:
        return client.connect()
    except Exception:  # `connect` of a subclass
        logger.exception("MCP server '%s' is not connected", client.name)
        return False
