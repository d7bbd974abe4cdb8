"""An agent that thinks with the tools of MCP servers ("MCPAgent")."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaia.agents.base.agent import Agent
from gaia.agents.base.tools import ToolEntry
from gaia.background_loop import BACKGROUND
from gaia.llm.model import ChatModel
from gaia.mcp.aio.limits import ManagerLimits
from gaia.mcp.aio.manager import MCPClientManager
from gaia.mcp.aio.results import answered
from gaia.mcp.client.mcp_tool import MCPTool, MCPToolError, free_name
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia.mcp.aio.servers import ServerTool

__all__ = ["MCPAgent", "ToolAgent"]

logger = logging.getLogger(__name__)

_SYSTEM_MESSAGE = "You are helpful, and you use your tools where they help."


class ToolAgent(Agent):
    """An agent with the tools of MCP servers, which it connects to at its first turn.

        agent = ToolAgent(mcp_config_path="mcp.json", model="qwen3", endpoint="http://localhost:11434/v1")
        print(await agent.chat("What time is it in Lisbon?"))
        await agent.cleanup()

    The tools are entries of `tool_registry`, under the names that they have in the manager. They come and go there with
    their servers.

    Args:
        system_message: What the model is told first.
        mcp_config_path: The configuration file of the servers.
        mcp_config: The same as a dictionary; then no file is read. Without either, the agent has its own tools only.
        mcp_limits: Deadlines of the servers.
        deferred_tools: Whether tools are searched for, however few there are.
        tool_threshold: From how many tools on they are searched for.
        session_timeout: Seconds without activity after which a session is stale.
        max_iterations: Answers of the model in one turn.
        model: What the model is called, or an object that is one.
        api_key: For the model's server.
        endpoint: The base URL of the model's server.
        **kwargs: For `Agent`.
    """

    mcp_manager: MCPClientManager | None
    """The connections; `None` for an agent without servers."""

    def __init__(
        self,
        *,
        system_message: str = _SYSTEM_MESSAGE,
        mcp_config_path: str | Path | None = None,
        mcp_config: Mapping[str, Any] | None = None,
        mcp_limits: ManagerLimits | None = None,
        deferred_tools: bool = False,
        tool_threshold: int = 15,
        session_timeout: float = 3600,
        max_iterations: int = 40,
        model: ChatModel | str | None = None,
        api_key: str | None = None,
        endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._mcp_lock = threading.Lock()
        self._mcp_registered: dict[str, tuple[ServerTool, ToolEntry]] = {}
        self._mcp_is_initialised = False
        self._mcp_cleanups = 0
        self.mcp_manager = None
        if mcp_config_path is not None or mcp_config is not None:
            self.mcp_manager = MCPClientManager(mcp_config_path or "mcp.json", mcp_config, limits=mcp_limits)
            self.mcp_manager.on_tools_changed(_refreshing(weakref.ref(self)))
        super().__init__(
            system_prompt=system_message,
            deferred_tools=deferred_tools,
            tool_threshold=tool_threshold,
            session_timeout=session_timeout,
            max_steps=max_iterations,
            model=model,
            api_key=api_key,
            base_url=endpoint,
            **kwargs,
        )

    async def init_mcp_servers(self) -> None:
        """Connect to the servers of the configuration, and register their tools. The first turn does it, too.

        Once is enough: another call does nothing, or waits for the one that is at it. Never raises because of a server;
        what goes wrong with one is logged.
        """
        if self.mcp_manager is None or self._mcp_is_initialised:
            return
        cleanups = self._mcp_cleanups
        await self.mcp_manager.connect_to_servers()
        self._mcp_is_initialised = cleanups == self._mcp_cleanups  # else the next turn connects to them
        self.refresh_mcp_tools()

    async def cleanup(self) -> None:
        """Disconnect all servers and take away their tools. The next turn would connect to them anew.

        Conversations stay; `close` ends everything.
        """
        if self.mcp_manager is None:
            return
        self._mcp_is_initialised = False
        self._mcp_cleanups += 1
        await self.mcp_manager.cleanup()
        self.refresh_mcp_tools()

    def close(self) -> None:
        """Disconnect all servers, and end what conversations hold. Optional."""
        if self.mcp_manager is not None:
            with BACKGROUND.acquire() as lease:
                lease.run(self.cleanup)
        super().close()

    async def _prepare_turn(self) -> None:
        """Connect to the servers before a turn, where that was not done."""
        await super()._prepare_turn()
        await self.init_mcp_servers()

    def refresh_mcp_tools(self) -> None:
        """Register the tools that the servers have now, and no others. Done by itself whenever they change."""
        if self.mcp_manager is None:
            return
        with self._mcp_lock:
            tools = self.mcp_manager.tools
            old, self._mcp_registered = self._mcp_registered, {}
            for name, tool in tools.items():
                self._keep_or_register(name, tool, old)
            for name, (_, entry) in old.items():
                if name not in self._mcp_registered and self.tool_registry.get(entry["name"]) is entry:
                    self.tool_registry.unregister(entry["name"])
            unchanged = list(old.items()) == list(self._mcp_registered.items())
        if not unchanged:
            self.rebuild_system_prompt()

    def _keep_or_register(self, name: str, tool: ServerTool, old: Mapping[str, tuple[ServerTool, ToolEntry]]) -> None:
        existing, entry = old.get(name, (None, None))
        if existing != tool or entry is None:
            key = str(entry["name"]) if entry is not None else self._free_key(name, tool)
            entry = self._entry(key, name, tool)
            if entry is None:
                return
            self.tool_registry.register(entry)
        self._mcp_registered[name] = tool, entry

    def _free_key(self, name: str, tool: ServerTool) -> str:
        """Return a key for the registry that none of the agent's own tools has."""
        if name not in self.tool_registry:
            return name
        key = free_name(tool.server.name, tool.name, self.tool_registry)
        logger.warning(
            "the agent has a tool '%s' of its own; that of MCP server '%s' is '%s'", name, tool.server.name, key
        )
        return key

    def _entry(self, key: str, name: str, tool: ServerTool) -> ToolEntry | None:
        assert self.mcp_manager is not None
        try:
            mcp_tool = MCPTool.from_definition(dict(tool.definition))
        except MCPToolError as problem:
            logger.warning("MCP server '%s': %s; it is left out", tool.server.name, problem)
            return None
        return {**mcp_tool.entry(tool.server.name, _calling(weakref.ref(self.mcp_manager), name)), "name": key}


MCPAgent = ToolAgent
"""GAIA's name for the class. The `MCPAgent` of `gaia.agents.base` is another one: it publishes tools."""


def _refreshing(agent_ref: weakref.ref[ToolAgent]) -> Callable[[], None]:
    """Return a listener to the manager's changes that does not keep the agent alive."""

    def refresh() -> None:
        if (agent := agent_ref()) is not None:
            agent.refresh_mcp_tools()

    return refresh


def _calling(manager_ref: weakref.ref[MCPClientManager], name: str) -> Callable[..., Any]:
    """Return the function of a tool's entry, which the process-wide registry has too: it keeps no connections open."""

    async def call(**arguments: Any) -> JSON:
        manager = manager_ref()
        if manager is None:
            raise ToolError("its agent is gone")
        return answered(await manager.call_tool(name, arguments))

    call.__name__ = call.__qualname__ = name
    return call
