"""Tools of MCP servers as tools of an agent ("Tool Creation", "Tool Wrapping")."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from gaia.agents.base.tool_class import Tool
from gaia.agents.base.tools import ToolEntry
from gaia.mcp.client.parallel import side_by_side
from gaia.mcp.toolset.client_manager import MCPClientManager
from gaia.mcp.toolset.mcp_config import ALL_SERVERS, MCPServerConfig, get_enabled_mcp_servers
from gaia.mcp.toolset.schema_converter import MCPSchemaConverter
from gaia_bridge.model import NamingPolicy, SourceKind
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.protocol.names import SourceName, assign_names, qualified_name
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["MCPToolWrapper", "create_mcp_tools"]

logger = logging.getLogger(__name__)


class MCPToolWrapper(Tool):
    """One tool of one MCP server. Calling it blocks its thread until the server has answered.

    Args:
        server_name: What the server is called here.
        tool_name: What the server calls the tool.
        tool_schema: The tool as the server lists it: `name`, `description`, `inputSchema`, `annotations`.
        client_manager: Reaches the server.
        converter: What schemas and results are converted with: a class or an object.
        name: What the model calls it; `<server>__<tool>` if not given, with a hash where providers would not accept
            that.
    """

    def __init__(
        self,
        server_name: str,
        tool_name: str,
        tool_schema: JSON,
        client_manager: MCPClientManager,
        converter: MCPSchemaConverter | type[MCPSchemaConverter] = MCPSchemaConverter,
        name: str | None = None,
    ) -> None:
        info = converter.extract_tool_info(tool_schema)
        annotations = tool_schema.get("annotations")
        super().__init__(
            name or qualified_name(_identity(server_name, tool_name), NamingPolicy.DOUBLE),
            info["description"],
            info["parameters"],
            annotations if is_object(annotations) else None,
        )
        self.server_name = server_name
        self.original_tool_name = tool_name
        self.client_manager = client_manager
        self.converter = converter

    def call(self, /, **kwargs: Any) -> str:
        """Call the tool on its server.

        Args:
            **kwargs: The model's arguments.

        Returns:
            The result as text. A failure of any kind is a text that begins with `Error:`, for the model to read.
        """
        try:
            result = self.client_manager.call_tool(
                server_name=self.server_name, tool_name=self.original_tool_name, arguments=kwargs
            )
            return self.converter.convert_tool_result(result)
        except Exception as error:  # the boundary: a model reads it, whatever it is
            logger.debug("MCP tool '%s' failed", self.name, exc_info=True)
            return f"Error: Error executing MCP tool '{self.name}': {str(error) or type(error).__name__}"

    def parameters_for(self, provider: str) -> JSON:
        """Return the parameters in a provider's dialect; for `openai` they are as the converter left them."""
        return self.parameters if provider == "openai" else super().parameters_for(provider)

    def entry(self) -> ToolEntry:
        """Return the tool as a registry entry with the server that it came from, so that it is displayed with that.

        Arguments are judged by the server, which may take more than the model was told of.
        """
        facts: ToolEntry = {"_mcp_server": self.server_name, "_mcp_tool_name": self.original_tool_name}
        return {**super().entry(), **facts, "function": self.call}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def create_mcp_tools(
    server_names: Sequence[str] | None = None,
    converter: MCPSchemaConverter | type[MCPSchemaConverter] = MCPSchemaConverter,
) -> list[MCPToolWrapper]:
    """Start servers and wrap their tools.

    Args:
        server_names: Which of the registered servers; all that are switched on if not given.
        converter: What schemas and results are converted with.

    Returns:
        The tools, server by server in the order of `ALL_SERVERS`. What is wrong with a server or a tool is logged, and
        only that is missing: a name that is not registered or switched off, a server that does not start, a tool in
        `allowed_tools` that the server does not have.

    Raises:
        TypeError: `server_names` is one text.
    """
    if isinstance(server_names, str):
        raise TypeError(f"server_names is the text {server_names!r}; expected a list of names: [{server_names!r}]")
    manager = MCPClientManager()
    configs = _chosen(server_names)
    started = side_by_side(lambda config: _start(manager, config), configs)
    tools = {
        _identity(config.name, definition["name"]): definition
        for config, running in zip(configs, started, strict=True)
        if running
        for definition in _allowed(config, manager.get_discovered_tools(config.name))
    }
    names, _ = assign_names(tools, NamingPolicy.DOUBLE)
    wrapped = (_wrapped(manager, tools[item], item, name, converter) for name, item in names.items())
    return [tool for tool in wrapped if tool is not None]


def _chosen(server_names: Iterable[str] | None) -> list[MCPServerConfig]:
    """Return the servers that are switched on and wanted, each name once."""
    enabled: dict[str, MCPServerConfig] = {}
    for config in get_enabled_mcp_servers():
        if config.name in enabled:
            logger.warning("MCP server '%s' is registered twice; the first one is used", config.name)
        enabled.setdefault(config.name, config)
    if server_names is None:
        return list(enabled.values())
    wanted = list(dict.fromkeys(server_names))
    switches = {config.name: config.env_var for config in ALL_SERVERS}
    for name in wanted:
        if name in enabled:
            continue
        if name in switches:
            logger.warning("MCP server '%s' is switched off; set %s=True for it, also in .env", name, switches[name])
        else:
            logger.warning("MCP server '%s' is not registered in ALL_SERVERS, which has %s", name, ", ".join(switches))
    return [config for config in enabled.values() if config.name in wanted]


def _start(manager: MCPClientManager, config: MCPServerConfig) -> bool:
    try:
        manager.start_client(
            name=config.name,
            transport=config.transport,
            command=config.command,
            args=config.args,
            env=config.env,
            url=config.url,
            headers=config.headers,
            timeout=config.timeout,
        )
    except Exception as error:  # also of somebody else's transport
        logger.error("%s; its tools are missing", error)
        return False
    return True


def _allowed(config: MCPServerConfig, definitions: list[JSON]) -> list[JSON]:
    """Return the tools that the configuration allows, but for those that MCP Apps keep from models."""
    offered = {definition["name"]: definition for definition in definitions}
    names = offered if config.allowed_tools is None else config.allowed_tools
    for name in names:
        if name not in offered:
            logger.warning(
                "MCP server '%s' has no tool %r, which allowed_tools names; it has %s",
                config.name,
                name,
                ", ".join(sorted(offered)) or "none",
            )
    return [tool for name, tool in offered.items() if name in names and is_model_visible(tool)]


def _wrapped(
    manager: MCPClientManager,
    definition: JSON,
    item: SourceName,
    name: str,
    converter: MCPSchemaConverter | type[MCPSchemaConverter],
) -> MCPToolWrapper | None:
    try:
        return MCPToolWrapper(item.source, item.name, definition, manager, converter, name)
    except Exception:  # of a converter of somebody else's
        logger.exception("tool %r of MCP server '%s' is left out", item.name, item.source)
        return None


def _identity(server_name: str, tool_name: str) -> SourceName:
    return SourceName(server_name, SourceKind.SERVER, tool_name)
