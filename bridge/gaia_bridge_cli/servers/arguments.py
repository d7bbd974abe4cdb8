"""The arguments of a tool, as they are typed: one JSON object, or `key=value` words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, RepeatedKeyError, is_array, is_object, unique_keys

_TEXT: Final = "string"

_EXAMPLES: Final = {"array": "'[1, 2]'", "boolean": "true", "integer": "1", "number": "1.5", "object": """'{"a": 1}'"""}
"""How values of these types are typed, as words that a shell leaves whole."""


class ArgumentsError(ValueError):
    """Words that are no arguments; the text says what came and what was expected."""


def tool_arguments(words: Sequence[str], schema: Mapping[str, Any]) -> JSON:
    """Understand the words after a tool's name.

    A value is read as the tool's schema wants it: `count=3` is a number where the schema has a number there, and a text
    where it has a text. Where the schema does not say, whatever is JSON is taken as JSON, and the rest as text.
    `key:=value` is JSON whatever the schema says.

    Args:
        words: One JSON object, or any number of `key=value` and `key:=JSON`.
        schema: The tool's `inputSchema`. Only a help for reading: the server is the one who validates.

    Raises:
        ArgumentsError: They are neither.
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
    """The JSON types that a property allows, as far as its schema says so at first sight."""
    if not is_object(schema):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if is_array(declared):
        return frozenset(name for name in declared if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        if is_array(choices := schema.get(key)):
            found = [_types(choice) for choice in choices]
            return frozenset[str]().union(*found) if all(found) else frozenset()
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
