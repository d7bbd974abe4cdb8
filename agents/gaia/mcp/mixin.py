"""The mixin that makes an agent a user of MCP servers ("MCPClientMixin")."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Final

from gaia.agents.base.tools import ToolRegistry, matching_tools
from gaia.mcp.client.config import MCPConfig
from gaia.mcp.client.mcp_client import MCPClient
from gaia.mcp.client.mcp_client_manager import MCPClientManager
from gaia.mcp.client.mcp_tool import MCPTool
from gaia.mcp.client.parallel import side_by_side
from gaia.mcp.client.server_config import check_server_config
from gaia.mcp.client.validation import is_validation_error
from gaia.mcp.load_summary import load_summary
from gaia.mcp.registered_tools import RegisteredTools
from gaia.mcp.republished import Republished
from gaia.mcp.responses import failure_text, wrapped_failure, wrapped_success
from gaia_bridge.calls.bridge_hops import new_id
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from gaia_bridge.text.json_types import is_object

__all__ = ["MCPClientMixin"]

logger = logging.getLogger(__name__)

_ENDS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the program, and are passed on. Everything else is a failure, also a cancellation: nobody can
cancel a function that is not asynchronous, so it is that of a task behind it."""


class MCPClientMixin:
    """Lets an agent use the tools of MCP servers: they appear in its tool registry as `mcp_<server>_<tool>`.

        class MyAgent(Agent, MCPClientMixin):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.connect_mcp_server("time", {"command": "uvx", "args": ["mcp-server-time"]})

    It may stand before or behind the other base classes, and works also if one of them does not call
    `super().__init__()`; only the configuration is not loaded by itself then.

    Args:
        *args: For the next base class.
        auto_load_config: Whether the servers of `~/.gaia/mcp_servers.json` and of the project's file are connected
            (`MCPConfig`): when the constructors are done, or before, when one of them asks which there are. Initialised
            more than once, the last word counts.
        config_file: Use this file only, and connect its servers in any case.
        republish_tools: Whether clients of this agent are offered what its servers offer: their tools under the names
            that they have in its registry, their prompts and resources, with progress, questions and cancellation.
        **kwargs: For the next base class; `debug` is heeded here too.
    """

    tool_registry: ToolRegistry
    _mcp_is_being_built: bool = False
    """Whether a constructor of a subclass is still at work: it may yet say that nothing is to be loaded."""
    _mcp_waits_to_load: bool = False
    _mcp_shown: str = ""
    """The list of servers that the console was given last."""

    def __init__(
        self,
        *args: Any,
        auto_load_config: bool = True,
        config_file: str | None = None,
        republish_tools: bool = False,
        **kwargs: Any,
    ) -> None:
        self._mcp_republishes = getattr(self, "_mcp_republishes", False) or republish_tools
        self._mcp_debug = bool(kwargs.get("debug", False))
        if getattr(super().__init__, "__objclass__", None) is object:
            kwargs.pop("debug", None)
        super().__init__(*args, **kwargs)
        # Agents of ours initialise this class by themselves. Where it is done again, as is usual where they do not,
        # what was said explicitly counts.
        if config_file is not None or not auto_load_config:
            self._forget_loaded_servers()
        if config_file is not None:
            self._mcp_manager = MCPClientManager(MCPConfig(config_file), self._mcp_manager.debug, self)
            self._mcp_manager.own_id = self._mcp_own_id
        self._mcp_waits_to_load = auto_load_config or config_file is not None
        if not self._mcp_is_being_built:
            self._load_what_waits()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = MCPClientMixin._loads_at_its_end(cls.__init__)  # type: ignore[method-assign]

    @staticmethod
    def _loads_at_its_end(constructor: Callable[..., None]) -> Callable[..., None]:
        """Have the outermost constructor of an agent load the configuration when it is done."""

        @wraps(constructor)
        def constructed(self: MCPClientMixin, *args: Any, **kwargs: Any) -> None:
            if self._mcp_is_being_built:
                constructor(self, *args, **kwargs)
                return
            self._mcp_is_being_built = True
            try:
                constructor(self, *args, **kwargs)
            finally:
                self._mcp_is_being_built = False
            self._load_what_waits()

        return constructed

    def _load_what_waits(self) -> None:
        """Connect the servers of the configuration, where `__init__` left that to the end of the constructors."""
        if self._mcp_waits_to_load and self._uses_servers:
            before = set(self._mcp_manager.list_servers())
            self.load_mcp_servers_from_config()
            self._mcp_loaded |= set(self._mcp_manager.list_servers()) - before

    @property
    def _uses_servers(self) -> bool:
        """Whether there may be servers: agents of GAIA set `_mcp_manager` to `None` to do without them."""
        return getattr(self, "_mcp_manager", None) is not None

    @cached_property
    def _mcp_manager(self) -> MCPClientManager:
        """The connections; made on first use, because a base class may leave out our `__init__`."""
        debug = getattr(self, "_mcp_debug", False) or getattr(self, "debug", False)
        manager = MCPClientManager(debug=bool(debug), owner=self)
        manager.own_id = self._mcp_own_id
        return manager

    @cached_property
    def _mcp_own_id(self) -> str:
        return new_id() if getattr(self, "_mcp_republishes", False) else ""

    def get_mcp_republished(self) -> Republished | None:
        """Return the servers' tools, prompts and resources, to publish beside the agent's own; `None` if none are."""
        if not self._mcp_own_id:
            return None
        return Republished(self._agent_registry, lambda: self._mcp_manager, self._mcp_own_id)

    @cached_property
    def _mcp_tools(self) -> RegisteredTools:
        tools = RegisteredTools()
        weakref.finalize(self, tools.forget).atexit = False  # which may hold nothing that refers to the agent
        return tools

    @cached_property
    def _mcp_loaded(self) -> set[str]:
        """Servers that only the configuration asked for."""
        return set()

    def connect_mcp_server(self, name: str, config: dict[str, Any]) -> bool:
        """Connect to a server, remember it in the configuration file, and register its tools.

        A server that the configuration had brought already is taken over, or replaced if it was described otherwise.

        Args:
            name: What the server is called here; its tools become `mcp_<name>_<tool>`.
            config: `{"command": ..., "args": [...], "env": {...}}`, `{"url": ..., "headers": {...}}`, or
                `{"agent": <object or name>}` for an agent of this process: one that a bridge publishes, if it is a
                name. Where it is not published yet, it is connected as soon as it is.

        Returns:
            Whether it worked. `False` also if a server of that name is connected already. The reason is logged.

        Raises:
            ValueError: The configuration is no dictionary, or names no server.
        """
        check_server_config(config)
        if name in self._mcp_loaded:
            self._mcp_loaded.discard(name)
            if self._mcp_manager.config.get_server(name) == config and name in self.list_mcp_servers():
                return True
            self._forget_server(name)
        if _is_still_missing(config):
            self._connect_later(name, config)
            return False
        try:
            client = self._mcp_manager.add_server(name, config)
        except RuntimeError:
            return False  # the client has logged why
        except ValueError as error:
            logger.warning("MCP server '%s' is not added: %s", name, error)
            return False
        except _ENDS:
            raise
        except BaseException:
            # The boundary to somebody else's server: whatever its transport or the configuration's file raises.
            logger.exception("MCP server '%s' is not added", name)
            return False
        return self._register_or_forget(client)

    def _register_or_forget(self, client: MCPClient) -> bool:
        """Have the agent use a server that was just added; without it if that fails."""
        try:
            self._register_client(client)
        except _ENDS:
            raise
        except BaseException:
            # The boundary to somebody else's server, and to hooks of the agent's author.
            logger.exception("MCP server '%s' is not used: its tools cannot be registered", client.name)
            self._forget_server(client.name)
            return False
        self._rebuild_prompt()
        return True

    def load_mcp_servers_from_config(self) -> int:
        """Connect to all servers of the configuration that are not connected, and register their tools.

        Returns:
            How many servers are connected, with their tools registered.
        """
        self._mcp_waits_to_load = False
        for name, server in self._mcp_manager.config.to_start()[0].items():
            if _is_still_missing(server.entry) and not server.entry.get("disabled"):
                self._connect_later(name, server.entry)
        self._mcp_manager.load_from_config()
        clients = [
            client for name in self._mcp_manager.list_servers() if (client := self._mcp_manager.get_client(name))
        ]
        new = [client for client in clients if client not in self._mcp_tools]
        side_by_side(_list_tools, new)
        for client in new:
            self._register_client(client)
        if new:
            self._rebuild_prompt()
        self._print_mcp_load_summary()
        return len(clients)

    def get_mcp_status_report(self) -> list[dict[str, Any]]:
        """Return the state of each server that was to be connected; see `MCPClientManager.get_status_report`."""
        return self._mcp_manager.get_status_report() if self._uses_servers else []

    def _print_mcp_load_summary(self) -> None:
        """Show the state of the configured servers on the agent's console, if that is news (hook)."""
        summary = load_summary(self._mcp_manager.config, self._mcp_manager.get_status_report())
        if summary and summary != self._mcp_shown:
            self._mcp_shown = summary
            getattr(getattr(self, "console", None), "print_info", logger.info)(summary)

    def disconnect_mcp_server(self, name: str) -> None:
        """Disconnect a server, take away its tools, and remove it from the configuration file.

        Args:
            name: What the server is called here. An unknown name is a warning.

        Raises:
            ConfigError: The file cannot be changed; the server is disconnected all the same.
        """
        client = self.get_mcp_client(name)
        if client is None:
            logger.warning("MCP server '%s' is not connected; there is nothing to disconnect", name)
            return
        self._mcp_loaded.discard(name)
        self._unregister_mcp_tools(client)
        try:
            self._mcp_manager.remove_server(name)
        finally:
            self._rebuild_prompt()

    def on_mcp_replaced(self) -> None:
        """End the servers of an agent that `gaia-bridge --reload` has loaded anew, and whose calls are over."""
        for name in self._mcp_manager.list_servers() if self._uses_servers else ():
            self._forget_server(name)

    def list_mcp_servers(self) -> list[str]:
        """Return the names of the servers that are connected right now."""
        self._load_what_waits()
        return self._mcp_manager.list_servers()

    def get_mcp_client(self, name: str) -> MCPClient | None:
        """Return the client of a server, or `None`.

        Args:
            name: What the server is called here.
        """
        self._load_what_waits()
        return self._mcp_manager.get_client(name)

    def _register_mcp_tools(self, client: MCPClient) -> None:
        """Register the tools of a client, also when the server says that they changed (hook).

        An override may register entries with `self.tool_registry.register`, or write them into `_TOOL_REGISTRY`, where
        all agents have them; with `_mcp_server` in them, they are taken away with the server like all others.

        Args:
            client: The client, connected.
        """
        registry = self._agent_registry()
        for tool in client.list_tools():
            entry = tool.entry(client.name, self._tool_function(client, tool))
            self._mcp_tools.add(client, entry, registry)

    def _unregister_mcp_tools(self, client: MCPClient) -> None:
        """Remove the tools that this client registered, and no others (hook).

        Args:
            client: The client.
        """
        self._mcp_tools.remove(client, self._agent_registry())

    def _resolve_tool_name(self, tool_name: str) -> str | None:
        """Find the tool that a model means, which is often a little off.

        Upper and lower case, dashes and underscores are all the same, and of a server's tool the prefix `mcp_`, the
        server, or both may be missing.

        Args:
            tool_name: What the model wrote.

        Returns:
            A key of the registry; `None` if no tool is meant, or more than one could be, which is logged.
        """
        candidates = matching_tools(self._agent_registry().snapshot(), tool_name)
        if len(candidates) > 1:
            logger.error("tool name %r is ambiguous; it could be %s", tool_name, ", ".join(candidates))
        return candidates[0] if len(candidates) == 1 else None

    def _tool_function(self, client: MCPClient, tool: MCPTool) -> Any:
        """Return the function of a tool's entry, whose answers and failures are such as a model reads them."""
        call = client.create_tool_wrapper(tool)
        manager = self._mcp_manager  # and not the agent: what the registry holds must not keep it alive

        def function(**arguments: Any) -> Any:
            try:
                if not client.is_connected() and manager.get_client(client.name) is client:
                    client.connect()  # its process ended some time ago; a call is never made twice
                result: Any = call(**arguments)
            except Exception as error:
                # The boundary to somebody else's server: its failure is an answer that the model can act on.
                result = {"error": str(error) or type(error).__name__}
            if not is_object(result):
                return result
            if "error" in result:
                return wrapped_failure(result["error"], result)
            problem = failure_text(result)
            if problem is None:
                return wrapped_success(tool.name, result)
            if is_validation_error(problem):
                problem = client.explain_refusal(tool.name, problem, arguments)
            return wrapped_failure(problem, result)

        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = tool.description
        return function

    def _agent_registry(self) -> ToolRegistry:
        """Return the agent's own registry; a new one where no base class has made one."""
        registry = getattr(self, "tool_registry", None)
        if registry is None:
            registry = self.tool_registry = ToolRegistry(type(self).__name__)
        return registry

    def _register_client(self, client: MCPClient) -> None:
        this, client_ref = weakref.ref(self), weakref.ref(client)

        def refresh() -> None:
            agent, changed = this(), client_ref()
            if agent is not None and changed is not None:
                agent._refresh_client(changed)

        client.on_tools_changed(refresh)  # first: they may change while they are registered
        self._mcp_tools.register(client, client.name, self._agent_registry(), lambda: self._register_mcp_tools(client))

    def _refresh_client(self, client: MCPClient) -> None:
        """Register the tools of a server anew, as they changed; if it does not list them, the old ones stay."""
        try:
            client.fetch_tools()
        except (RuntimeError, TimeoutError) as error:
            logger.warning("MCP server '%s' changed its tools, but did not list them: %s", client.name, error)
            return
        registry = self._agent_registry()
        if self._mcp_tools.refresh(client, client.name, registry, lambda: self._register_mcp_tools(client)):
            self._rebuild_prompt()

    def _connect_later(self, name: str, config: dict[str, Any]) -> None:
        """Connect to an agent when it is there."""
        this = weakref.ref(self)

        def connect() -> None:
            if (agent := this()) is not None:
                agent.connect_mcp_server(name, config)

        logger.info("MCP server '%s' is connected as soon as agent '%s' is published", name, config["agent"])
        LOCAL_AGENTS.when_there(config["agent"], connect)

    def _forget_loaded_servers(self) -> None:
        for name in tuple(self._mcp_loaded):
            self._forget_server(name)
        self._mcp_loaded.clear()

    def _forget_server(self, name: str) -> None:
        """Disconnect a server, and leave it in the configuration file."""
        client = self._mcp_manager.get_client(name)
        if client is not None:
            self._unregister_mcp_tools(client)
            self._mcp_manager.disconnect_server(name)

    def _rebuild_prompt(self) -> None:
        for kind in ("tools", "prompts", "resources") if self._mcp_own_id else ():
            if (notify := getattr(self, f"notify_mcp_{kind}_changed", None)) is not None:
                notify()
        rebuild = getattr(self, "rebuild_system_prompt", None)
        if rebuild is not None:
            rebuild()


def _is_still_missing(config: object) -> bool:
    """Whether an entry names an agent that nobody publishes yet."""
    agent = config.get("agent") if is_object(config) else None
    return isinstance(agent, str) and LOCAL_AGENTS.get(agent) is None


def _list_tools(client: MCPClient) -> None:
    client.list_tools()
