"""The tools of an agent of the GAIA kind, which its own model calls, as tools of MCP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

from gaia_bridge.errors import ToolError
from gaia_bridge.sources.functions.collection import NOT_CONFIRMED
from gaia_bridge.sources.functions.typed_function import TypedFunction
from gaia_bridge.text.json_types import JSON, is_object

Chosen = bool | Collection[str]
"""A choice of the published tools: all, none, or those of these names."""


class RegistryTools:
    """A registry of tools with the methods of an agent.

    An entry is a dictionary: `name`, `description`, `parameters` or `inputSchema`, `function`, and if there are any
    `annotations` and `timeout`. Tools of MCP servers are not published: the bridge publishes servers by itself.

    Args:
        tools: Returns the entries of the moment by their keys. May block.
        confirm: Asks a person, given a tool's key and arguments, before a tool runs that declares itself destructive.
            `None` if nobody is to be asked.
    """

    def __init__(
        self,
        tools: Callable[[], Mapping[str, Any]],
        chosen: Chosen = True,
        confirm: Callable[[str, JSON], bool] | None = None,
    ) -> None:
        self._tools = tools
        self._chosen = chosen
        self._confirm = confirm

    @property
    def timeouts(self) -> Mapping[str, float]:
        """Seconds for one call, of the tools that state them."""
        seconds = {name: entry.get("timeout") for name, entry in self._published().items()}
        return {name: float(value) for name, value in seconds.items() if isinstance(value, int | float) and value > 0}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the definitions of the published tools."""
        return [_definition(name, entry) for name, entry in self._published().items()]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run a tool; the result may be an awaitable.

        Raises:
            ValueError: The tool is unknown.
            ToolError: The arguments do not fit, or nobody confirmed a destructive tool.
        """
        entry = self._tools().get(tool_name)
        if not self._is_published(entry, tool_name):
            raise ValueError(f"Unknown tool: {tool_name}")
        annotations = entry.get("annotations")
        is_destructive = is_object(annotations) and annotations.get("destructiveHint") is True
        if is_destructive and self._confirm is not None and not self._confirm(tool_name, dict(arguments)):
            raise ToolError(NOT_CONFIRMED.format(tool_name))
        function = entry["function"]
        return function.published(arguments) if isinstance(function, TypedFunction) else function(**arguments)

    def _published(self) -> dict[str, JSON]:
        return {name: entry for name, entry in self._tools().items() if self._is_published(entry, name)}

    def _is_published(self, entry: object, name: str) -> TypeGuard[JSON]:
        is_chosen = self._chosen if isinstance(self._chosen, bool) else name in self._chosen
        is_tool = is_object(entry) and callable(entry.get("function")) and "_mcp_server" not in entry
        return is_chosen and is_tool


def _definition(name: str, entry: Mapping[str, Any]) -> JSON:
    function = entry["function"]
    definition: JSON = {
        "name": name,
        "description": str(entry.get("description") or ""),
        "inputSchema": entry.get("inputSchema") or _schema(entry.get("parameters")),
    }
    if is_object(annotations := entry.get("annotations")) and annotations:
        definition["annotations"] = dict(annotations)
    if isinstance(function, TypedFunction) and function.output_schema is not None:
        definition["outputSchema"] = function.output_schema
    return definition


def _schema(parameters: object) -> JSON:
    """Return the JSON Schema of arguments, made of GAIA's `{name: {"type", "required", "description"}}`."""
    if not is_object(parameters):
        return {"type": "object", "properties": {}}
    if parameters.get("type") == "object":
        return dict(parameters)
    properties: dict[str, JSON] = {}
    required: list[str] = []
    for name, facts in parameters.items():
        schema = dict(facts) if is_object(facts) else {}
        if schema.pop("required", False) is True:
            required.append(name)
        if schema.get("type") in (None, "unknown"):
            schema.pop("type", None)
        properties[name] = {key: value for key, value in schema.items() if value not in (None, "")}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
