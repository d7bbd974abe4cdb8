"""What providers of language models refuse in a tool's parameters, written down a second time, as checks.

Nothing here comes from `gaia.llm`: the sentences are those of the providers' documentation and error messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema_rs import meta

from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["violations"]

TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def violations(provider: str, schema: Any) -> list[str]:
    """What a provider would refuse, one line each with its place; none if it takes the schema."""
    if not is_object(schema) or schema.get("type") != "object":
        return ["the top is not of type object"]
    found = [
        f"at the top: {key}" for key in ("oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref") if key in schema
    ]
    return found + list(CHECKS[provider](schema))


def _nodes(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every schema, by the keywords that hold schemas."""
    yield place, schema
    if not is_object(schema):
        return
    for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, part in schema.get(key, {}).items():
            yield from _nodes(part, f"{place}/{key}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, part in enumerate(schema.get(key, [])):
            yield from _nodes(part, f"{place}/{key}/{index}")
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        if key in schema and not (key in ("additionalProperties", "items") and isinstance(schema[key], bool)):
            yield from _nodes(schema[key], f"{place}/{key}")


def _types(schema: JSON) -> list[Any]:
    kind: Any = schema.get("type", [])
    return [kind] if isinstance(kind, str) else kind


def _dangling(schema: Any) -> Iterator[str]:
    for place, part in _nodes(schema):
        reference = part.get("$ref", "#") if is_object(part) else "#"
        name = reference.removeprefix("#/$defs/")
        if reference != "#" and (name == reference or name not in schema.get("$defs", {})):
            yield f"{place}: {reference} leads nowhere"


OPENAI_KEYS = {
    *("type", "description", "enum", "const", "default", "anyOf", "$ref", "$defs"),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "multipleOf",
}
OPENAI_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def _openai(schema: Any) -> Iterator[str]:
    yield from _dangling(schema)
    for place, part in _nodes(schema):
        if not is_object(part):
            yield f"{place}: {part!r} is no schema object"
            continue
        yield from (f"{place}: '{key}' is not permitted" for key in part.keys() - OPENAI_KEYS)
        if part.get("format", "date") not in OPENAI_FORMATS:
            yield f"{place}: {part['format']!r} is not a valid format"
        if any(look in re.sub(r"\\.", "", part.get("pattern", "")) for look in ("(?=", "(?!", "(?<=", "(?<!")):
            yield f"{place}: regex lookaround is not supported"
        if "array" in _types(part) and "items" not in part:
            yield f"{place}: array schema missing items"
    if schema.get("additionalProperties") is False:
        yield from _openai_strict(schema)


def _openai_strict(schema: JSON) -> Iterator[str]:
    """Structured outputs: "All fields must be required", "additionalProperties: false must always be set"."""
    parts = [(place, part) for place, part in _nodes(schema) if is_object(part)]
    for place, part in parts:
        if "default" in part:
            yield f"{place}: 'default' is not permitted"
        if "$ref" in part and len(part) > 1:
            yield f"{place}: $ref cannot have keywords {set(part) - {'$ref'}}"
        if not part.keys() & {"type", "anyOf", "$ref"}:
            yield f"{place}: schema must have a 'type' key"
        if "object" not in _types(part):
            continue
        if part.get("additionalProperties") is not False:
            yield f"{place}: 'additionalProperties' is required to be supplied and to be false"
        if set(part.get("required", [])) != set(part.get("properties", {})):
            yield f"{place}: 'required' is required to include every key in properties"
    yield from _openai_limits(schema, [part for _, part in parts])


def _openai_limits(schema: JSON, parts: list[JSON]) -> Iterator[str]:
    """Structured outputs: "Objects have limitations on nesting depth and size"."""
    names = [name for part in parts for key in ("properties", "$defs") for name in part.get(key, {})]
    enums = [[str(value) for value in part["enum"]] for part in parts if "enum" in part]
    characters = sum(map(len, names)) + sum(len(value) for enum in enums for value in enum)
    characters += sum(len(str(part["const"])) for part in parts if "const" in part)
    facts = {
        "properties": (sum(len(part.get("properties", {})) for part in parts), 5_000),
        "characters": (characters, 120_000),
        "enum values": (sum(map(len, enums)), 1_000),
        "characters of a large enum": (max([sum(map(len, enum)) for enum in enums if len(enum) > 250] or [0]), 15_000),
        "levels of nesting": (_levels(schema), 10),
    }
    yield from (f"{count} {what} exceeds limit of {limit}" for what, (count, limit) in facts.items() if count > limit)


def _levels(schema: JSON) -> int:
    """Objects and arrays inside of each other, the top being none."""
    parts = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    inner = [1 + _levels(part) for part in parts if part.keys() & {"properties", "items", "anyOf"}]
    return max([*inner, *(map(_levels, schema.get("anyOf", []))), *map(_levels, schema.get("$defs", {}).values()), 0])


def _ollama(schema: Any) -> Iterator[str]:
    """`api/types.go`: what ToolFunction and ToolProperty have fields for, and the types of those."""
    for place, part in _nodes(schema):
        if not is_object(part):
            yield f"{place}: cannot unmarshal {part!r} into a struct"
            continue
        known = {"type", "description", "enum", "items", "properties", "required", "anyOf"}
        yield from (f"{place}: '{key}' is lost" for key in part.keys() - known)
        if not isinstance(part.get("enum", []), list) or not isinstance(part.get("properties", {}), dict):
            yield f"{place}: cannot unmarshal"
        if any(not isinstance(name, str) for name in _types(part)):
            yield f"{place}: cannot unmarshal the type"


def _anthropic(schema: Any) -> Iterator[str]:
    """JSON Schema 2020-12; "Property keys should match pattern"."""
    yield from _dangling(schema)
    if not meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}):
        yield "JSON schema is invalid. It must match JSON Schema draft 2020-12"
    for name in schema["properties"]:
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield f"Property keys should match pattern: {name!r}"
    for place, part in _nodes(schema):
        if is_object(part) and "patternProperties" in part:
            yield f"{place}: patternProperties"


GEMINI_KEYS = {
    *("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required"),
    *("minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering"),
    *("default", "items", "minimum", "maximum"),
}
GEMINI_FORMATS: dict[str, set[str]] = {
    "string": {"date-time", "enum"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}


def _gemini(schema: Any) -> Iterator[str]:
    for place, part in _nodes(schema):
        if not is_object(part):
            yield f"{place}: {part!r} is no schema"
            continue
        yield from (f"{place}: Unknown name '{key}'" for key in part.keys() - GEMINI_KEYS)
        if "anyOf" not in part:
            yield from (f"{place}: {problem}" for problem in _gemini_typed(part))
        elif len(part) > 1:
            yield f"{place}: When using any_of, it must be the only field set, got {sorted(part)}"


def _gemini_typed(part: JSON) -> Iterator[str]:
    kind: Any = part.get("type")
    if kind not in TYPES - {"null"}:
        yield f"type {kind!r}"
    if "format" in part and part["format"] not in GEMINI_FORMATS.get(kind, set()):
        yield f"format {part['format']!r} of {kind}"
    if "enum" in part and (kind != "string" or not all(isinstance(v, str) and v for v in part["enum"])):
        yield "enum: only allowed for STRING type"
    if kind == "array" and "items" not in part:
        yield "items: missing field"
    if "required" in part and kind != "object":
        yield "required: only allowed for OBJECT type"
    missing = set(part.get("required", ())) - set(part.get("properties", {}))
    yield from (f"required: {name}: property is not defined" for name in missing)


CHECKS: dict[str, Callable[[Any], Iterator[str]]] = {
    "openai": _openai,
    "ollama": _ollama,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
