"""JSON values as text: read strictly, and written as fast as their shape allows.

What is read and written, and what is refused, is what `pydantic_core` reads, writes and refuses, for every JSON value.
It takes as long to load as an agent, so that it is asked only where something is unusual. Its reader is `jiter`.
"""

from __future__ import annotations

from typing import Any, Final

import jiter
import msgspec

from gaia_bridge.protocol.json_types import MAX_NESTING, is_array, is_object, is_too_deep
from gaia_bridge.sanitize.escaping import valid_text

__all__ = ["from_json", "to_json", "valid_json", "valid_json_of_size"]

_ENCODER: Final = msgspec.json.Encoder()


def from_json(text: bytes | str, *, allow_inf_nan: bool = True) -> Any:
    """Read JSON. Whole numbers are read in full length, and of two equal keys the last one counts.

    Args:
        text: In UTF-8, if it is bytes.
        allow_inf_nan: Whether NaN and the infinities are taken for numbers.

    Raises:
        ValueError: It is no JSON, has half of a surrogate pair, or is nested deeper than 200 levels.
    """
    return jiter.from_json(text.encode() if isinstance(text, str) else text, allow_inf_nan=allow_inf_nan)


def to_json(value: Any) -> bytes:
    """Write a JSON value in UTF-8. NaN and the infinities, which JSON does not have, become null.

    Args:
        value: Of objects, arrays and scalars; others are written as `pydantic_core` does.

    Raises:
        ValueError: It has half of a surrogate pair, is nested too deep, or has no JSON form.
    """
    try:
        written = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _unusual(value)
    opened = written.count(b"[") + written.count(b"{")  # as many as there are levels, at least
    return _unusual(value) if opened > MAX_NESTING and is_too_deep(value) else written


def _unusual(value: Any) -> bytes:
    import pydantic_core

    return pydantic_core.to_json(value, inf_nan_mode="null")


def valid_json(value: Any) -> Any:
    """A JSON value whose texts and keys are as `valid_text` has them: itself where all are, else a copy.

    Looking costs a fraction of what reading it has cost. Nothing here depends on how deep it is nested.

    Args:
        value: Of objects, arrays and scalars only, as a reader of JSON makes it.
    """
    return valid_json_of_size(value)[0]


def valid_json_of_size(value: Any) -> tuple[Any, int]:
    """The same, and how many bytes it has when it is written; 0 if it is nested too deep for that.

    Args:
        value: As for `valid_json`.
    """
    for _ in range(2):
        try:
            return value, len(to_json(value))
        except ValueError:  # or it is nested too deep to be written, which says nothing of its texts
            value = _with_valid_text(value)
    return value, 0


def _with_valid_text(value: Any) -> Any:
    whole = [value]
    waiting: list[Any] = [whole]
    while waiting:
        holder = waiting.pop()
        places = range(len(holder)) if is_array(holder) else list(holder)
        for place in places:
            item = holder[place]
            if isinstance(item, str):
                holder[place] = valid_text(item)
            elif is_object(item):
                holder[place] = {valid_text(key): below for key, below in item.items()}
                waiting.append(holder[place])
            elif is_array(item):
                holder[place] = [*item]
                waiting.append(holder[place])
    return whole[0]
