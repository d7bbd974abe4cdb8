"""The values that the keywords of JSON Schema can have. Pure.

Regular expressions have the syntax that JavaScript (with the `u` flag) and Python share: clients compile the patterns
of schemas in their own language, and some refuse every tool because of one pattern that does not compile there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import is_array, is_object

_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_MAX_LENGTH: Final = 1_000
"""The most characters of a pattern; a longer one is not worth its risk."""
_MAX_REPEATS: Final = 1_000
"""The largest number of repetitions accepted; some engines unroll them."""
_ESCAPE: Final = r"\\(?:[dDsSwWfnrtv^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4})"
"""Escape sequences that are valid in both languages and have the same meaning."""
_IN_CLASS: Final = rf"(?:{_ESCAPE}|\\-|&(?!&)|~(?!~)|\|(?!\|)|[^\\\[\]&|~-])"
_TOKEN: Final = re.compile(
    rf"""
    (?P<open>\((?:\?:|\?=|\?!)?(?!\?))
    | (?P<close>\))
    | (?P<either>\|)
    | (?P<assertion>\^|\$|\\[bB])
    | (?P<repeat>(?:[*+?]|\{{(?P<least>\d{{1,4}})(?:,(?P<most>\d{{1,4}})?)?\}})\??(?![*+?{{]))
    | (?P<class>\[(?!\^\])\^?-?(?:{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\])
    | (?P<atom>{_ESCAPE}|[^\\^$.*+?()\[\]{{}}|]|\.)
    """,
    re.VERBOSE,
)
_RANGE: Final = re.compile(rf"({_IN_CLASS})-({_IN_CLASS})")


def is_common_pattern(pattern: object) -> bool:
    """Whether a value is a pattern that both languages surely compile; others may compile in one of them or both."""
    if not isinstance(pattern, str) or len(pattern) > _MAX_LENGTH:
        return False
    place, is_repeatable = 0, False
    open_groups: list[bool] = []  # whether each can be repeated: lookaheads cannot
    while place < len(pattern):
        if (token := _TOKEN.match(pattern, place)) is None:
            return False
        place, kind = token.end(), token.lastgroup
        match kind:
            case "open":
                open_groups.append(token["open"] in ("(", "(?:"))
                is_repeatable = False
            case "close":
                if not open_groups:
                    return False
                is_repeatable = open_groups.pop()
            case "least" | "most" | "repeat":
                if not is_repeatable or not _is_bounded(token["least"], token["most"]):
                    return False
                is_repeatable = False
            case _:
                is_repeatable = kind in ("class", "atom")
                if kind == "class" and not _has_ordered_ranges(token["class"]):
                    return False
    return not open_groups


def _is_bounded(least: str | None, most: str | None) -> bool:
    if least is None:
        return True
    return int(least) <= int(most or least) <= _MAX_REPEATS


def _has_ordered_ranges(characters: str) -> bool:
    """Whether each range of a class goes from one single character to a later one."""
    return all(
        len(start) == len(end) == 1 and start <= end
        for start, end in _RANGE.findall(characters[1:-1].removeprefix("^"))
    )


def put_right(keyword: str, value: Any) -> Any:
    """Return the value of a keyword in the form that all drafts of JSON Schema have."""
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
    # JavaScript reads a larger number as infinity, which ajv does not accept as a number.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def are_names(value: Any) -> bool:
    """Whether a value is a list of names, each of them once."""
    return is_array(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def is_type(value: Any) -> bool:
    """Whether a value is valid for `type`."""
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
"""Keywords that validate nothing."""
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
    "dependentRequired": lambda value: is_object(value) and all(map(are_names, value.values())),
    "enum": lambda value: is_array(value) and bool(value),
    "examples": is_array,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": is_common_pattern,
    "required": are_names,
    "type": is_type,
}
"""For each keyword, a check whether all validators accept its value."""
