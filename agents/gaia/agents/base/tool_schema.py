"""An object schema as a registry entry's `parameters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["flat_parameters"]

_MAX_REFERENCES = 8
"""How many `$ref` in a row are followed to name a type: a schema may refer to itself."""


def flat_parameters(schema: Mapping[str, Any]) -> dict[str, JSON]:
    """Flatten an object schema to a registry entry's `parameters` ("Tool Registration Pattern").

    Args:
        schema: An object schema.

    Returns:
        `{name: {"type": ..., "required": ..., "description": ...}}`; the type is the first that is not `null`,
        `string` where the schema names none.
    """
    required = schema.get("required", ())
    return {
        name: {
            "type": _type_name(facts, schema.get("$defs")),
            "required": name in required,
            "description": _description(facts),
        }
        for name, facts in schema.get("properties", {}).items()
    }


def _description(schema: object) -> str:
    return schema.get("description", "") if is_object(schema) else ""


def _type_name(schema: object, definitions: object) -> str:
    resolved = _resolved(schema, definitions)
    for option in (resolved, *resolved.get("anyOf", ())):
        declared = _resolved(option, definitions).get("type", ())
        for name in (declared,) if isinstance(declared, str) else declared:
            if name != "null":
                return str(name)
    return "string"


def _resolved(schema: object, definitions: object) -> JSON:
    """Return the schema at the end of a chain of references; `{}` if that is no object, as `true` and `false` are."""
    for _ in range(_MAX_REFERENCES):
        if not is_object(schema) or "$ref" not in schema:
            break
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = definitions.get(name) if is_object(definitions) else None
    return schema if is_object(schema) else {}
