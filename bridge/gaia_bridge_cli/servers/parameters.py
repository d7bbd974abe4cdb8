"""A tool as its signature, and its parameters in one line each: what `gaia-bridge tools` makes of its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object

_TYPES: Final = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list",
    "object": "dict",
}  # fmt: skip

_SIGNATURE = 2_000
"""Characters of a signature."""

_VALUES = 30
"""How many values of an enumeration are shown."""

_KIND = 1_000
"""Characters of what a parameter may be."""

_TEXT = 160
"""Characters of what is said about it."""

_DEPTH = 3
"""How far references and lists in lists are followed; a schema may refer to itself."""


def signature(tool: JSON) -> str:
    """A tool as Python writes a function: `greet(name: str, loud: bool = False) -> str`.

    Args:
        tool: The definition of a tool, from anybody.
    """
    schema = tool.get("inputSchema")
    shown = ", ".join(_parameter(key, about, root, needed) for key, about, root, needed in _parameters(schema))
    output = tool.get("outputSchema")
    result = f" -> {_result(output)}" if is_object(output) else ""
    return one_line(f"{tool.get('name')}({shown}){result}", _SIGNATURE)


def parameter_lines(schema: object) -> list[str]:
    """The parameters of which something is said beside what they may be: what that is, and what they are for.

    Args:
        schema: The `inputSchema` of a tool, from anybody.
    """
    lines: list[str] = []
    for key, about, root, needed in _parameters(schema):
        text = one_line(str(about.get("description") or ""), _TEXT) if is_object(about) else ""
        if text:
            lines.append(f"{_parameter(key, about, root, needed)}  {text}")
    return lines


def _parameters(schema: object) -> Iterator[tuple[str, object, JSON, bool]]:
    """Each parameter: its name, its schema, the schema around it, and whether it is needed."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties):
        return
    required = schema.get("required")
    needed = required if is_array(required) else []
    for key, about in properties.items():
        yield key, resolved(about, schema), schema, key in needed


def _parameter(key: str, about: object, root: JSON, needed: bool) -> str:
    facts = about if is_object(about) else {}
    default = "" if needed else " = " + (one_line(_value(facts["default"]), _TEXT) if "default" in facts else "...")
    return f"{one_line(key)}: {one_line(_kind(about, root, _DEPTH), _KIND)}{default}"


def _result(schema: JSON) -> str:
    """The type of what a tool returns, as its function has it: a value that is no object is wrapped in one."""
    properties = schema.get("properties")
    if is_object(properties) and list(properties) == ["result"] and schema.get("required") == ["result"]:
        return _kind(properties["result"], schema, _DEPTH)
    return _kind(schema, schema, _DEPTH)


def _kind(schema: object, root: JSON, depth: int) -> str:
    """What a value may be, such as `str | None` or `"red" | "green"`."""
    schema = resolved(schema, root)
    if not is_object(schema) or not depth:
        return "Any"
    if "const" in schema:
        return _value(schema["const"])
    if is_array(values := schema.get("enum")):
        more = [f"and {len(values) - _VALUES} more"] if len(values) > _VALUES else []
        return _either([*(_value(value) for value in values[:_VALUES]), *more])
    for choice in ("anyOf", "oneOf"):
        if is_array(choices := schema.get(choice)) and choices:
            return _either(_kind(one, root, depth - 1) for one in choices[:_VALUES])
    kind = schema.get("type")
    if is_array(kind):
        return _either(_named(one, schema, root, depth) for one in kind)
    return _named(kind, schema, root, depth)


def _named(kind: object, schema: JSON, root: JSON, depth: int) -> str:
    if kind == "array" and "items" in schema:
        return f"list[{_kind(schema['items'], root, depth - 1)}]"
    if kind == "object" and is_object(values := schema.get("additionalProperties")) and values:
        return f"dict[str, {_kind(values, root, depth - 1)}]"
    return _TYPES.get(str(kind), "Any")


def _value(value: object) -> str:
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _either(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or "Never"


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
