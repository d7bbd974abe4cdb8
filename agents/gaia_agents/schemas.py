"""Words for writing JSON Schema (2020-12) briefly."""

from __future__ import annotations

from typing import Any

from gaia_bridge.text.json_types import JSON

__all__ = ["COUNT", "FLAG", "LINE", "READ_ONLY", "STRING", "about", "array_of", "closed_object", "or_null"]

COUNT: JSON = {"type": "integer", "minimum": 0}
FLAG: JSON = {"type": "boolean"}
LINE: JSON = {"type": "integer", "minimum": 1}
STRING: JSON = {"type": "string"}
READ_ONLY: JSON = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
"""The annotations of a tool that only looks, and only at this computer."""


def about(schema: JSON, description: str, **more: Any) -> JSON:
    """Return `schema` with a description and further keywords."""
    return {**schema, "description": description, **more}


def array_of(items: JSON) -> JSON:
    """Return an array whose items are all of one schema."""
    return {"type": "array", "items": items}


def closed_object(properties: JSON, *, optional: tuple[str, ...] = ()) -> JSON:
    """Return an object with no other properties, in which everything but `optional` is required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def or_null(schema: JSON) -> JSON:
    """Return `schema` with null as another value."""
    return {"anyOf": [schema, {"type": "null"}]}
