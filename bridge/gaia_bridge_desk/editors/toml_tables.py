"""TOML as Codex keeps it: read, and changed by whole tables, in the text; all else stays byte for byte.

Libraries that write TOML change the layout around a change, and lose blank lines and the order of tables that lie
apart. A table that stands by itself needs none of that: it is added at the end, and removed from its head to its last
line. Python's own reader checks afterwards that the text parses to exactly the wanted document.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors.jsonc import EditError, inside

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEAD: Final = re.compile(r"[ \t]*\[")
_OF_NO_TABLE: Final = re.compile(r"[ \t]*(?:#.*)?\r?\n?")
"""A blank line, or a comment: at the end of a table, it belongs to the next one."""


def read(text: str) -> JSON:
    """Parse a text.

    Raises:
        EditError: The text is not valid TOML.
    """
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise EditError(str(error)) from None
    except RecursionError:
        raise EditError("it is nested too deep") from None


def written(path: Sequence[str], value: JSON) -> str:
    """Format a table by itself.

    Args:
        path: The keys that lead to the table.
        value: The table's content.
    """
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(item)}" for key, item in value.items())]
    return "\n".join(lines) + "\n"


def put(text: str, path: Sequence[str], value: JSON) -> str:
    """Return the text with a table, in the place of the one of that name, or behind everything.

    Args:
        text: The text.
        path: The keys that lead there.
        value: The table's content.

    Raises:
        EditError: The text cannot be read, or the present value is not written as a table.
    """
    document = read(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    table = written(path, value).replace("\n", newline)
    if inside(document, path) is None:
        begun = text if not text or text.endswith("\n") else text + newline
        changed = begun + (newline if begun else "") + table
    else:
        lines = text.splitlines(keepends=True)
        spans = _spans(lines, path)
        if not spans:
            raise _not_table_error(path)
        first = spans[0][0]
        changed = "".join(lines[:first]) + table + "".join(_outside(lines, spans)[first:])
    return _checked(changed, _with(document, path, value), path)


def take(text: str, path: Sequence[str]) -> str:
    """Return the text without a table, and those below it.

    Args:
        text: The text.
        path: The keys that lead there.

    Raises:
        EditError: The text cannot be read, there is no such table, or it is written in another way.
    """
    document = read(text)
    if inside(document, path) is None:
        raise EditError(f"there is no {'.'.join(path)!r}")
    lines = text.splitlines(keepends=True)
    spans = _spans(lines, path)
    if not spans:
        raise _not_table_error(path)
    first, end = spans[0]
    if first and not lines[first - 1].strip() and (end == len(lines) or not lines[end].strip()):
        spans[0] = first - 1, end  # the blank line in front of the table
    return _checked("".join(_outside(lines, spans)), _with(document, path, None), path)


def _spans(lines: list[str], path: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines of a table and of those below it: for each, the first, and the one after the last."""
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
        raise _not_table_error(path)
    return changed


def _not_table_error(path: Sequence[str]) -> EditError:
    head = f"[{'.'.join(map(_key, path))}]"
    return EditError(f"what it says of {path[0]!r} is not written as tables; expected one that begins with {head}")


def _with(document: JSON, path: Sequence[str], value: JSON | None) -> JSON:
    """Return the document with a table, or without it and without the tables above it that are then empty."""
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
