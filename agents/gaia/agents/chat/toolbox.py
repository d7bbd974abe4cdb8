"""The tools that a model may call, as a model's server wants them described, and back from the names it uses."""

from __future__ import annotations

import difflib
from collections.abc import Container, Mapping

from gaia.agents.base.tools import ToolEntry, matching_tools, parameters_of, tool_summary
from gaia_bridge.protocol.names import fitting_names
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["Toolbox", "function_schema"]

_SIMILAR = 5
"""Names that are suggested for one that is wrong."""


class Toolbox:
    """All tools that an agent has at one moment.

    A model's server accepts only some names. A tool that is called otherwise is offered under a name that fits.

    Args:
        entries: The tools by their names in the registry.
    """

    def __init__(self, entries: Mapping[str, ToolEntry]) -> None:
        self.entries = entries
        self._names = fitting_names(entries)
        self._keys = {name: key for key, name in self._names.items()}

    def schemas(self, offered: Mapping[str, ToolEntry], taken: Container[str] = ()) -> list[JSON]:
        """Describe some of the tools, or others, in OpenAI's shape, in the order given.

        Args:
            offered: What to describe; names that are not among the tools are used as they are.
            taken: Names that somebody else has: those are left out, as servers refuse two of the same name.
        """
        named = {self._names.get(key, key): entry for key, entry in offered.items()}
        return [function_schema(entry, name) for name, entry in named.items() if name not in taken]

    def find(self, name: str) -> str | None:
        """Return the key of the tool that a model means; `None` if there is none, or several could be meant."""
        if name in self._keys:
            return self._keys[name]
        candidates = matching_tools(self.entries, name)
        return candidates[0] if len(candidates) == 1 else None

    def similar(self, name: str) -> list[str]:
        """Names to suggest instead of one that leads to no tool."""
        candidates = matching_tools(self.entries, name) or difflib.get_close_matches(name, self.entries, _SIMILAR, 0.5)
        return [self._names[key] for key in candidates[:_SIMILAR]]


def function_schema(entry: ToolEntry, name: str | None = None) -> JSON:
    """Describe one tool in OpenAI's shape; its input schema is passed on as it is.

    Args:
        entry: The tool.
        name: What it is called there; its own name if not given.
    """
    function: JSON = {
        "name": name or entry["name"],
        "description": tool_summary(entry),
        "parameters": _schema_of(entry),
    }
    if entry.get("strict"):
        function["strict"] = True
    return {"type": "function", "function": function}


def _schema_of(entry: ToolEntry) -> JSON:
    for schema in (entry.get("inputSchema"), entry.get("parameters")):
        if is_object(schema) and (schema.get("type") == "object" or schema is entry.get("inputSchema")):
            return {"type": "object", "properties": {}, **schema}
    return _from_parameters(parameters_of(entry))


def _from_parameters(parameters: Mapping[str, JSON]) -> JSON:
    """Return the JSON Schema of parameters that were written by hand, as GAIA's documentation shows them."""
    properties = {
        name: {key: value for key, value in facts.items() if key != "required"} for name, facts in parameters.items()
    }
    required = [name for name, facts in parameters.items() if facts.get("required")]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
