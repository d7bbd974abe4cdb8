"""JSON that is written, or compared, in small steps: in a thread, others have the interpreter between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from gaia_bridge.text.json_types import is_array, is_larger, is_object

_CHUNK: Final = 65_536
"""Characters of one step, or some more."""

_MEMBERS: Final = 256
"""Members of an object, or items of an array, that are looked at in one step."""

_T = TypeVar("_T")


def json_chunks(value: Any, *, in_ascii: bool = False) -> Iterator[str]:
    """The JSON text of a value, in parts.

    Args:
        value: A JSON value.
        in_ascii: Whether other characters are escaped.
    """
    if not is_larger(value, _CHUNK):
        yield json.dumps(value, ensure_ascii=in_ascii)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _CHUNK):
            yield json.dumps(value[start : start + _CHUNK], ensure_ascii=in_ascii)[1:-1]
        yield '"'
    elif is_object(value):
        yield from _members(value, in_ascii=in_ascii)
    elif is_array(value):
        yield from _items(value, in_ascii=in_ascii)
    else:
        yield json.dumps(value)


def _members(value: dict[str, Any], *, in_ascii: bool) -> Iterator[str]:
    before = "{"
    for some in _batches(value.items()):
        if not is_larger(part := dict(some), _CHUNK):
            yield before + json.dumps(part, ensure_ascii=in_ascii)[1:-1]
            before = ", "
            continue
        for key, item in some:
            yield from (before, *json_chunks(key, in_ascii=in_ascii), ": ")
            yield from json_chunks(item, in_ascii=in_ascii)
            before = ", "
    yield "}"


def _items(value: list[Any], *, in_ascii: bool) -> Iterator[str]:
    before = "["
    for some in _batches(value):
        if not is_larger(some, _CHUNK):
            yield before + json.dumps(some, ensure_ascii=in_ascii)[1:-1]
            before = ", "
            continue
        for item in some:
            yield before
            yield from json_chunks(item, in_ascii=in_ascii)
            before = ", "
    yield "]"


def _batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while some := list(islice(rest, _MEMBERS)):
        yield some


def is_json_of(text: str, value: Any) -> bool:
    """Whether a text is the JSON of a value, in the order of its members, with any white space.

    Args:
        text: Any text.
        value: A JSON value.
    """
    place, read = 0, ""
    for chunk in json_chunks(value, in_ascii=text.isascii()):
        wanted = _without_space(chunk)
        while len(read) < len(wanted):
            if place >= len(text):
                return False
            read += _without_space(text[place : place + _CHUNK])
            place += _CHUNK
        if not read.startswith(wanted):
            return False
        read = read[len(wanted) :]
    return not read and len(text) - place < _CHUNK and not text[place:].strip()


def _without_space(text: str) -> str:
    return "".join(text.split())
