"""A client of one MCP server ("MCPClient")."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from gaia.background_loop import BACKGROUND
from gaia.mcp.client.change_watcher import ChangeWatcher
from gaia.mcp.client.mcp_tool import MCPTool, MCPToolError
from gaia.mcp.client.server_config import configured_server
from gaia.mcp.client.transports.base import MCPTransport
from gaia.mcp.client.transports.stdio import StdioTransport
from gaia.mcp.client.validation import validation_message
from gaia_bridge import __version__
from gaia_bridge.errors import INVALID_PARAMS
from gaia_bridge.json_schema.validation import OutputSchemas
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.names import source_prefix
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, PUBLISHED, UNDATED_REVISION, is_dated
from gaia_bridge.protocol.skills import SKILL_FILE, SKILLS_GET
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["MCPClient", "MCPTool", "disconnect"]

logger = logging.getLogger(__name__)

_TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_LIMITS: Final = UpstreamLimits()

_Request = Callable[..., dict[str, Any]]
"""Makes a request, from its method and, if there are any, its parameters; returns its result."""

_REVISIONS: Final = (*HANDSHAKE_REVISIONS, *PUBLISHED.names)
"""Revisions that a server may answer to `initialize`. Our own transports have agreed on one by themselves."""


class MCPClient:
    """Calls the tools of one MCP server. Synchronous, usable from any thread, and a context manager.

        with MCPClient.from_config("time", {"command": "uvx", "args": ["mcp-server-time"]}) as client:
            print(client.call_tool("get_current_time", {"timezone": "UTC"}))

    Args:
        name: What the server is called here; qualifies its tools.
        transport: How to reach it.
        debug: Whether what happens is logged at level DEBUG.
    """

    PROTOCOL_VERSION: ClassVar[str] = "2025-11-25"
    """The revision that `initialize` asks for; a server may answer with any that we know. The specification's literal
    "1.0.0" is no revision of MCP and refused by strict servers; a subclass may say it all the same."""
    CLIENT_INFO: ClassVar[Mapping[str, str]] = {"name": "GAIA MCP Client", "version": __version__}
    """How we introduce ourselves."""

    def __init__(self, name: str, transport: MCPTransport, debug: bool = False) -> None:
        self.name = name
        self.transport = transport
        self.debug = debug
        self.server_info: dict[str, Any] = {}
        """The server's `serverInfo`, once connected."""
        self.last_error = ""
        """Why `connect` returned `False`."""
        self.offers: Callable[[str], bool] = lambda tool_name: True
        """Whether a tool is listed; decided by `allowed_tools` and `disabled_tools` of the configuration."""
        self.refusal: Callable[[], str | None] = lambda: None
        """Says before each start of the server why it must not be started, if it must not."""
        self._tools: list[MCPTool] | None = None
        self._outputs = OutputSchemas(f"MCP server '{name}'")
        self._lists = 0
        self._lock = threading.Lock()
        self._connections = 0
        self._handshake = False
        self._warned = False
        self._connecting = threading.Lock()
        self._watcher = ChangeWatcher(f"tools of {name}", _LIMITS.refresh_interval)
        transport.on_notification = self._notified

    @classmethod
    def from_config(
        cls,
        name: str,
        config: Mapping[str, Any],
        timeout: float = 30,
        debug: bool = False,
        *,
        folder: Path | None = None,
    ) -> Self:
        """Create a client from an entry of `mcp_servers.json`.

        Args:
            name: What the server is called here.
            config: `{"command", "args", "env", "cwd"}`, or `{"url", "headers", "type"}`, or `{"agent": <object>}` for
                an agent of this process; and `timeout`, `startup_timeout`, `allowed_tools`, `disabled_tools`.
                References such as `${env:TOKEN}` are filled in.
            timeout: Seconds for the connection and for each request, where the configuration has no `timeout`.
            debug: Whether what happens is logged at level DEBUG.
            folder: Where the configuration is from: relative paths in `${file:...}` begin there; the current folder
                if not given.

        Returns:
            A client that is not connected yet.

        Raises:
            ValueError: The configuration names no server, or more than one, or cannot be used for another reason.
        """
        server = configured_server(name, config, timeout, debug, folder)
        client = cls(name, server.transport, debug)
        client.offers = server.offers
        return client

    @classmethod
    def from_command(cls, name: str, command: str, timeout: float = 30, debug: bool = False) -> Self:
        """Create a client of a server that one command starts, such as `uvx mcp-server-time`. Prefer `from_config`.

        Args:
            name: What the server is called here.
            command: Program and arguments, quoted as for a shell; it is split here and not given to one.
            timeout: Seconds for the connection and for each request.
            debug: Whether what happens is logged at level DEBUG.

        Returns:
            A client that is not connected yet.

        Raises:
            ValueError: The command is empty, or needs a shell.
        """
        transport = StdioTransport(command, timeout, debug)
        transport.name = name
        return cls(name, transport, debug)

    @classmethod
    def from_agent(cls, name: str, agent: object, timeout: float = 30, debug: bool = False) -> Self:
        """Create a client of an agent in this process: no child process, no socket.

        Args:
            name: What the agent is called here.
            agent: An object with `get_mcp_tool_definitions` and `execute_mcp_tool`.
            timeout: Seconds for each request.
            debug: Whether what happens is logged at level DEBUG.

        Returns:
            A client that is not connected yet.

        Raises:
            ValueError: The object has not both methods.
        """
        return cls.from_config(name, {"agent": agent}, timeout, debug)

    @property
    def prefix(self) -> str:
        """The server's part in the names of its tools (`MCPTool.to_gaia_format`)."""
        return source_prefix(self.name)

    def connect(self) -> bool:
        """Connect and greet the server. What goes wrong is logged and kept in `last_error`, and closed again.

        Returns:
            Whether the client is connected.
        """
        before = self._connections
        with self._connecting:
            if self._connections != before and self.is_connected():
                return True  # another thread did it meanwhile
            try:
                connected = self._connect_logged()
            finally:
                self._handshake = False
            self._connections += connected
            return connected

    def disconnect(self) -> None:
        """Disconnect and forget the list of tools. Twice is harmless."""
        self._watcher.stop()
        self._forget_tools()
        self.transport.disconnect()
        self._log("disconnected")

    def is_connected(self) -> bool:
        """Whether the server was greeted and the transport is connected: of a child process, whether it is alive."""
        # The flag is read last: it was set before the transport was opened, and stands until the server was greeted.
        return self.transport.is_connected() and not self._handshake

    def is_connecting(self) -> bool:
        """Whether a thread is just connecting the client, for the first time or again."""
        return self._connecting.locked()

    def list_tools(self, refresh: bool = False) -> list[MCPTool]:
        """List the server's tools. They are remembered until the server says that they changed.

        Args:
            refresh: Ask the server in any case.

        Returns:
            The tools, to the last page; none if the server did not answer with a list, which is logged. An item that
            is no tool is left out, alone, and logged as well.
        """
        tools = self._tools
        if tools is None or refresh:
            try:
                tools = self.fetch_tools()
            except Exception as error:  # as in `connect`
                logger.log(_failure_level(), "MCP server '%s' did not list its tools: %s", self.name, error)
                return []
        return list(tools)

    def fetch_tools(self) -> list[MCPTool]:
        """Ask the server for its tools, and remember them.

        Returns:
            The tools, to the last page.

        Raises:
            RuntimeError: It is not connected, or answered with an error.
            TimeoutError: It did not answer in time.
        """
        lists = self._lists
        tools = list({tool.name: tool for tool in self._read_tools() if self.offers(tool.name)}.values())
        with self._lock:
            if lists == self._lists:  # else they changed meanwhile: use them, but do not keep them
                self._tools = tools
        self._log("%d tools", len(tools))
        return tools

    def call_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool.

        Args:
            tool_name: What the server calls the tool, without any prefix.
            arguments: Its arguments.

        Returns:
            The MCP result as it came, `{"content": [...], ...}`, also if it says `isError`; or `{"error": "..."}` if
            the server answered with an error, or with structured content that breaks what a listed tool promises. If
            it refused the arguments, that text has the tool's schema in it.

        Raises:
            RuntimeError: The client is not connected, or the connection ended during the call.
            TimeoutError: The server did not answer in time.
        """
        if not self.is_connected():
            raise RuntimeError(f"Not connected to MCP server '{self.name}'")
        self._log("calling %s", tool_name)
        response = self.transport.send_request("tools/call", {"name": tool_name, "arguments": arguments})
        error = response.get("error")
        if error is None:
            result: dict[str, Any] = response.get("result", {})
            problem = self._outputs.problem(tool_name, result) if is_object(result) else None
            if problem is None:
                return result
            against = f"MCP tool '{tool_name}' answered with structured content against its output schema"
            return {"error": f"{against}:\n{problem}"}
        self._log("%s failed", tool_name)
        message = _message_of(error)
        if is_object(error) and error.get("code") == INVALID_PARAMS:
            message = self.explain_refusal(tool_name, message, arguments)
        return {"error": message}

    def list_skills(self) -> list[dict[str, Any]]:
        """Return the skills of the server (SEP-2640): entries with `uri`, `frontmatter` and the digests of files.

        Returns:
            The entries, to the last page.

        Raises:
            RuntimeError: It is not connected, or answered with an error.
            TimeoutError: It did not answer in time.
        """
        return [entry for entry in self._listed("skill", self._make_request) if is_object(entry)]

    def get_skill(self, uri: str) -> dict[str, Any]:
        """Read the present entry of one skill.

        Args:
            uri: The URI of its `SKILL.md`.

        Raises:
            RuntimeError: There is no such skill, or no connection.
            TimeoutError: It did not answer in time.
        """
        entry = self._make_request(SKILLS_GET, {"uri": uri}).get("skill")
        return entry if is_object(entry) else {}

    def read_skill(self, skill: Mapping[str, Any], path: str = SKILL_FILE) -> bytes:
        """Read a file of a skill, and check that it is the one in the entry.

        Args:
            skill: The entry, as `list_skills` and `get_skill` return it.
            path: The path of the file in the skill.

        Raises:
            SkillChangedError: It is another file now, or none that the entry lists. `get_skill` has the new entry.
            RuntimeError: The server refused, or there is no connection.
            TimeoutError: It did not answer in time.
        """
        from gaia_bridge.sources.skills.verification import uri_of, verified

        uri = uri_of(skill, path)
        contents = self._make_request("resources/read", {"uri": uri}).get("contents")
        return verified(skill, uri, [item for item in contents if is_object(item)] if is_array(contents) else [])

    def _make_request(self, method: str, *params: dict[str, Any]) -> dict[str, Any]:
        """Make a request, and return its result.

        Raises:
            RuntimeError: The client is not connected, or the server answered with an error.
            TimeoutError: It did not answer in time.
        """
        if not self.is_connected():
            raise RuntimeError(f"Not connected to MCP server '{self.name}'")
        return self._result(method, *params, refusal=f"MCP server '{self.name}' refused {method}: ")

    def explain_refusal(self, tool_name: str, details: str, arguments: Mapping[str, Any]) -> str:
        """Return the text for a model whose arguments the server refused.

        Args:
            tool_name: What the server calls the tool.
            details: What the server said.
            arguments: What it was called with.

        Returns:
            The details with the tool's schema and the arguments; the details alone for a tool that is not listed.
        """
        for tool in self.list_tools():
            if tool.name == tool_name:
                return validation_message(tool_name, details, tool.input_schema, arguments)
        return details

    def create_tool_wrapper(self, tool: MCPTool) -> Callable[..., dict[str, Any]]:
        """Make a function that calls a tool.

        Args:
            tool: The tool.

        Returns:
            A function of the tool's arguments by name, which returns and raises what `call_tool` does.
        """

        def call(**arguments: Any) -> dict[str, Any]:
            return self.call_tool(tool.name, arguments)

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    def on_tools_changed(self, listener: Callable[[], None]) -> None:
        """Set the function to call when the server says that its tools changed.

        Args:
            listener: Called in a thread of its own, so that it may use the client; at most once a second, however often
                the server says so. The list that it asks for is a new one.
        """
        self._watcher.watch(listener)

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            RuntimeError: It did not work; says why.
        """
        if not self.connect():
            raise RuntimeError(f"Failed to connect to MCP server '{self.name}': {self.last_error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {type(self.transport).__name__})"

    def _connect_logged(self) -> bool:
        try:
            problem = self._connect()
        except Exception as error:
            # The boundary: a transport of somebody else's may raise anything.
            problem = str(error) or type(error).__name__
        except BaseException:
            self._disconnect_quietly()
            raise
        self.last_error = problem
        if problem:
            self._disconnect_quietly()
            words = self._last_words()
            logger.log(_failure_level(), "MCP server '%s' is not connected: %s%s", self.name, problem, words)
            return False
        self._log("connected to %s", self.server_info or "a server without a name")
        return True

    def _connect(self) -> str:
        """Connect; returns what is wrong, or nothing."""
        if not self.transport.is_connected():
            if (refusal := self.refusal()) is not None:
                return refusal
            self._handshake = True
            self._forget_tools()  # its process ended; the next one may be of another version
        if not self.transport.connect():
            reason: Any = self.transport.last_error  # a test's double may have anything here
            return reason if isinstance(reason, str) and reason else "the transport could not connect"
        params = {"protocolVersion": self.PROTOCOL_VERSION, "clientInfo": dict(self.CLIENT_INFO), "capabilities": {}}
        response = self.transport.send_request("initialize", params)
        if (error := response.get("error")) is not None:
            return _message_of(error)
        result = response.get("result")
        if not is_object(result):
            return "it answered initialize with neither a result nor an error"
        revision = result.get("protocolVersion", self.PROTOCOL_VERSION)
        if isinstance(revision, str) and revision not in ("", self.PROTOCOL_VERSION) and not is_dated(revision):
            self._warn_of_undated(revision)
        elif revision not in (self.PROTOCOL_VERSION, *_REVISIONS):
            return f"it speaks the protocol revision {revision!r}; expected one of {', '.join(_REVISIONS)}"
        info = result.get("serverInfo")
        self.server_info = info if is_object(info) else {}
        self.transport.send_notification("notifications/initialized")
        return ""

    def _warn_of_undated(self, revision: str) -> None:
        """Say it once, however often the client connects. Transports that come with us have agreed on a revision."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "MCP server '%s' answered the handshake with the protocol version %s, which is no revision of MCP; "
                "it is spoken to as %s",
                self.name,
                printable(repr(revision), 40),
                UNDATED_REVISION,
            )

    def _last_words(self) -> str:
        words: Any = self.transport.last_words  # a test's double may have anything here
        return f"; its error output ended with:\n{words}" if isinstance(words, str) and words else ""

    def _forget_tools(self) -> None:
        with self._lock:
            self._lists += 1
            self._tools = None
        self._outputs.replace(())

    def _disconnect_quietly(self) -> None:
        with suppress(Exception):  # the transport failed already, and this is the reason that counts
            self.transport.disconnect()

    def _read_tools(self) -> list[MCPTool]:
        tools: list[MCPTool] = []
        definitions = self._listed("tool", self._result)
        for definition in definitions:
            try:
                tools.append(MCPTool.from_definition(definition))
            except MCPToolError as problem:
                logger.warning("MCP server '%s': %s; it is left out", self.name, problem)
        self._outputs.replace(filter(is_object, definitions))
        return tools

    def _listed(self, kind: str, request: _Request) -> list[Any]:
        """Return the items of a list, to the last page or to the limit.

        Our own transports return all pages at once; those of other authors return one.

        Args:
            kind: A key of `KINDS`.
            request: Makes a request, and raises as this does.

        Raises:
            RuntimeError: The server answered with an error, or without a list.
            TimeoutError: It did not answer in time.
        """
        method, field = KINDS[kind].method, KINDS[kind].field
        items: list[Any] = []
        params: tuple[dict[str, Any], ...] = ()
        for _ in range(_LIMITS.pages):
            page = request(method, *params)
            if not is_array(more := page.get(field)):
                raise RuntimeError(f"it answered {method} without a list of {field}")
            items += more
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or {"cursor": cursor} in params or len(items) >= _LIMITS.tools:
                break
            params = ({"cursor": cursor},)
        return items[: _LIMITS.tools]

    def _result(self, method: str, *params: dict[str, Any], refusal: str = "") -> dict[str, Any]:
        """Make a request, and return its result; raise a `RuntimeError` that begins with `refusal` for an error."""
        response = self.transport.send_request(method, *params)
        if (error := response.get("error")) is not None:
            raise RuntimeError(refusal + _message_of(error))
        result: object = response.get("result")
        return result if is_object(result) else {}

    def _notified(self, method: str, params: JSON) -> None:
        if method == _TOOLS_CHANGED:
            with self._lock:
                self._lists += 1
                self._tools = None
            self._watcher.changed()

    def _log(self, message: str, *values: object) -> None:
        if self.debug:
            logger.debug(f"MCP server '%s': {message}", self.name, *values)  # noqa: G004 - only ours


def _failure_level() -> int:
    """Return the log level of a failure: the end of the process cuts connections short, which is none."""
    return logging.DEBUG if BACKGROUND.is_over else logging.WARNING


def disconnect(client: MCPClient) -> None:
    """Disconnect a client. A failure is logged: a transport of somebody else's may raise anything."""
    try:
        client.disconnect()
    except Exception:
        logger.exception("MCP server '%s' did not disconnect in good order", client.name)


def _message_of(error: object) -> str:
    """Return the text of a JSON-RPC error, whatever shape it has."""
    message = error.get("message") if is_object(error) else error
    return message if isinstance(message, str) else str(error)
