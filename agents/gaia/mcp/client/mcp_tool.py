"""One tool of an MCP server, and how it looks in an agent's registry ("MCPTool")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import ToolEntry
from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import NamingPolicy, SourceKind
from gaia_bridge.protocol.names import SourceName, assign_names, qualified_name
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["MCPTool", "MCPToolError", "free_name", "registry_name"]

_EXTRAS: Final = ("enum", "default", "items")
"""Keywords of a parameter's schema beside its type and description that a model can make use of."""


class MCPToolError(ValueError):
    """A definition that is no tool: it is left out of the list, alone."""


@dataclass
class MCPTool:
    """A tool as its server describes it."""

    name: str
    """The server's own name for the tool."""
    description: str
    input_schema: dict[str, Any]
    """The JSON Schema of its arguments, as it came."""
    definition: JSON = field(default_factory=dict[str, Any], compare=False, repr=False)
    """All that the server says of it, as it came."""

    @property
    def annotations(self) -> JSON:
        """The server's hints on what the tool does, such as `{"destructiveHint": True}`; empty if there are none."""
        hints = self.definition.get("annotations")
        return hints if is_object(hints) else {}

    @classmethod
    def from_definition(cls, definition: object) -> MCPTool:
        """Read one item of a `tools/list` result.

        Args:
            definition: The item; a missing description or schema is an empty one.

        Raises:
            MCPToolError: It is no tool, or its schema is not one.
        """
        if not is_object(definition):
            raise MCPToolError(f"a tool is a {type(definition).__name__}; expected an object")
        name, description = definition.get("name"), definition.get("description")
        if not isinstance(name, str) or not name:
            raise MCPToolError("a tool has no name")
        schema: object = definition.get("inputSchema")
        if schema is None:
            return cls(name, description if isinstance(description, str) else "", {}, definition)
        if not is_object(schema):
            raise MCPToolError(f"tool {name!r}: its inputSchema is a {type(schema).__name__}; expected an object")
        try:
            SchemaValidator(schema)
        except SchemaError as error:
            raise MCPToolError(f"tool {name!r}: its inputSchema is no JSON Schema: {error}") from None
        return cls(name, description if isinstance(description, str) else "", schema, definition)

    def entry(self, server_name: str, function: Callable[..., Any]) -> ToolEntry:
        """Return the tool as a whole entry of a tool registry.

        Args:
            server_name: What the server is called here.
            function: Calls the tool.
        """
        entry = {**self.to_gaia_format(server_name), "inputSchema": self.input_schema, "function": function}
        if self.annotations:
            entry["annotations"] = self.annotations
        if "_meta" in self.definition:
            entry["_meta"] = self.definition["_meta"]
        return entry

    def to_gaia_format(self, server_name: str, raw_server_name: str | None = None) -> dict[str, Any]:
        """Describe the tool as an entry of a tool registry, without its `function`.

        Args:
            server_name: What the server is called here; or `MCPClient.prefix`, as GAIA's newer agents say it, if what
                it is called comes behind.
            raw_server_name: What the server is called here, if that is not the first.

        Returns:
            `name` (`mcp_<server>_<tool>`, see `registry_name`), `description` with the server in front, `parameters`
            as `{name: {"type", "required", "description"}}` with `enum`, `default` and `items` where the schema has
            them, `atomic`, `_mcp_server` and `_mcp_tool_name`.
        """
        return {
            "name": registry_name(server_name, self.name),
            "description": f"[MCP:{server_name}] {self.description}",
            "parameters": _parameters(self.input_schema),
            "atomic": True,
            "_mcp_server": server_name if raw_server_name is None else raw_server_name,
            "_mcp_tool_name": self.name,
        }


def registry_name(server_name: str, tool_name: str) -> str:
    """Return the key of a server's tool in a registry: `mcp_<server>_<tool>`.

    It has at most 64 characters of `[A-Za-z0-9_-]`, which is what model providers accept; where something had to be
    changed for that, it ends in a hash.
    """
    return qualified_name(SourceName(server_name, SourceKind.SERVER, tool_name), NamingPolicy.GAIA)


def free_name(server_name: str, tool_name: str, taken: Iterable[str]) -> str:
    """Return a name for a server's tool that is none of those that are taken: `<server>__<tool>`, or with a hash."""
    others = (SourceName("", SourceKind.AGENT, name) for name in taken)
    tool = SourceName(server_name, SourceKind.SERVER, tool_name)
    return next(reversed(assign_names([*others, tool], NamingPolicy.DEFAULT)[0]))


def _parameters(schema: Mapping[str, Any]) -> dict[str, JSON]:
    parameters = flat_parameters(schema)
    for name, facts in schema.get("properties", {}).items():
        if is_object(facts):
            parameters[name] |= {extra: facts[extra] for extra in _EXTRAS if extra in facts}
    return parameters
