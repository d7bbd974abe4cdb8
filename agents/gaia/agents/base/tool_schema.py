"""What a function's signature and docstring say about a tool: its JSON Schema, its parameters, its description."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from gaia_bridge.protocol.json_types import JSON, is_object

__all__ = ["flat_parameters", "input_schema", "split_docstring"]

_ARGS_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)$")

_MAX_REFERENCES = 8
"""How many `$ref` in a row are followed to name a type: a schema may refer to itself."""


def input_schema(function: Callable[..., Any], name: str) -> JSON:
    """Derive the JSON Schema of a function's arguments from its type hints.

    Parameters without a default are required. A description comes from `Annotated[..., Field(description=...)]`, else
    from the docstring's Google-style `Args:` section. A default that JSON cannot carry is left out.

    Args:
        function: What is called when the tool is used; async functions and bound methods too.
        name: The tool's name, for error messages.

    Returns:
        An object schema as MCP wants it in `inputSchema`.

    Raises:
        TypeError: The function cannot be called with a JSON object of named arguments.
    """
    from gaia.agents.base.argument_schema import SCHEMA_ERRORS, argument_schema  # pydantic is slow to load

    _require_named_arguments(function, name)
    try:
        schema = argument_schema(function)
    except SCHEMA_ERRORS as problem:
        reason = str(problem).splitlines()[0]
        raise TypeError(
            f"tool {name!r} has no JSON Schema: {reason} (annotate its parameters with types that JSON can carry, "
            "defined at the top level of a module)"
        ) from problem
    described = split_docstring(inspect.getdoc(function) or "")[1]
    for parameter, facts in schema["properties"].items():
        if parameter in described:
            facts.setdefault("description", described[parameter])
    return schema


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Take the Google-style `Args:` section out of a docstring.

    Args:
        text: The docstring, dedented as `inspect.getdoc` returns it.

    Returns:
        The text without that section, and the section's descriptions by parameter name.
    """
    section = _ARGS_SECTION.search(text)
    if section is None:
        return text.strip(), {}
    rest = text[: section.start()].rstrip() + "\n\n" + text[section.end() :].lstrip("\n")
    return rest.strip(), _argument_descriptions(inspect.cleandoc("\n" + section[1]))


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


def _require_named_arguments(function: Callable[..., Any], name: str) -> None:
    if not isinstance(function, FunctionType | MethodType):
        raise TypeError(f"tool {name!r} is a {type(function).__name__}; expected a Python function or a bound method")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            raise TypeError(
                f"tool {name!r} is a method without its object; register the bound method instead: "
                f"`tool(self.{name})` inside `_register_tools`"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise TypeError(
                f"tool {name!r} takes {parameter.name!r} by position, but tools are called with named arguments only"
            )


def _argument_descriptions(section: str) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    current = ""
    for line in section.splitlines():
        if found := _ARGUMENT.match(line):
            current = found[1]
            descriptions[current] = found[2].strip()
        elif current and line[:1].isspace():
            descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
        elif line:
            current = ""
    return descriptions


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
    """What a chain of references leads to. `{}` for what is no object: `true` and `false` are schemas too."""
    for _ in range(_MAX_REFERENCES):
        if not is_object(schema) or "$ref" not in schema:
            break
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = definitions.get(name) if is_object(definitions) else None
    return schema if is_object(schema) else {}
