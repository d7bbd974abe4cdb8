"""What every field of a request is checked with."""

from __future__ import annotations

from typing import Any

from gaia_bridge.server.http.access_policy import quoted
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.conversation.errors import ChatError


def came(value: object) -> str:
    """What was sent, harmless in a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int() | float():
            return quoted(repr(value)).strip("'")
        case dict():
            return "an object"
        case _:
            return "a list"


def invalid(param: str, value: object, expected: str) -> ChatError:
    """A field that has another value than expected."""
    return ChatError(400, f"{param}: {came(value)} came; expected {expected}.", "invalid_value", param)


def object_at(param: str, value: Any, expected: str = "an object") -> JSON:
    """An object, or the error that it is none."""
    if not is_object(value):
        raise invalid(param, value, expected)
    return value


def array_at(param: str, value: Any, limit: int, expected: str) -> list[Any]:
    """A list of at most so many items, or the error that it is none."""
    if not is_array(value):
        raise invalid(param, value, expected)
    if len(value) > limit:
        raise ChatError(400, f"{param}: {len(value)} items came; expected at most {limit}.", "array_too_long", param)
    return value


def text_at(param: str, value: Any, expected: str = "a text") -> str:
    """A text, which may be empty, or the error that it is none."""
    if not isinstance(value, str):
        raise invalid(param, value, expected)
    return value


def string_at(param: str, value: Any, expected: str = "a text that is not empty") -> str:
    """A text that is not empty, or the error that it is none."""
    if not isinstance(value, str) or not value:
        raise invalid(param, value, expected)
    return value
