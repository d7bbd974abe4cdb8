"""The connections of this process to the MCP servers of its toolset ("MCPClientManager").

They persist: a server keeps its state from call to call, and a call costs a message and not a process. They run
on the background loop, so that calls work from every thread and inside of any event loop, which stands still meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from gaia.mcp.client.mcp_client import MCPClient, disconnect
from gaia.mcp.client.mcp_tool import MCPTool
from gaia.mcp.client.parallel import side_by_side
from gaia.mcp.client.transports import HTTPTransport, MCPTransport, StdioTransport
from gaia.mcp.client.transports.base import ConnectionOverError
from gaia.mcp.client.validation import is_validation_error
from gaia.mcp.responses import failure_text
from gaia.mcp.toolset.mcp_config import MCPServerConfig
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["MCPClientManager"]

logger = logging.getLogger(__name__)

_TIMEOUT: Final = 30.0
"""Seconds for the start of a server and for each call, as everywhere in `gaia.mcp.client`."""


class MCPClientManager:
    """Starts servers and calls their tools. There is one in a process: `MCPClientManager() is MCPClientManager()`.

    Usable from any thread. At the end of the process all servers are stopped. In a forked child, nothing of the
    parent's connections is used: a server is started anew with the first call.
    """

    _instance: ClassVar[MCPClientManager | None] = None
    _making: ClassVar[threading.Lock] = threading.Lock()

    _server_configs: dict[str, MCPServerConfig]
    """How the servers that were started are reached."""
    _discovered_tools: dict[str, list[JSON]]
    """Their tools, as `get_discovered_tools` returns them."""
    _clients: dict[str, MCPClient]
    _starting: dict[str, threading.Lock]
    _lock: threading.Lock

    def __new__(cls) -> Self:
        with MCPClientManager._making:
            if MCPClientManager._instance is None:
                instance = super().__new__(cls)
                instance._server_configs, instance._discovered_tools = {}, {}
                instance._forget_connections()
                MCPClientManager._instance = instance
            return MCPClientManager._instance  # type: ignore[return-value]  # of a subclass only if that came first

    def start_client(
        self,
        name: str,
        transport: str = "stdio",
        command: str | None = None,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        url: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        """Start a server, or reach it, and ask for its tools. One that is running is left alone.

        Args:
            name: What the server is called here.
            transport: `stdio`, `http` or `sse`.
            command: With `stdio`, the program.
            args: Its arguments.
            env: Variables for it, over the environment of this process.
            url: With `http` and `sse`, where it is.
            headers: With `http` and `sse`, sent with every request.
            timeout: Seconds for the start, and for each call.

        Raises:
            RuntimeError: It did not work; says why. Nothing is remembered then, so that the next attempt is a new one.
        """
        try:
            config = MCPServerConfig(name, None, command, args, transport, env, url, headers=headers, timeout=timeout)
        except ValueError as error:
            raise _start_error(name, error) from error
        with self._starting_lock(name):
            client = self._clients.get(name)
            if client is not None and client.is_connected():
                if self._server_configs.get(name) != config:
                    logger.warning(
                        "MCP server '%s' is running already, in another configuration; stop_client ends that",
                        name,
                    )
                return
            self._start(config)

    def call_tool(self, server_name: str, tool_name: str, arguments: Mapping[str, Any] | None = None) -> list[JSON]:
        """Call a tool, and wait. A server that is not there any more is started, or reached, again first.

        A call that may have reached the server is never made a second time.

        Args:
            server_name: What the server is called here.
            tool_name: What the server calls the tool.
            arguments: Its arguments.

        Returns:
            The content blocks of the result; structured content that comes without any, as one of text.

        Raises:
            RuntimeError: The server is not known or not reached, or the tool failed; says how.
            TimeoutError: The server did not answer in time.
        """
        given = dict(arguments or {})
        client = self._running(server_name)
        try:
            result = client.call_tool(tool_name, given)
        except ConnectionOverError:
            client = self._running(server_name, instead_of=client)
            result = client.call_tool(tool_name, given)
        if not is_object(result):  # over a transport of one's own
            kind = type(result).__name__
            raise RuntimeError(f"MCP tool '{tool_name}' answered with a result that is a {kind}; expected an object")
        if "error" in result and "content" not in result:
            raise RuntimeError(str(result["error"]))
        problem = failure_text(result)
        if problem is not None:
            if is_validation_error(problem):
                problem = client.explain_refusal(tool_name, problem, given)
            raise RuntimeError(problem)
        content, structured = result.get("content"), result.get("structuredContent")
        if is_array(content) and (content or structured is None):
            return [block for block in content if is_object(block)]
        return [result] if structured is not None else []

    def get_discovered_tools(self, server_name: str) -> list[JSON]:
        """Return the tools of a server, as it listed them last.

        Args:
            server_name: What the server is called here.

        Returns:
            For each `name`, `description` and `inputSchema`, and `annotations` where it has any; none if the server is
            not known.
        """
        return list(self._discovered_tools.get(server_name, ()))

    def stop_client(self, server_name: str) -> None:
        """Stop a server and forget it, with its tools. An unknown one is no matter."""
        with self._starting_lock(server_name):
            self._server_configs.pop(server_name, None)
            self._discovered_tools.pop(server_name, None)
            client = self._clients.pop(server_name, None)
            if client is not None:
                disconnect(client)

    def stop_all(self) -> None:
        """Stop all servers, side by side."""
        side_by_side(self.stop_client, list(self._server_configs))

    def _create_transport(self, server_name: str) -> MCPTransport:
        """Return a new transport to a server that was started or is being started; a subclass may bring its own.

        Raises:
            RuntimeError: There is no such server.
        """
        config = self._server_configs.get(server_name)
        if config is None:
            names = ", ".join(sorted(self._server_configs)) or "none"
            raise RuntimeError(
                f"MCP server '{server_name}' is not started; call start_client or create_mcp_tools first "
                f"(started: {names})"
            )
        if config.transport == "stdio":
            stdio = StdioTransport(config.command or "", config.timeout, args=config.args or (), env=config.env)
            stdio.name = server_name
            return stdio
        http = HTTPTransport(config.url or "", config.timeout, headers=config.headers, sse=config.transport == "sse")
        http.name = server_name
        return http

    def _start(self, config: MCPServerConfig) -> None:
        """Connect, with the server's starting lock held."""
        name = config.name
        before = self._server_configs.get(name)
        self._server_configs[name] = config
        client: MCPClient | None = None
        try:
            client = MCPClient(name, self._create_transport(name))
            if not client.connect():
                raise RuntimeError(client.last_error)
            tools = [_definition(tool) for tool in client.fetch_tools()]
        except Exception as error:
            if before is None:
                self._server_configs.pop(name, None)
            else:
                self._server_configs[name] = before
            if client is not None:
                disconnect(client)
            raise _start_error(name, error) from error
        previous = self._clients.get(name)
        self._clients[name], self._discovered_tools[name] = client, tools
        client.on_tools_changed(lambda: self._list_again(name, client))
        if previous is not None:
            disconnect(previous)

    def _running(self, server_name: str, instead_of: MCPClient | None = None) -> MCPClient:
        """Return the client of a server, which is started again if it is not there any more.

        Args:
            server_name: What the server is called here.
            instead_of: A client that is of no more use, although it may seem to be connected.

        Raises:
            RuntimeError: It was never started, or does not start.
        """
        client = self._clients.get(server_name)
        if client is not None and client is not instead_of and client.is_connected():
            return client
        with self._starting_lock(server_name):
            client = self._clients.get(server_name)
            if client is None or client is instead_of or not client.is_connected():
                config = self._server_configs.get(server_name)
                if config is None:
                    self._create_transport(server_name)  # says that there is none
                    raise AssertionError("unreachable")
                logger.info("MCP server '%s' is not there any more; it is started again", server_name)
                self._start(config)
            return self._clients[server_name]

    def _list_again(self, name: str, client: MCPClient) -> None:
        """Keep the list of tools in step with the server, which said that it changed."""
        tools = [_definition(tool) for tool in client.list_tools()]
        if self._clients.get(name) is client and client.is_connected():
            self._discovered_tools[name] = tools

    def _starting_lock(self, name: str) -> threading.Lock:
        """One for each server, so that a slow one does not delay the others."""
        with self._lock:
            return self._starting.setdefault(name, threading.Lock())

    def _forget_connections(self) -> None:
        """Begin without connections. In a forked child, those are the parent's, and locks may be held by nobody."""
        self._clients, self._starting, self._lock = {}, {}, threading.Lock()


def _definition(tool: MCPTool) -> JSON:
    definition: JSON = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return definition | {key: tool.definition[key] for key in ("annotations", "_meta") if tool.definition.get(key)}


def _start_error(name: str, error: Exception) -> RuntimeError:
    return RuntimeError(f"Failed to initialize MCP server '{name}': {error or type(error).__name__}")


def _after_fork() -> None:
    MCPClientManager._making = threading.Lock()  # pyright: ignore[reportPrivateUsage]  # this module's own
    if MCPClientManager._instance is not None:  # pyright: ignore[reportPrivateUsage]
        MCPClientManager._instance._forget_connections()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
