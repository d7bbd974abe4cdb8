"""Repairs of common mistakes in definitions: a strict client refuses a whole list for one invalid definition. Pure."""

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
"""The optional fields of all kinds of definitions. MCP does not allow null in them, but servers often send it."""


def repaired(kind: str, definition: Mapping[str, Any]) -> JSON:
    """The definition without violations of MCP's schema, as far as its meaning is clear.

    Args:
        kind: A key of `vocabulary.LIST_FIELDS`.
        definition: The definition, unchecked. Valid and unknown fields are left unchanged.
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
    """The tool with `properties` in its input schema. They are optional in MCP, but some frameworks (mcpadapt, and
    with it smolagents) read them without checking, and lose the whole list because of one tool without them."""
    schema: JSON = tool["inputSchema"]
    return tool if "properties" in schema else {**tool, "inputSchema": {**schema, "properties": {}}}


def with_object_properties(schema: object) -> Any:
    """The schema with objects in place of boolean property schemas, which revisions before 2026-07-28 do not allow."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties) or not any(isinstance(s, bool) for s in properties.values()):
        return schema
    converted = {name: _as_object(inner) for name, inner in properties.items()}
    return {**schema, "properties": converted}


def _as_object(schema: object) -> object:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return schema


def _without_nulls(given: Mapping[str, Any], fields: frozenset[str] | None = None) -> JSON:
    return {
        name: value for name, value in given.items() if value is not None or (fields is not None and name not in fields)
    }


def _object_schema(schema: object) -> object:
    """The input schema, repaired so that it describes an object; returned unchanged if it describes something else."""
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
    if properties is None or properties == []:  # PHP encodes an empty map as an empty list
        return {}
    if not is_object(properties):
        return properties
    anything: JSON = {}
    return {name: anything if schema is None else schema for name, schema in properties.items()}


def _required(required: object) -> object:
    """A list of names; `None` for null and for a boolean, which draft 3 of JSON Schema used."""
    if required is None or isinstance(required, bool):
        return None
    return [required] if isinstance(required, str) else required
