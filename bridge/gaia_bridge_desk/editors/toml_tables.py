"""TOML as Codex keeps it: read, and changed by whole tables, in the text; all else stays byte for byte.

Libraries that write TOML lay out anew what is around a change, and lose blank lines and the order of tables that lie
apart. A table that stands by itself needs none of that: it is added behind everything, and taken out from its head to
its last line. Python's own reader says afterwards whether the text says what was wanted, and nothing else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors.jsonc import EditError

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEAD: Final = re.compile(r"[ \t]*\[")
_OF_NO_TABLE: Final = re.compile(r"[ \t]*(?:#.*)?\r?\n?")
"""A blank line, or a comment: at the end of a table, it belongs to the next one."""


def read(text: str) -> JSON:
    """What a text says.

    Raises:
        EditError: It is no TOML.
    """
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise EditError(str(error)) from None
    except RecursionError:
        raise EditError("it is nested too deep") from None


def written(path: Sequence[str], value: JSON) -> str:
    """A table by itself.

    Args:
        path: The keys that lead there.
        value: What is in it.
    """
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(item)}" for key, item in value.items())]
    return "\n".join(lines) + "\n"


def put(text: str, path: Sequence[str], value: JSON) -> str:
    """The text with a table, in the place of the one of that name, or behind everything.

    Args:
        text: The text.
        path: The keys that lead there.
        value: What is in it.

    Raises:
        EditError: The text cannot be read, or what is there is written in another way than as a table.
    """
    document = read(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    table = written(path, value).replace("\n", newline)
    if _found(document, path) is None:
        begun = text if not text or text.endswith("\n") else text + newline
        changed = begun + (newline if begun else "") + table
    else:
        lines = text.splitlines(keepends=True)
        spans = _spans(lines, path)
        if not spans:
            raise _otherwise(path)
        first = spans[0][0]
        changed = "".join(lines[:first]) + table + "".join(_outside(lines, spans)[first:])
    return _checked(changed, _with(document, path, value), path)


def take(text: str, path: Sequence[str]) -> str:
    """The text without a table, and those below it.

    Args:
        text: The text.
        path: The keys that lead there.

    Raises:
        EditError: The text cannot be read, there is no such table, or it is written in another way.
    """
    document = read(text)
    if _found(document, path) is None:
        raise EditError(f"there is no {'.'.join(path)!r}")
    lines = text.splitlines(keepends=True)
    spans = _spans(lines, path)
    if not spans:
        raise _otherwise(path)
    first, end = spans[0]
    if first and not lines[first - 1].strip() and (end == len(lines) or not lines[end].strip()):
        spans[0] = first - 1, end  # the blank line that set it off
    return _checked("".join(_outside(lines, spans)), _with(document, path, None), path)


def _spans(lines: list[str], path: Sequence[str]) -> list[tuple[int, int]]:
    """Where a table is, and those below it: lines from and to."""
    names = r"[ \t]*\.[ \t]*".join(
        f"(?:{'|'.join(re.escape(name) for name in sorted({key, json.dumps(key), repr(key)}))})" for key in path
    )
    head = re.compile(rf"[ \t]*\[[ \t]*{names}[ \t]*(?:\.[^\]]*)?\][ \t]*(?:#.*)?\r?\n?")
    heads = [number for number, line in enumerate(lines) if _HEAD.match(line)]
    spans: list[tuple[int, int]] = []
    for number, following in pairwise((*heads, len(lines))):
        if head.fullmatch(lines[number]):
            while _OF_NO_TABLE.fullmatch(lines[following - 1]):
                following -= 1
            spans.append((number, following))
    return spans


def _outside(lines: list[str], spans: list[tuple[int, int]]) -> list[str]:
    inside = {number for first, end in spans for number in range(first, end)}
    return [line for number, line in enumerate(lines) if number not in inside]


def _checked(changed: str, wanted: JSON, path: Sequence[str]) -> str:
    try:
        same = read(changed) == wanted
    except EditError:
        same = False
    if not same:
        raise _otherwise(path)
    return changed


def _otherwise(path: Sequence[str]) -> EditError:
    head = f"[{'.'.join(map(_key, path))}]"
    return EditError(f"what it says of {path[0]!r} is not written as tables; expected one that begins with {head}")


def _found(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not is_object(document) or key not in document:
            return None
        document = document[key]
    return document


def _with(document: JSON, path: Sequence[str], value: JSON | None) -> JSON:
    """The document with a table, or without it, and then without those above it that are empty."""
    key, *rest = path
    below: Any = document.get(key, {})
    if rest:
        below = _with(below if is_object(below) else {}, rest, value)
    else:
        below = value
    without = {name: item for name, item in document.items() if name != key}
    return {**without, key: below} if below else without


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if is_object(value):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)
