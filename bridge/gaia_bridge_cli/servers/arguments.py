"""Shows a tool's parameters in one line each, as `gaia-bridge tools` does, and parses the arguments that users type.

Arguments are one JSON object, or `key=value` words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, RepeatedKeyError, is_array, is_object, unique_keys

_TEXT: Final = "string"

_EXAMPLES: Final = {"array": "'[1, 2]'", "boolean": "true", "integer": "1", "number": "1.5", "object": """'{"a": 1}'"""}
"""Examples of typed values of these types, as words that a shell leaves whole."""


class ArgumentsError(ValueError):
    """Words that are no arguments; the text quotes them and says what was expected."""


def tool_arguments(words: Sequence[str], schema: Mapping[str, Any]) -> JSON:
    """Parse the words after a tool's name.

    A value is parsed by the tool's schema: `count=3` is a number where the schema has a number, and a text where it has
    a text. Without a type in the schema, a value that is valid JSON is taken as JSON, and any other as text.
    `key:=value` is JSON whatever the schema says.

    Args:
        words: One JSON object, or any number of `key=value` and `key:=JSON`.
        schema: The tool's `inputSchema`. Only a help for parsing: the server validates the arguments.

    Raises:
        ArgumentsError: The words are neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0])
    properties = schema.get("properties")
    if not is_object(properties):
        properties = {}
    arguments: JSON = {}
    for word in words:
        key, sign, text = word.partition("=")
        raw = key.endswith(":")
        key = key.removesuffix(":") if raw else key
        if not sign or not key:
            expected = 'expected key=value, key:=JSON, or one JSON object: {"a": 1}'
            raise ArgumentsError(f"{one_line(repr(word), 80)} is no argument; {expected}")
        if key in arguments:
            raise ArgumentsError(f"{key!r} is there twice; a list is one argument, in JSON: {key}={_EXAMPLES['array']}")
        arguments[key] = _json(key, text) if raw else _value(key, text, _types(properties.get(key)))
    return arguments


def _object(text: str) -> JSON:
    try:
        value: object = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"the arguments are not valid JSON: {error}") from None
    if not is_object(value):
        raise ArgumentsError("the arguments are not a JSON object")
    return value


def _value(key: str, text: str, types: frozenset[str]) -> Any:
    if types == frozenset((_TEXT,)):
        return text
    try:
        value: object = json.loads(text, object_pairs_hook=unique_keys)
    except RepeatedKeyError as error:
        raise ArgumentsError(f"the value of {key}= is not clear: {error}") from None
    except (ValueError, RecursionError):
        if _TEXT in types or not types:
            return text
        wanted = sorted(types)
        examples = " or ".join(f"{key}={_EXAMPLES[name]}" for name in wanted if name in _EXAMPLES)
        problem = f"{key}={one_line(repr(text), 80)} is not what the tool takes: {' or '.join(wanted)}"
        raise ArgumentsError(f"{problem}; write {examples}" if examples else problem) from None
    # `id=007` is no JSON and `id=7` is: both are texts where texts are allowed and numbers are not.
    return text if types and _TEXT in types and _type_of(value).isdisjoint(types) else value


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"the value of {key}:= is not valid JSON: {error}") from None


def _types(schema: object) -> frozenset[str]:
    """Return the JSON types that a property allows, as far as its own schema names them."""
    if not is_object(schema):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if is_array(declared):
        return frozenset(name for name in declared if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        if is_array(choices := schema.get(key)):
            kinds = [_types(choice) for choice in choices]
            return frozenset[str]().union(*kinds) if all(kinds) else frozenset()
    enum = schema.get("enum")
    if is_array(enum):
        return frozenset[str]().union(*(_type_of(value) for value in enum))
    return frozenset()


def _type_of(value: object) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number", "integer"} if value.is_integer() else {"number"})
        case str():
            return frozenset({_TEXT})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


_TYPES: Final = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list",
    "object": "dict",
}  # fmt: skip

_SIGNATURE = 2_000
"""Characters of a signature."""

_VALUES = 30
"""The most values of an enumeration that are shown."""

_KIND = 1_000
"""Characters of a parameter's type."""

_TEXT_LENGTH = 160
"""Characters of a parameter's description."""

_DEPTH = 3
"""The number of references and nested lists that are followed; a schema may refer to itself."""


def signature(tool: JSON) -> str:
    """Return a tool as a signature in Python: `greet(name: str, loud: bool = False) -> str`.

    Args:
        tool: The definition of a tool; it may be malformed.
    """
    schema = tool.get("inputSchema")
    shown = ", ".join(_parameter(key, about, root, needed) for key, about, root, needed in _parameters(schema))
    output = tool.get("outputSchema")
    result = f" -> {_result(output)}" if is_object(output) else ""
    return one_line(f"{tool.get('name')}({shown}){result}", _SIGNATURE)


def parameter_lines(schema: object) -> list[str]:
    """Return a line for each parameter that has a description: its type, and the description.

    Args:
        schema: The `inputSchema` of a tool; it may be malformed.
    """
    lines: list[str] = []
    for key, about, root, needed in _parameters(schema):
        text = one_line(str(about.get("description") or ""), _TEXT_LENGTH) if is_object(about) else ""
        if text:
            lines.append(f"{_parameter(key, about, root, needed)}  {text}")
    return lines


def _parameters(schema: object) -> Iterator[tuple[str, object, JSON, bool]]:
    """Yield each parameter: its name, its schema, the schema around it, and whether it is required."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties):
        return
    required = schema.get("required")
    needed = required if is_array(required) else []
    for key, about in properties.items():
        yield key, resolved(about, schema), schema, key in needed


def _parameter(key: str, about: object, root: JSON, needed: bool) -> str:
    facts = about if is_object(about) else {}
    default = ""
    if not needed:
        default = f" = {one_line(_shown_value(facts['default']), _TEXT_LENGTH) if 'default' in facts else '...'}"
    return f"{one_line(key)}: {one_line(_kind(about, root, _DEPTH), _KIND)}{default}"


def _result(schema: JSON) -> str:
    """Return the type of a tool's result, as its function has it: a value that is no object is wrapped in one."""
    properties = schema.get("properties")
    if is_object(properties) and list(properties) == ["result"] and schema.get("required") == ["result"]:
        return _kind(properties["result"], schema, _DEPTH)
    return _kind(schema, schema, _DEPTH)


def _kind(schema: object, root: JSON, depth: int) -> str:
    """Return the type of a value, such as `str | None` or `"red" | "green"`."""
    schema = resolved(schema, root)
    if not is_object(schema) or not depth:
        return "Any"
    if "const" in schema:
        return _shown_value(schema["const"])
    if is_array(values := schema.get("enum")):
        more = [f"and {len(values) - _VALUES} more"] if len(values) > _VALUES else []
        return _either([*(_shown_value(value) for value in values[:_VALUES]), *more])
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


def _shown_value(value: object) -> str:
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _either(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or "Never"


def resolved(schema: object, root: JSON) -> object:
    """Return the target of a reference within the schema, merged with the keys beside the reference."""
    for _ in range(_DEPTH):
        if not is_object(schema) or not isinstance(reference := schema.get("$ref"), str):
            break
        target: object = root
        for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if is_object(target) else None
        if not is_object(target):
            break
        schema = target | {key: value for key, value in schema.items() if key != "$ref"}
    return schema
