"""The base of agents that are published as MCP servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gaia.agents.base.agent import Agent
from gaia.agents.base.tool_class import validated
from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import ToolEntry
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.sources.agent.announcer import AnnouncesChanges
from gaia_bridge.sources.functions.collection import decorated_functions, has_decorated_members
from gaia_bridge.text.json_types import is_object

__all__ = ["MCPAgent"]


class MCPAgent(AnnouncesChanges, Agent, ABC):
    """Base class of agents that MCP clients such as an editor can use.

        class NotesAgent(MCPAgent):
            @tool
            def add_note(self, text: str) -> Note:
                '''Keep a note.'''

            @resource("notes://{name}")
            def note(self, name: str) -> str: ...

    Methods decorated with `tool`, `prompt`, `resource` and `completion` are what clients can use. They are implemented
    on the methods below, which an agent may write itself instead, where what it offers is not known before it runs, or
    as well. Of what it lists itself and what is decorated, two may not have one name.

    An agent that can also be used as a chat model is a `class X(MCPAgent, ApiAgent, Agent)`.

    Five more methods are recognised, each of them sync or async. They are not defined here, because a client is told
    that an agent can do these things exactly when the agent has the method (`gaia_bridge.contract`):

    - `get_mcp_prompt(name, arguments)`: fill in a prompt that `get_mcp_prompts` lists. Text, a list of messages, or
      an MCP prompt result.
    - `read_mcp_resource(uri)`: read a resource. Text, bytes, a JSON-serialisable value or an MCP result; `None` or
      `ResourceNotFoundError` if there is none.
    - `get_mcp_resource_templates()`: the URI templates that `read_mcp_resource` understands.
    - `complete_mcp_argument(ref, argument, value, context)`: suggest values for an argument being typed.
    - `get_mcp_skills()`: skills that the agent makes itself, as entries of SEP-2640.

    The folder `skills/` beside the agent's file is published as skills. `mcp_skills` in the class names another folder,
    or several; `False` is none.

    While a call runs, `get_request_context()` reports progress, logs to the client and asks its user. When what the
    agent offers changes, it says so with `notify_mcp_tools_changed()` and its siblings, from any thread.
    """

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        """List the tools that clients may call. Default: the decorated ones, which are published in any case.

        Returns:
            MCP tool definitions: `name` (lowercase with dashes), `description`, `inputSchema` (a JSON Schema of an
            object) and any other field of an MCP tool, such as `outputSchema` or `annotations`.
        """
        return _decorated_definitions(self)

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Run one tool. May be a coroutine function; a plain one runs in a thread and may block.

        Args:
            tool_name: One of the names in `get_mcp_tool_definitions`.
            arguments: The client's arguments, already validated against the tool's `inputSchema`.

        Returns:
            A JSON-serialisable dictionary, or MCP content (`gaia_bridge.content`). `{"error": "..."}` is a
            failure if it is alone, or beside `"success": False` or `"status": "error"`.

        Raises:
            ValueError: The tool is unknown: "Unknown tool: ...".
            ToolError: It failed in a way that the client's model should read about.
        """
        return _execute_decorated(self, tool_name, arguments)

    if not TYPE_CHECKING:
        # A class that neither implements them nor decorates anything offers nothing, and cannot be built. Type checkers
        # do not see what is decorated, and are told nothing of it.
        get_mcp_tool_definitions = abstractmethod(get_mcp_tool_definitions)
        execute_mcp_tool = abstractmethod(execute_mcp_tool)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        methods = (cls.get_mcp_tool_definitions, cls.execute_mcp_tool)
        if all(getattr(method, "__isabstractmethod__", False) for method in methods) and has_decorated_members(cls):
            cls.get_mcp_tool_definitions = _decorated_definitions  # type: ignore[assignment,method-assign]
            cls.execute_mcp_tool = _execute_decorated  # type: ignore[assignment,method-assign]

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        """List prompt templates: `name`, `description`, `arguments` as `{"name", "description", "required"}`.

        Default: none beside the decorated ones, which are published in any case.
        """
        return []

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        """List resources: `uri`, `name`, `description`, `mimeType`. Default: none beside the decorated ones."""
        return []

    def _model_tools(self) -> Mapping[str, ToolEntry]:
        """Return the tools for the agent's own model: those that clients may call, beside those of its registry."""
        described: list[Any] = self.get_mcp_tool_definitions()
        definitions = [item for item in described if is_object(item) and isinstance(item.get("name"), str)]
        entries = {str(item["name"]): self._own_entry(item) for item in definitions if is_model_visible(item)}
        return {**entries, **super()._model_tools()}

    def _own_entry(self, definition: dict[str, Any]) -> ToolEntry:
        name = str(definition["name"])
        schema: dict[str, Any] = definition.get("inputSchema") or {"type": "object"}

        def function(**arguments: Any) -> Any:
            return self.execute_mcp_tool(name, arguments)

        return {
            "name": name,
            "description": definition.get("description") or "",
            "parameters": flat_parameters(schema),
            "inputSchema": schema,
            "annotations": definition.get("annotations") or {},
            "function": validated(function, name, schema),
            "atomic": True,
        }

    def get_mcp_server_info(self) -> dict[str, Any]:
        """Say who the server is: `name` and `version`, and if you like `title`, `description`, `instructions`."""
        return {"name": f"GAIA {type(self).__name__}", "version": "2.0.0"}


def _decorated_definitions(agent: object) -> list[dict[str, Any]]:
    decorated = decorated_functions(agent)
    return [] if decorated is None else decorated.get_mcp_tool_definitions()


def _execute_decorated(agent: object, tool_name: str, arguments: dict[str, Any]) -> Any:
    decorated = decorated_functions(agent)
    if decorated is None:
        raise ValueError(f"Unknown tool: {tool_name}")
    return decorated.execute_mcp_tool(tool_name, arguments)
