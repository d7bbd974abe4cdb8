"""The options of a request for the agent's model, and the checks that all fields of requests share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.server.http.access_policy import quoted
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.conversation.errors import ChatError


def description_of(value: object) -> str:
    """Describe a value, safely for a message."""
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
    """Return the error of a field with another value than expected."""
    return ChatError(400, f"{param}: {description_of(value)} came; expected {expected}.", "invalid_value", param)


def object_at(param: str, value: Any, expected: str = "an object") -> JSON:
    """Return the value if it is an object; otherwise raise an error."""
    if not is_object(value):
        raise invalid(param, value, expected)
    return value


def array_at(param: str, value: Any, limit: int, expected: str) -> list[Any]:
    """Return the value if it is a list with at most `limit` items; otherwise raise an error."""
    if not is_array(value):
        raise invalid(param, value, expected)
    if len(value) > limit:
        raise ChatError(400, f"{param}: {len(value)} items came; expected at most {limit}.", "array_too_long", param)
    return value


def text_at(param: str, value: Any, expected: str = "a text") -> str:
    """Return the value if it is a text, which may be empty; otherwise raise an error."""
    if not isinstance(value, str):
        raise invalid(param, value, expected)
    return value


def string_at(param: str, value: Any, expected: str = "a text that is not empty") -> str:
    """Return the value if it is a text that is not empty; otherwise raise an error."""
    if not isinstance(value, str) or not value:
        raise invalid(param, value, expected)
    return value


class _Rule(Struct, frozen=True):
    holds: Callable[[Any], bool]
    expected: str


def _number(least: float, most: float) -> _Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most

    return _Rule(holds, f"a number from {least:g} to {most:g}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_stop(value: Any) -> bool:
    return isinstance(value, str) or (is_array(value) and len(value) <= 4 and all(isinstance(it, str) for it in value))


def _is_format(value: Any) -> bool:
    return is_object(value) and value.get("type") in {"text", "json_object", "json_schema"}


def _is_choice(value: Any) -> bool:
    return is_object(value) or value in ("none", "auto", "required")


_COUNT: Final = _Rule(lambda value: _is_integer(value) and value > 0, "a whole number greater than 0")
_TEXT: Final = _Rule(lambda value: isinstance(value, str), "a text")
_RULES: Final[Mapping[str, _Rule]] = {
    "frequency_penalty": _number(-2, 2),
    "logit_bias": _Rule(is_object, "an object"),
    "max_completion_tokens": _COUNT,
    "max_tokens": _COUNT,
    "parallel_tool_calls": _Rule(lambda value: isinstance(value, bool), "true or false"),
    "presence_penalty": _number(-2, 2),
    "reasoning_effort": _TEXT,
    "response_format": _Rule(_is_format, "an object with the type text, json_object or json_schema"),
    "seed": _Rule(_is_integer, "a whole number"),
    "stop": _Rule(_is_stop, "a text, or a list of at most four"),
    "temperature": _number(0, 2),
    "tool_choice": _Rule(_is_choice, "none, auto, required, or an object that names a function"),
    "top_p": _number(0, 1),
    "user": _TEXT,
}
"""The options that are passed on, by OpenAI's names. All other fields of a request are not for the model."""

_INSTEAD: Final = {"functions": "tools", "function_call": "tool_choice"}
"""Former fields of OpenAI's API, and their replacements."""


def read_options(body: JSON) -> JSON:
    """Return the options among the fields of a request. `null` counts as absent, as in OpenAI's API.

    Raises:
        ChatError: An option has an invalid value, or a field is not supported.
    """
    for old, new in _INSTEAD.items():
        if body.get(old) is not None:
            raise ChatError(400, f"{old} is not supported. Use {new} instead.", "unsupported_parameter", old)
    count = body.get("n")
    if count is not None and (isinstance(count, bool) or count != 1):
        raise invalid("n", count, "1: an agent gives one answer. Send the request again for another")
    options = {name: body[name] for name in _RULES if body.get(name) is not None}
    for name, value in options.items():
        if not _RULES[name].holds(value):
            raise invalid(name, value, _RULES[name].expected)
    return options


def read_flag(fields: JSON, name: str, param: str) -> bool:
    """Return a field that is true, false, or absent.

    Raises:
        ChatError: The field has another value.
    """
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(param, value, "true or false")
    return value
