"""Definitions as MCP's own schema allows them: a strict client refuses a whole list for one that it does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.protocol.json_types import JSON, is_array, is_object

__all__ = ["repaired", "with_named_properties", "with_object_properties"]

_OPTIONAL: Final = frozenset(
    {
        "title",
        "description",
        "icons",
        "_meta",
        "annotations",
        "outputSchema",
        "execution",
        "arguments",
        "mimeType",
        "size",
    }
)
"""The optional fields of all kinds of definitions. None of them may be null; languages without "absent" write that."""


def repaired(kind: str, definition: Mapping[str, Any]) -> JSON:
    """The definition with what MCP's schema forbids put right, as far as it is clear what is meant.

    Args:
        kind: A key of `wire.LIST_FIELDS`.
        definition: The definition, unchecked. What is allowed, or unknown, stays as it is.
    """
    definition = _without_nulls(definition, _OPTIONAL)
    if is_object(annotations := definition.get("annotations")):
        definition["annotations"] = _without_nulls(annotations)
    if kind == "tool":
        definition["inputSchema"] = _object_schema(definition.get("inputSchema"))
    elif kind == "prompt" and is_array(arguments := definition.get("arguments")):
        definition["arguments"] = [_without_nulls(item) if is_object(item) else item for item in arguments]
    return definition


def with_named_properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tool with `properties` in its input schema, which MCP does not ask for: frameworks (mcpadapt, and with it
    smolagents) look into it unasked, and lose the whole list with one tool that has none."""
    schema: JSON = tool["inputSchema"]
    return tool if "properties" in schema else {**tool, "inputSchema": {**schema, "properties": {}}}


def with_object_properties(schema: object) -> Any:
    """The schema with objects for its properties' schemas: revisions before 2026-07-28 allow no `true` and `false`."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties) or not any(isinstance(s, bool) for s in properties.values()):
        return schema
    shown = {name: _as_object(inner) for name, inner in properties.items()}
    return {**schema, "properties": shown}


def _as_object(schema: object) -> object:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return schema


def _without_nulls(given: Mapping[str, Any], fields: frozenset[str] | None = None) -> JSON:
    return {
        name: value for name, value in given.items() if value is not None or (fields is not None and name not in fields)
    }


def _object_schema(schema: object) -> object:
    """A tool's input is described by the schema of an object. What describes something else is left as it is."""
    if schema is None:
        schema = {}
    if not is_object(schema):
        return schema
    repaired_schema: JSON = dict(schema)
    kind = schema.get("type")
    if kind is None:
        repaired_schema = {"type": "object", "properties": {}, **_without_nulls(schema, frozenset({"type"}))}
    elif is_array(kind) and "object" in kind:
        repaired_schema["type"] = "object"
    if "properties" in repaired_schema:
        repaired_schema["properties"] = _properties(repaired_schema["properties"])
    if "required" in repaired_schema and (required := _required(repaired_schema.pop("required"))) is not None:
        repaired_schema["required"] = required
    return repaired_schema


def _properties(properties: object) -> object:
    if properties is None or properties == []:  # what PHP makes of an empty map
        return {}
    if not is_object(properties):
        return properties
    anything: JSON = {}
    return {name: anything if schema is None else schema for name, schema in properties.items()}


def _required(required: object) -> object:
    """A list of names; nothing where it is the `true` of an old draft, or null."""
    if required is None or isinstance(required, bool):
        return None
    return [required] if isinstance(required, str) else required
