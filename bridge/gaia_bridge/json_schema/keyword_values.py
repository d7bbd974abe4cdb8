"""The values that the keywords of JSON Schema can have. Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia_bridge.json_schema.regex_syntax import is_common_pattern
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import is_array, is_object

_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def put_right(keyword: str, value: Any) -> Any:
    """Return the value of a keyword in the form that all drafts of JSON Schema have.

    Args:
        keyword: The keyword.
        value: What a schema says.
    """
    if keyword == "required":
        if isinstance(value, bool):  # of draft 3
            return None
        value = [value] if isinstance(value, str) else value
    if is_array(value) and keyword in ("enum", "required", "type"):
        return list({to_json(item): item for item in value}.values())
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    # Of a larger one, JavaScript reads infinity, which ajv does not take for a number.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def are_names(value: Any) -> bool:
    """Whether a value is a list of names, each of them once."""
    return is_array(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _are_names_by_name(value: Any) -> bool:
    return is_object(value) and all(map(are_names, value.values()))


def is_type(value: Any) -> bool:
    """Whether a value is what `type` may be."""
    if is_array(value):
        return bool(value) and all(isinstance(item, str) and item in _TYPES for item in value)
    return isinstance(value, str) and value in _TYPES


NOTES: Final = frozenset(
    {
        "$comment",
        "contentEncoding",
        "contentMediaType",
        "deprecated",
        "description",
        "examples",
        "format",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords that demand nothing."""

VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("$comment", "contentEncoding", "contentMediaType", "description", "format", "title"), _is_text),
    **dict.fromkeys(("deprecated", "readOnly", "uniqueItems", "writeOnly"), _is_flag),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _is_number),
    **dict.fromkeys(
        (
            "maxContains",
            "maxItems",
            "maxLength",
            "maxProperties",
            "minContains",
            "minItems",
            "minLength",
            "minProperties",
        ),
        _is_count,
    ),
    "const": lambda value: True,
    "default": lambda value: True,
    "dependentRequired": _are_names_by_name,
    "enum": lambda value: is_array(value) and bool(value),
    "examples": is_array,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": is_common_pattern,
    "required": are_names,
    "type": is_type,
}
"""Whether the value of a keyword is one that all validators take."""
