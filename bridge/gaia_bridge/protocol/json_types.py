"""JSON values as Python types, and the questions that type checkers cannot answer by themselves."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

__all__ = [
    "JSON",
    "MAX_NESTING",
    "SMALL_BYTES",
    "RepeatedKeyError",
    "at_pointer",
    "copied",
    "is_array",
    "is_larger",
    "is_object",
    "is_small",
    "is_too_deep",
    "json_pointer",
    "unique_keys",
]

JSON = dict[str, Any]
"""A JSON object as plain Python: what crosses the core between the guard and the far side."""

MAX_NESTING: Final = 200
"""Levels of objects and arrays in what is handed on: readers of JSON stop a little beyond, and writers at 255."""


def is_object(value: object) -> TypeGuard[JSON]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is an array."""
    return isinstance(value, list)


class RepeatedKeyError(ValueError):
    """An object with one key twice: readers do not agree which of the values counts."""


def unique_keys(pairs: list[tuple[str, Any]]) -> JSON:
    """An object of its members, for `json.loads(object_pairs_hook=...)`.

    Raises:
        RepeatedKeyError: A key is there twice; says which.
    """
    found: JSON = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKeyError(f"the key {key!r} appears twice in one object")
        found[key] = value
    return found


def is_too_deep(value: Any) -> bool:
    """Whether a JSON value is nested deeper than `MAX_NESTING` levels. Costs no recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_NESTING):
        below: list[Any] = []
        for item in level:
            if is_object(item):
                below += item.values()
            elif is_array(item):
                below += item
        if not below:
            return False
        level = below
    return any(is_object(item) or is_array(item) for item in level)


_SCALARS: Final = frozenset({bool, int, float, type(None)})
_MEMBERS: Final = 8
_CHARACTERS: Final = 100
_LEVELS: Final = 3

SMALL_BYTES: Final = 128 * 1024
"""More than any value has, as `is_larger` counts, that `is_small`."""


def is_small(value: Any, levels: int = _LEVELS) -> bool:
    """Whether a value is plain JSON, and so little that nothing about it needs to be bounded; "no" may be wrong.

    Args:
        value: Anything.
        levels: Of objects and arrays that may be in one another.
    """
    kind = type(value)
    if kind is str:
        return len(value) <= _CHARACTERS
    if kind in _SCALARS:
        return True
    if not levels or (kind is not dict and kind is not list) or len(value) > _MEMBERS:
        return False
    if kind is dict:
        for key in value:
            if type(key) is not str or len(key) > _CHARACTERS:
                return False
        value = value.values()
    for item in value:
        if not is_small(item, levels - 1):
            return False
    return True


def copied(value: Any) -> Any:
    """A copy of a JSON value whose objects and arrays are its own; what is no JSON is copied as Python copies it."""
    kind = type(value)
    if kind is str or kind in _SCALARS:
        return value
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return copy.deepcopy(value)


def is_larger(value: Any, size: int) -> bool:
    """Whether a value has more than `size` bytes as JSON, as far as its texts, arrays and objects tell.

    It may have more than this finds out, and never less. Nothing is looked at beyond its first `size` bytes; no copy.

    Args:
        value: JSON, or what becomes JSON.
        size: Bytes.
    """
    waiting = [iter((value,))]
    size += 1  # each value counts for what separates it from the next, which the outermost has not
    while waiting:
        item = next(waiting[-1], _END)
        if item is _END:
            waiting.pop()
            continue
        if isinstance(item, str | bytes | bytearray):
            size -= len(item) + 2
        elif is_object(item):
            waiting += [iter(item.values()), iter(item)]
        elif is_array(item):
            waiting.append(iter(item))
        size -= 1
        if size < 0 or len(waiting) > MAX_NESTING * 2:
            return size < 0
    return False


_END: Final = object()


def at_pointer(value: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901, as a URI fragment, with `#` or without) leads to; `None` if it leads nowhere."""
    found = value
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if is_object(found):
            found = found.get(key)
        elif is_array(found) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def json_pointer(path: Sequence[str | int]) -> str:
    """The RFC 6901 pointer to `path`, with the whole document shown as `(root)`."""
    if not path:
        return "(root)"
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
