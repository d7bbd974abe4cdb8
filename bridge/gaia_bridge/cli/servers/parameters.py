"""The parameters of a tool in one line each: what `gaia-bridge tools` makes of its `inputSchema`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.sanitize.escaping import one_line

__all__ = ["parameter_lines", "resolved"]

_VALUES = 30
"""How many values of an enumeration are shown."""

_KIND = 1_000
"""Characters of what a parameter may be."""

_TEXT = 160
"""Characters of what is said about it."""

_DEPTH = 3
"""How far references and lists in lists are followed; a schema may refer to itself."""


def parameter_lines(schema: object) -> list[str]:
    """What each parameter may be, whether it can be left out, and what it is for.

    Args:
        schema: The `inputSchema` of a tool, from anybody.
    """
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties):
        return []
    required = schema.get("required")
    needed = required if is_array(required) else []
    return [_line(key, resolved(about, schema), schema, key in needed) for key, about in properties.items()]


def _line(key: str, about: object, root: JSON, needed: bool) -> str:
    facts = about if is_object(about) else {}
    default = f", default {json.dumps(facts['default'])}" if "default" in facts else ""
    optional = "" if needed else f" (optional{one_line(default, _TEXT)})"
    line = f"{one_line(key)}: {one_line(_kind(about, root, _DEPTH), _KIND)}{optional}"
    text = one_line(str(facts.get("description") or ""), _TEXT)
    return f"{line}  {text}" if text else line


def _kind(schema: object, root: JSON, depth: int) -> str:
    """What a value may be, such as `string | null` or `"red" | "green"`."""
    schema = resolved(schema, root)
    if not is_object(schema) or not depth:
        return "any"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if is_array(values := schema.get("enum")):
        more = [f"and {len(values) - _VALUES} more"] if len(values) > _VALUES else []
        return _either([*(json.dumps(value, ensure_ascii=False) for value in values[:_VALUES]), *more])
    for choice in ("anyOf", "oneOf"):
        if is_array(choices := schema.get(choice)) and choices:
            return _either(_kind(one, root, depth - 1) for one in choices[:_VALUES])
    kind = schema.get("type")
    if is_array(kind):
        return _either(str(one) for one in kind)
    if kind == "array" and "items" in schema:
        items = _kind(schema["items"], root, depth - 1)
        return f"array of {f'({items})' if ' | ' in items else items}"
    return str(kind or "any")


def _either(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or "nothing"


def resolved(schema: object, root: JSON) -> object:
    """What a reference within the schema leads to, with what stands beside the reference."""
    for _ in range(_DEPTH):
        if not is_object(schema) or not isinstance(reference := schema.get("$ref"), str):
            break
        found: object = root
        for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if is_object(found) else None
        if not is_object(found):
            break
        schema = found | {key: value for key, value in schema.items() if key != "$ref"}
    return schema
