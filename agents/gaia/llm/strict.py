"""OpenAI's strict mode: which tools it can be had for. Pure.

developers.openai.com/api/docs/guides/structured-outputs, "Supported schemas" and "Objects have limitations on nesting
depth and size". A strict tool that breaks one of these rules is refused, and the whole request with it; so what comes
near a limit is sent as it is without being strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["strict_form"]

MAX_PROPERTIES: Final = 5_000
"""Properties of all objects together."""
MAX_LEVELS: Final = 10
"""Levels of nesting. The rule does not say what counts as one; here every schema inside of another does."""
MAX_CHARACTERS: Final = 120_000
"""In all names of properties and definitions, and values of `enum` and `const`."""
MAX_VALUES: Final = 1_000
"""Values of all `enum` together."""
LARGE_ENUM: Final = 250
"""Values of one `enum` from which on its characters count, too."""
MAX_LARGE_ENUM: Final = 15_000
"""Characters in the values of such an `enum`."""

_KEYWORDS: Final = frozenset(
    {"type", "description", "enum", "const", "anyOf", "$ref", "$defs", "properties", "required", "items"}
    | {"additionalProperties", "pattern", "format", "minLength", "maxLength", "minimum", "maximum", "multipleOf"}
    | {"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
)
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})


class _NotStrictError(Exception):
    """The schema says something that strict mode cannot express."""


def strict_form(schema: JSON) -> JSON | None:
    """Return the schema with all objects closed, or `None` if it cannot be strict.

    Args:
        schema: Of an object; never changed.
    """
    try:
        closed = _closed(schema, level=0)
    except _NotStrictError:
        return None
    return closed if _is_within_limits(closed) else None


def _closed(schema: Any, level: int) -> JSON:
    if not is_object(schema) or not schema.keys() <= _KEYWORDS or level > MAX_LEVELS:
        raise _NotStrictError
    if "$ref" in schema:
        if schema.keys() != {"$ref"}:
            raise _NotStrictError
        return dict(schema)
    closed = dict(schema)
    kind = schema.get("type")
    types: list[Any] = kind if is_array(kind) else [kind]
    if "anyOf" in schema:
        closed["anyOf"] = [_closed(option, level + 1) for option in schema["anyOf"]]
        types = [] if kind is None else types
    if not {*types} <= _SCALARS | {"object", "array"}:
        raise _NotStrictError
    if "object" in types:
        closed |= _closed_object(schema, level)
    elif "properties" in schema:
        raise _NotStrictError
    if "array" in types or "items" in schema:
        closed["items"] = _closed(schema.get("items"), level + 1)
    if "$defs" in schema:
        closed["$defs"] = {name: _closed(part, level + 1) for name, part in schema["$defs"].items()}
    return closed


def _closed_object(schema: JSON, level: int) -> JSON:
    properties: JSON = schema.get("properties", {})
    if schema.get("additionalProperties", False) is not False or {*schema.get("required", ())} != properties.keys():
        raise _NotStrictError
    if not properties and level and "additionalProperties" not in schema:
        raise _NotStrictError  # an object of any properties; the one at the top takes no arguments
    facts: JSON = {"properties": {name: _closed(part, level + 1) for name, part in properties.items()}}
    if properties:
        facts["required"] = list(properties)
    return facts | {"additionalProperties": False}


def _is_within_limits(schema: JSON) -> bool:
    properties = characters = values = 0
    for part in _all_parts(schema):
        names = [*part.get("properties", {}), *part.get("$defs", {})]
        listed = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
        length = sum(len(str(value)) for value in listed)
        if len(listed) > LARGE_ENUM and length > MAX_LARGE_ENUM:
            return False
        properties += len(part.get("properties", {}))
        characters += length + sum(map(len, names))
        values += len(listed)
    return properties <= MAX_PROPERTIES and characters <= MAX_CHARACTERS and values <= MAX_VALUES


def _all_parts(schema: JSON) -> Iterator[JSON]:
    yield schema
    named = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    for part in [*named, *([schema["items"]] if "items" in schema else ())]:
        yield from _all_parts(part)
