"""JSON values as Python types, and helpers to inspect them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard, cast
from urllib.parse import unquote

JSON = dict[str, Any]
"""A decoded JSON object."""

MAX_NESTING: Final = 200
"""The deepest nesting of objects and arrays that is passed on: JSON parsers stop a little beyond it, writers at 255."""


# Called some twenty times per tool call, so these are the C functions behind `isinstance`, without a Python call.
is_object: Final[Callable[[object], TypeGuard[JSON]]] = cast("Any", dict.__instancecheck__)
"""Whether a decoded JSON value is an object."""

is_array: Final[Callable[[object], TypeGuard[list[Any]]]] = cast("Any", list.__instancecheck__)
"""Whether a decoded JSON value is an array."""


class RepeatedKeyError(ValueError):
    """An object has the same key twice: JSON parsers disagree about which value counts."""


def unique_keys(pairs: list[tuple[str, Any]]) -> JSON:
    """Build an object whose keys must be unique, for `json.loads(object_pairs_hook=...)`.

    Raises:
        RepeatedKeyError: A key appears twice; the message names it.
    """
    built: JSON = {}
    for key, value in pairs:
        if key in built:
            raise RepeatedKeyError(f"the key {key!r} appears twice in one object")
        built[key] = value
    return built


def is_too_deep(value: Any) -> bool:
    """Whether a JSON value is nested deeper than `MAX_NESTING` levels. Does not recurse."""
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
"""More bytes, as `is_larger` counts them, than any value has for which `is_small` is true."""


def is_small(value: Any, levels: int = _LEVELS) -> bool:
    """Whether a value is plain JSON, and so small that nothing about it needs to be bounded; `False` may be wrong.

    Args:
        levels: The deepest nesting of objects and arrays.
    """
    item: object = value
    kind = type(item)
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
    for inner in value:
        if not is_small(inner, levels - 1):
            return False
    return True


def copied(value: Any) -> Any:
    """Copy a JSON value with all its objects and arrays; a value that is not JSON is copied by `copy.deepcopy`."""
    item: object = value
    kind = type(item)
    if kind is str or kind in _SCALARS:
        return value
    if kind is dict:
        return {key: copied(inner) for key, inner in value.items()}
    if kind is list:
        return [copied(inner) for inner in value]
    return copy.deepcopy(value)


def is_larger(value: Any, size: int) -> bool:
    """Whether a value certainly takes more than `size` bytes as JSON.

    The estimate is a lower bound, so it misses some values that are larger. It stops after `size` bytes and copies
    nothing.

    Args:
        value: A JSON value, or one that can be converted to JSON.
        size: Bytes.
    """
    waiting = [iter((value,))]
    size += 1  # each value counts one byte for its separator, which the outermost one does not have
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


def value_at(value: Any, *keys: str) -> Any:
    """Return the value below some keys of nested objects; `None` where one is absent, or not in an object."""
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value


def at_pointer(value: Any, pointer: str) -> Any:
    """Return the value that a JSON pointer (RFC 6901, as a URI fragment, with or without `#`) refers to, or `None`."""
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value.get(key)
        elif is_array(value) and key.isdecimal() and len(key) < 20 and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) for a path of keys and indices; `(root)` for the whole document."""
    if not path:
        return "(root)"
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
