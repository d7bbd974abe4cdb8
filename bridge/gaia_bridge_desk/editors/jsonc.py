"""JSON with comments and trailing commas, as editors keep it: read, and changed in one place.

A change is made in the text. All other text stays byte for byte: comments, order, indentation, line ends, and
trailing commas. Removing a value that was put in leaves the text as it was before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from gaia_bridge.text.json_types import JSON, RepeatedKeyError, is_array, is_object, unique_keys

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)'
_COMMENTS: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMAS: Final = re.compile(rf"{_STRING}|[\[{{]\s*,|,(?=\s*[\]}}])", re.DOTALL)
_VISIBLE: Final = re.compile(r"[^\r\n]")
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:\r?\n|\Z)")
_INDENT: Final = re.compile(r"^[ \t]*", re.MULTILINE)

_DECODER: Final = json.JSONDecoder(strict=True)
_USUAL_INDENT: Final = "  "

Path = Sequence[str | int]
"""The keys, and the places in lists, that lead to a value."""


class EditError(ValueError):
    """A text that is not valid, or cannot be changed as wanted; the message gives the place and the reason."""


class _Item(NamedTuple):
    """A member of an object, or of a list: where it is in the text."""

    key: str | int
    start: int
    value: int
    end: int
    """The position after its value."""
    comma: int | None
    """The position of the comma after the item, which the last item may have, too."""


class _Container(NamedTuple):
    """An object or a list: where it is in the text, and what is in it."""

    opening: int
    closing: int
    items: list[_Item]


def strict(text: str) -> str:
    """Return the text as plain JSON with the same positions: comments and trailing commas become blanks."""
    return _COMMAS.sub(_without_comma, _without_comments(text))


def read(text: str) -> JSON:
    """Parse a text; one that is empty or holds only comments gives an empty object.

    Raises:
        EditError: The text is no object, is not well-formed, or has a key twice in one object.
    """
    plain = strict(text)
    if not plain.strip():
        return {}
    try:
        document: object = json.loads(plain, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise EditError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RepeatedKeyError as error:
        raise EditError(f"{error}: keep one of them") from None
    except RecursionError:
        raise EditError("it is nested too deep") from None
    except ValueError as error:
        raise EditError(str(error)) from None
    if not is_object(document):
        raise EditError("it is no object; expected {...}")
    return document


def has_value(document: object, path: Path) -> bool:
    """Return whether there is a value at the end of a path."""
    for key in path:
        if is_object(document) and key in document:
            document = document[key]
        elif is_array(document) and isinstance(key, int) and key < len(document):
            document = document[key]
        else:
            return False
    return True


def inside(document: Any, path: Path) -> Any:
    """Return the value at the end of a path; `None` if there is none."""
    if not has_value(document, path):
        return None
    for key in path:
        document = document[key]
    return document


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at the end of a path; missing objects on the way are created.

    Args:
        text: The text.
        path: The keys that lead there.
        value: The value.

    Raises:
        EditError: The text cannot be read, or something on the way is no object.
    """
    document = read(text)

    def change(style: _Style) -> str:
        return _put(style, path, value)

    wanted = _with(document, path, value)
    return _checked(text, change, wanted)


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with one more value in the list at the end of a path; a missing list is created.

    Args:
        text: The text.
        path: The keys that lead to the list.
        value: The value.

    Raises:
        EditError: The text cannot be read, or something on the way is of another type.
    """
    document = read(text)
    if not has_value(document, path):
        return put(text, path, [value])
    items = inside(document, path)
    if not is_array(items):
        raise EditError(f"{_shown(path)} is no list; expected [...]")

    def change(style: _Style) -> str:
        return style.inserted(style.container(path), None, value)

    return _checked(text, change, _with(document, path, [*items, value]))


def take(text: str, path: Path) -> str:
    """Return the text without the value at the end of a path.

    Args:
        text: The text.
        path: The keys and places that lead to the value.

    Raises:
        EditError: The text cannot be read, or there is no such value.
    """
    document = read(text)
    if not has_value(document, path):
        raise EditError(f"there is no {_shown(path)}")

    def change(style: _Style) -> str:
        container = style.container(path[:-1])
        numbers = [number for number, item in enumerate(container.items) if item.key == path[-1]]
        return style.removed(container, numbers[0])

    return _checked(text, change, _without(document, path))


def _checked(text: str, change: Callable[[_Style], str], wanted: JSON) -> str:
    """Return the changed text, after a check that it parses to exactly the wanted document."""
    changed = change(_Style(text))
    if read(changed) != wanted:
        raise EditError("it is written in a way in which it cannot be changed without changing something else")
    return changed


def _put(style: _Style, path: Sequence[str], value: Any) -> str:
    if not style.plain.strip():
        begun = style.text if not style.text or style.text.endswith("\n") else style.text + style.newline
        return begun + style.written({path[0]: _nested(path[1:], value)}, "") + style.newline
    for depth, key in enumerate(path):
        container = style.container(path[:depth])
        if style.plain[container.opening] != "{":
            raise EditError(f"{_shown(path[:depth])} is no object; expected {{...}}")
        item = next((item for item in container.items if item.key == key), None)
        if item is None:
            return style.inserted(container, key, _nested(path[depth + 1 :], value))
        if depth == len(path) - 1:
            return style.replaced(container, item, value)
    raise EditError("a path has one key at least")


class _Style:
    """A text with its layout, and the methods that change it.

    Args:
        text: The text, well-formed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = _without_comments(text)
        self.plain = strict(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unit = self._unit()

    def container(self, path: Path) -> _Container:
        """Return the object or list at the end of a path.

        Raises:
            EditError: The value there is neither.
        """
        place = self._skipped(0)
        for depth in range(len(path) + 1):
            if self.plain[place] not in "{[":
                raise EditError(f"{_shown(path[:depth])} is neither an object nor a list")
            container = self._read(place)
            if depth == len(path):
                return container
            place = next(item.value for item in container.items if item.key == path[depth])
        raise AssertionError  # the loop ends with the path

    def inserted(self, container: _Container, key: str | None, value: Any) -> str:
        """Return the text with one more item, behind all others."""
        prefix = "" if key is None else f"{_dumped(key)}: "
        opening, closing, items = container
        inner = self.text[opening + 1 : closing]
        if items and "\n" not in inner:
            return self._inserted_in_line(container, prefix + compact(value))
        outer = self._indent(opening)
        indent = self._indent(items[-1].start) if items and self._is_line_start(items[-1].start) else outer + self.unit
        added = f"{self.newline}{indent}{prefix}{self.written(value, indent)}"
        if not inner.strip():
            return f"{self.text[: opening + 1]}{added}{self.newline}{outer}{self.text[closing:]}"
        tail = opening + 1 + len(inner.rstrip())
        trailing = bool(items) and items[-1].comma is not None
        end = items[-1].end if items else tail
        begun = self.text[:end] + ("," if items and not trailing else "") + self.text[end:tail]
        rest = self.text[tail:closing]
        rest = rest if items or "\n" in rest else f"{self.newline}{outer}"
        return begun + added + ("," if trailing else "") + rest + self.text[closing:]

    def replaced(self, container: _Container, item: _Item, value: Any) -> str:
        """Return the text with another value of one item."""
        in_line = "\n" not in self.text[container.opening : container.closing]
        written = compact(value) if in_line else self.written(value, self._indent(item.start))
        return self.text[: item.value] + written + self.text[item.end :]

    def removed(self, container: _Container, number: int) -> str:
        """Return the text without one of the items."""
        items, text = container.items, self.text
        item, before = items[number], items[number - 1] if number else None
        begin = container.opening + 1 if before is None else (before.comma or before.end) + 1
        begin = max(begin, len(text[: item.start].rstrip()))  # after comments, which stay
        end = item.end if item.comma is None else item.comma + 1
        gap = text[begin : item.start]
        if self._is_comment_end(begin) and not _REST_OF_LINE.match(text, end):  # else the rest joins it
            begin, gap = item.start, ""
        if not gap and "\n" not in text[end : container.closing].lstrip(" \t")[:2]:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
        rest = text[end:]
        if len(items) == 1 and not text[container.opening + 1 : begin].strip() and not self._left(container, end):
            return text[: container.opening + 1] + text[container.closing :]
        if before is not None and before.comma is not None and number == len(items) - 1 and item.comma is None:
            return text[: before.comma] + text[before.comma + 1 : begin] + rest
        return text[:begin] + rest

    def written(self, value: Any, indent: str) -> str:
        """Format a value over several lines, of which all but the first begin with an indentation."""
        return _dumped(value, self.unit).replace("\n", self.newline + indent)

    def _is_comment_end(self, place: int) -> bool:
        """Return whether a place is the end of a comment that goes on to the end of its line."""
        return any(match.end() == place and match[0].startswith("//") for match in _COMMENTS.finditer(self.text))

    def _left(self, container: _Container, end: int) -> str:
        return self.text[end : container.closing].strip()

    def _inserted_in_line(self, container: _Container, member: str) -> str:
        last = container.items[-1]
        if last.comma is not None:
            place, added = last.comma + 1, f" {member},"
        else:
            place, added = last.end, f", {member}"
        return self.text[:place] + added + self.text[place:]

    def _read(self, opening: int) -> _Container:
        is_list = self.plain[opening] == "["
        place = self._skipped(opening + 1)
        items: list[_Item] = []
        while self.plain[place] not in "]}":
            start = place
            key: Any = len(items)
            if not is_list:
                key, place = _DECODER.raw_decode(self.plain, place)
                place = self._skipped(self._skipped(place) + 1)
            value = place
            _, end = _DECODER.raw_decode(self.plain, place)
            behind = _blanks_end(self.bare, end)
            comma = behind if self.bare[behind] == "," else None
            items.append(_Item(key, start, value, end, comma))
            place = behind if comma is None else self._skipped(behind + 1)
        return _Container(opening, place, items)

    def _skipped(self, place: int) -> int:
        return _blanks_end(self.plain, place)

    def _line(self, place: int) -> int:
        return self.text.rfind("\n", 0, place) + 1

    def _indent(self, place: int) -> str:
        """Return the blanks at the beginning of the line of a place."""
        blanks = _INDENT.match(self.text, self._line(place))
        return blanks[0] if blanks else ""

    def _is_line_start(self, place: int) -> bool:
        return not self.text[self._line(place) : place].strip(" \t")

    def _unit(self) -> str:
        """Return the indentation of one level."""
        if not self.plain.strip():
            return _USUAL_INDENT
        place = self._skipped(self._skipped(0) + 1)
        outer, inner = self._indent(self._skipped(0)), self._indent(place)
        if self._is_line_start(place) and inner.startswith(outer) and len(inner) > len(outer):
            return inner.removeprefix(outer)
        return _USUAL_INDENT


def _blanks_end(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    return blanks.end() if blanks else place


def _without_comments(text: str) -> str:
    return _COMMENTS.sub(_without_comment, text)


def _without_comment(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith('"') or (text.startswith("/*") and not (text.endswith("*/") and len(text) > len("/*/"))):
        return text
    return _VISIBLE.sub(" ", text)


def _without_comma(match: re.Match[str]) -> str:
    return " " if match[0] == "," else match[0]


def compact(value: Any) -> str:
    """Format a value in one line."""
    return _dumped(value)


def _dumped(value: Any, indent: str | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, as in the name of a file that is no UTF-8
        text = json.dumps(value, indent=indent)
    return text


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _with(document: JSON, path: Sequence[str], value: Any) -> JSON:
    key, *rest = path
    below: Any = document.get(key, {})
    if rest and not is_object(below):
        raise EditError(f"{_shown(path[:1])} is no object; expected {{...}}")
    return {**document, key: _with(below, rest, value) if rest else value}


def _without(document: Any, path: Path) -> Any:
    key, *rest = path
    if rest:
        if is_array(document):
            return [_without(item, rest) if place == key else item for place, item in enumerate(document)]
        return {name: _without(item, rest) if name == key else item for name, item in document.items()}
    if is_array(document):
        return [item for place, item in enumerate(document) if place != key]
    return {name: item for name, item in document.items() if name != key}


def _shown(path: Path) -> str:
    return repr(".".join(map(str, path))) if path else "the whole"
