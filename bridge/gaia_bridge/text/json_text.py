"""Parses and writes JSON text.

The results and errors are those of `pydantic_core`, for every JSON value. Importing that takes long, so it is used only
for values that msgspec cannot write. The parser is `jiter`, which `pydantic_core` uses too.
"""

from __future__ import annotations

import math
from typing import Any, Final

import jiter
import msgspec

from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_types import MAX_NESTING, is_array, is_object, is_too_deep

_ENCODER: Final = msgspec.json.Encoder()
encode_json: Final = _ENCODER.encode
"""Writes a value that was read from JSON, and is not nested deep."""
parse: Final = jiter.from_json
"""`from_json` for bytes, without the step around it: most messages are read with this."""
_DEEP_LINE: Final = b"\n" + b" " * MAX_NESTING
"""Begins a line of JSON with an indentation of one that holds a value within `MAX_NESTING` levels, or more."""


def from_json(text: bytes | str, *, allow_inf_nan: bool = True) -> Any:
    """Parse JSON. Integers keep all their digits; of a repeated key, the last value counts.

    Args:
        text: JSON; bytes must be UTF-8.
        allow_inf_nan: Whether NaN and infinities are accepted as numbers.

    Raises:
        ValueError: The text is not JSON, contains a lone surrogate, or is nested deeper than 200 levels.
    """
    return jiter.from_json(text if type(text) is bytes else _utf8(text), allow_inf_nan=allow_inf_nan)


def _utf8(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


def to_json(value: Any) -> bytes:
    """Write a value as JSON in UTF-8. NaN and infinities, which JSON does not have, become null.

    Args:
        value: A JSON value; other types are written as `pydantic_core` writes them.

    Raises:
        ValueError: The value contains a lone surrogate, is nested too deep, or cannot be written as JSON.
    """
    try:
        written = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _unusual(value)
    return _unusual(value) if may_be_too_deep(written) and is_too_deep(value) else written


def may_be_too_deep(written: bytes) -> bool:
    """Return whether JSON may be nested deeper than `MAX_NESTING` levels: `False` is certain, `True` is not.

    It is laid out in lines to see their indentation: for large JSON, that takes a tenth of the time of `is_too_deep`.
    """
    if written.count(b"[") + written.count(b"{") <= MAX_NESTING:  # at least the number of levels
        return False
    try:
        return _DEEP_LINE in msgspec.json.format(written, indent=1)
    except RecursionError:
        return True


def measure(value: Any) -> tuple[float, bool]:
    """Return the bytes of a JSON value when it is written, and whether it is nested too deep to be passed on.

    One that msgspec cannot write has infinite bytes.
    """
    try:
        written = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return math.inf, is_too_deep(value)
    return len(written), may_be_too_deep(written) and is_too_deep(value)


def _unusual(value: Any) -> bytes:
    import pydantic_core

    return pydantic_core.to_json(value, inf_nan_mode="null")


def valid_json(value: Any) -> Any:
    """Apply `valid_text` to all strings and keys of a JSON value; return the same object if none of them changes.

    The check costs a fraction of parsing the value. Any nesting depth is supported.

    Args:
        value: A value as a JSON parser returns it.

    Raises:
        ValueError: The value contains itself.
    """
    return valid_json_of_size(value)[0]


def valid_json_of_size(value: Any) -> tuple[Any, int]:
    """Return the result of `valid_json`, and its size in bytes when written; 0 if it is nested too deep to be written.

    Args:
        value: As for `valid_json`.
    """
    for _ in range(2):
        try:
            return value, len(to_json(value))
        except ValueError:  # it has lone surrogates, or is nested too deep and may have some
            value = with_valid_text(value)
    return value, 0


def with_valid_text(value: Any) -> Any:
    """Return a copy with `valid_text` applied to all strings and keys in dictionaries and lists.

    Raises:
        ValueError: The value contains itself.
    """
    # Iterative, since nesting may be deeper than Python's stack: each copy waits with the original that fills it.
    whole = [value]
    waiting: list[tuple[Any, Any]] = [(whole, whole)]
    inside: set[int] = set()  # the containers around the present one: to enter one of them again would never end
    while waiting:
        original, holder = waiting.pop()
        if holder is None:
            inside.remove(id(original))
            continue
        if id(original) in inside:
            raise ValueError("expected a JSON value, got one that contains itself")
        inside.add(id(original))
        waiting.append((original, None))
        places = range(len(holder)) if is_array(holder) else list(holder)
        for place in places:
            item = holder[place]
            if isinstance(item, str):
                holder[place] = valid_text(item)
            elif is_object(item):
                holder[place] = {valid_text(key): below for key, below in item.items()}
                waiting.append((item, holder[place]))
            elif is_array(item):
                holder[place] = [*item]
                waiting.append((item, holder[place]))
    return whole[0]
