"""Schemas for a provider that knows OpenAPI 3.0 and no more of JSON Schema: Gemini. Pure."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from gaia.llm.schema_walk import type_names
from gaia_bridge.text.json_types import JSON, is_array

__all__ = ["as_openapi"]

_ANYTHING: Final[list[JSON]] = [
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {"type": "string"}},
]
"""Any value, for a provider that needs a type."""


def as_openapi(schema: JSON, *, top: bool) -> None:
    """Write a schema with one type, or `anyOf` alone, and null as `nullable` (OpenAPI 3.0).

    Args:
        schema: A converted one, changed in place; its parts are so already.
        top: Whether it is the whole schema, which is an object anyway.
    """
    for part in (*schema.get("properties", {}).values(), schema.get("items", {})):
        if type_names(part) == ["null"]:
            part |= {"type": "string", "nullable": True}
    if not top:
        single = _single_typed(schema)
        schema.clear()
        schema.update(single)


def _single_typed(schema: JSON) -> JSON:
    kept = _worded_enum(schema)
    names, options = type_names(kept), _options(kept)
    if names == ["null"] and not options:
        return {"type": "null"}  # for whoever it is a part of
    if "null" in names or {"type": "null"} in options:
        kept["nullable"] = True
    names = [name for name in names if name != "null"]
    options = [option for option in options if option != {"type": "null"}]
    if len(names) == 1:
        # "When using any_of, it must be the only field set" (lambda-alpha-labs/Graphenium #37).
        others = {"anyOf", *(key for name, keys in _KEYWORDS.items() if name != names[0] for key in keys)}
        return {key: value for key, value in kept.items() if key not in others} | {"type": names[0]}
    if names:
        options = [_of_type(name, kept) for name in names]
    common: JSON = {key: kept[key] for key in ("description", "nullable") if key in kept}
    options = [{**option, **common} for option in options or deepcopy(_ANYTHING)]
    return options[0] if len(options) == 1 else {"anyOf": options}


_KEYWORDS: Final = {
    "object": ("properties", "required"),
    "array": ("items", "minItems", "maxItems"),
    "string": ("enum",),
}
"""The keywords that apply to one type only. Elsewhere they are refused ("required: only allowed for OBJECT type")."""


def _options(schema: JSON) -> list[JSON]:
    """Return the alternatives of a converted schema, nested ones included, in one list."""
    alternatives: list[JSON] = []
    for option in schema.get("anyOf", ()):
        alternatives += option["anyOf"] if "anyOf" in option else [option]
    return alternatives


def _of_type(name: str, schema: JSON) -> JSON:
    facts = {key: schema[key] for key in _KEYWORDS.get(name, ()) if key in schema}
    return {"type": name, **({"items": {"type": "string"}} if name == "array" else {}), **facts}


def _worded_enum(schema: JSON) -> JSON:
    """Keep an enum of texts ("enum: only allowed for STRING type", decolua/9router #380); describe any other."""
    values = schema.get("enum")
    schema = {key: value for key, value in schema.items() if key != "enum"}
    if not is_array(values):
        return schema
    if None in values:
        schema["nullable"] = True
    rest = [value for value in values if value is not None]
    if rest and all(isinstance(value, str) and value for value in rest) and "string" in type_names(schema):
        return schema | {"enum": rest}
    if not rest:
        return schema
    words = f"One of: {', '.join(map(repr, rest))}."
    description = schema.get("description")
    return schema | {"description": f"{description} {words}" if isinstance(description, str) and description else words}
