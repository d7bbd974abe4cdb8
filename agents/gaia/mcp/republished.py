"""The tools, prompts and resources of an agent's MCP servers, published beside the agent's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gaia.agents.base.tools import ToolRegistry
from gaia.mcp.client.mcp_client import MCPClient
from gaia.mcp.client.mcp_client_manager import MCPClientManager
from gaia.mcp.client.mcp_tool import registry_name
from gaia_bridge.calls.bridge_hops import came_through, passed
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, ResourceNotFoundError
from gaia_bridge.protocol.kinds import PROMPT, RESOURCE, TEMPLATE, DefinitionKind
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["Republished"]


class Republished:
    """An agent of its own, as far as the bridge can tell: its tools, prompts and resources are those of servers.

    Tools have the names that they have in the agent's registry, prompts are named alike, and resources keep their URIs.

    Args:
        registry: Gives the registry of the agent that the servers are for.
        manager: Gives the agent's connections.
        own: The id that requests to the servers say they have passed.
    """

    def __init__(self, registry: Callable[[], ToolRegistry], manager: Callable[[], MCPClientManager], own: str) -> None:
        self._registry = registry
        self._manager = manager
        self._own = own
        self._prompts: dict[str, tuple[MCPClient, str]] = {}
        self._places: dict[str, MCPClient] = {}
        self._templates: dict[str, MCPClient] = {}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the tools of all servers."""
        definitions: list[JSON] = []
        for name, entry in self._registry().snapshot().items():
            client = self._manager().get_client(str(entry.get("_mcp_server")))
            if client is None or not client.is_connected():
                continue
            tools = {tool.name: tool for tool in client.list_tools()}
            tool = tools.get(str(entry.get("_mcp_tool_name")))
            if tool is not None and tool.definition:
                definitions += self._without_loops({**tool.definition, "name": name})
        return definitions

    async def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Let the server of a tool run it."""
        entry = self._registry().get(tool_name) or {}
        client = self._client(str(entry.get("_mcp_server")), f"tool {tool_name}")
        params = {"name": str(entry["_mcp_tool_name"]), "arguments": arguments}
        return await self._relayed(client, "tools/call", params)

    def get_mcp_prompts(self) -> list[JSON]:
        """Return the prompts of all servers."""
        definitions: list[JSON] = []
        for client, definition in self._listed(PROMPT):
            name = registry_name(client.name, str(definition.get("name")))
            self._prompts[name] = client, str(definition.get("name"))
            definitions += self._without_loops({**definition, "name": name})
        return definitions

    async def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Let the server fill in a prompt."""
        client, original = self._prompts[name]
        return await self._relayed(client, "prompts/get", {"name": original, "arguments": arguments})

    def get_mcp_resources(self) -> list[JSON]:
        """Return the resources of all servers; of several at one URI, the first."""
        return self._addressed(RESOURCE, self._places)

    def get_mcp_resource_templates(self) -> list[JSON]:
        """Return the resource templates of all servers."""
        return self._addressed(TEMPLATE, self._templates)

    async def read_mcp_resource(self, uri: str) -> Any:
        """Let a server read a resource: the one that lists it, or else any that has templates."""
        listed_by = self._places.get(uri)
        for client in dict.fromkeys([listed_by] if listed_by else self._templates.values()):
            try:
                return await self._relayed(client, "resources/read", {"uri": uri})
            except ProtocolError:
                if listed_by is not None:
                    raise
        raise ResourceNotFoundError(uri)

    async def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> Any:
        """Let the server of a prompt or template suggest values."""
        if ref.get("type") == "ref/prompt":
            client, original = self._prompts[str(ref.get("name"))]
            ref = {**ref, "name": original}
        else:
            client = self._templates[str(ref.get("uri"))]
        params: JSON = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": context}
        result = await self._relayed(client, "completion/complete", params)
        return result.get("completion")

    def _client(self, server: str, what: str) -> MCPClient:
        client = self._manager().get_client(server)
        if client is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown {what}")
        return client

    def _listed(self, kind: DefinitionKind) -> list[tuple[MCPClient, JSON]]:
        offers: list[tuple[MCPClient, JSON]] = []
        for name in self._manager().list_servers():
            client = self._manager().get_client(name)
            if client is None:
                continue
            # A server without this list answers with an error.
            result = client.transport.send_request(kind.method).get("result")
            items = result.get(kind.field) if is_object(result) else None
            if is_array(items):
                offers += [(client, item) for item in items if is_object(item)]
        return offers

    def _addressed(self, kind: DefinitionKind, places: dict[str, MCPClient]) -> list[JSON]:
        places.clear()
        definitions: list[JSON] = []
        for client, definition in self._listed(kind):
            if (place := str(definition.get(kind.key))) not in places:
                places[place] = client
                definitions += self._without_loops(definition)
        return definitions

    def _without_loops(self, definition: JSON) -> list[JSON]:
        """Return a list of the definition as it is published; an empty one if it came from this agent itself."""
        return [] if self._own in came_through(definition) else [passed(definition, self._own)]

    async def _relayed(self, client: MCPClient, method: str, params: JSON) -> JSON:
        return await client.transport.relay(method, params, get_request_context().as_request())
