"""Recognizes the plainest schemas, and values that surely fit them: with these, most tools never need the engine.

The engine (`jsonschema_rs`) takes 8 MiB and some milliseconds to load. The check here answers yes or "unknown", never
no, so that all errors have the engine's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import is_array, is_object

_DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
)
"""Dialects of JSON Schema that give the keywords below the same meaning."""
_PYTHON_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),  # a whole number with a fraction of nothing is one as well, but not in every draft
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "null": frozenset({type(None)}),
}
_MAX_LEVELS: Final = 16
"""The deepest nesting of a plain schema; the engine handles deeper ones."""
_MAX_VALUES: Final = 1_000
"""The most values checked here, each in a microsecond; with more of them, the engine is quicker."""
_MAX_BRANCHES: Final = 8
_BRANCH_LEVELS: Final = 2
"""The deepest nesting of a branch of `anyOf`: each branch looks at the whole value."""
_WITH_BRANCHES: Final = frozenset({"$comment", "$schema", "anyOf", "default", "deprecated", "description", "title"})
"""The keywords that may stand beside `anyOf`: they say nothing about values."""
_MAX_NUMBER: Final = 2**53
"""The largest whole number that every reader of JSON distinguishes from its neighbours."""
_NUMBERS: Final = frozenset({int, float, bool})


class PlainSchema:
    """A schema with no more than types, members, items and choices. Created by `of`."""

    __slots__ = ("_branches", "_choices", "_items", "_levels", "_members", "_others", "_required", "_types")

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._types: frozenset[type] | None = None
        self._choices: frozenset[tuple[type, object]] | None = None
        self._members: dict[str, PlainSchema] = {}
        self._others: PlainSchema | bool = True
        self._required = frozenset[str]()
        self._items: PlainSchema | None = None
        self._branches: list[PlainSchema] = []

    @classmethod
    def of(cls, schema: Any, levels: int = _MAX_LEVELS) -> PlainSchema | None:
        """Read a schema that is plain, and so surely compiles; return `None` for any other."""
        if not is_object(schema) or levels == 0:
            return None
        plain = cls(levels)
        takers = plain._takers()
        for keyword, held in schema.items():
            take = takers.get(keyword)
            if take is None or not take(held):
                return None
        return None if plain._branches and not schema.keys() <= _WITH_BRANCHES else plain

    def fits(self, value: Any) -> bool:
        """Whether a value surely fits; `False` may be wrong."""
        return self._fits(value, _MAX_VALUES) >= 0

    def _fits(self, value: Any, left: int) -> int:
        """Return the number of values that may still be checked after this one; negative if it does not surely fit."""
        if self._branches:
            return max(branch._fits(value, left - len(self._branches)) for branch in self._branches)
        item: object = value
        kind = type(item)
        if self._types is not None and kind not in self._types:
            return -1
        if kind is dict:
            return -1 if self._choices is not None else self._fits_members(value, left - 1)
        if kind is list:
            return -1 if self._choices is not None else self._fits_items(value, left - 1)
        is_sure = (value.isascii() or _is_text(value)) if kind is str else _is_scalar(value)
        if not is_sure or (self._choices is not None and (kind, value) not in self._choices):
            return -1
        return left - 1

    def _fits_members(self, value: Any, left: int) -> int:
        if not self._required <= value.keys():
            return -1
        for name, item in value.items():
            if left < 0:
                return -1
            if (member := self._members.get(name)) is not None:
                left = member._fits(item, left)
                continue
            schema = self._others
            if schema is False or not _is_text(name):
                return -1
            if schema is True:
                left = left - 1 if _is_scalar(item) else -1
            else:
                left = schema._fits(item, left)
        return left

    def _fits_items(self, value: Any, left: int) -> int:
        for item in value:
            if left < 0 or self._items is None:
                return -1
            left = self._items._fits(item, left)
        return left

    # The keywords: whether the value of each is valid and plain; what is read is kept for `fits`.

    def _takers(self) -> Mapping[str, Callable[[Any], bool]]:
        return {
            "$comment": _is_text,
            "$schema": self._take_dialect,
            "additionalProperties": self._take_others,
            "anyOf": self._take_branches,
            "const": lambda held: self._take_choices([held]),
            "default": _is_plain_default,
            "deprecated": _is_flag,
            "description": _is_text,
            "enum": self._take_choices,
            "examples": _are_scalars,
            "items": self._take_items,
            "properties": self._take_properties,
            "readOnly": _is_flag,
            "required": self._take_required,
            "title": _is_text,
            "type": self._take_type,
            "writeOnly": _is_flag,
        }

    def _take_type(self, held: Any) -> bool:
        names = held if is_array(held) else [held]
        are_types = all(isinstance(name, str) and name in _PYTHON_TYPES for name in names)
        if not names or not are_types or len(set(names)) != len(names):
            return False
        self._types = frozenset().union(*(_PYTHON_TYPES[name] for name in names))
        return True

    def _take_properties(self, held: Any) -> bool:
        if not is_object(held):
            return False
        for name, inner in held.items():
            if not _is_text(name) or (member := self.of(inner, self._levels - 1)) is None:
                return False
            self._members[name] = member
        return True

    def _take_required(self, held: Any) -> bool:
        if not is_array(held) or not all(map(_is_text, held)):
            return False
        self._required = frozenset(held)
        return len(self._required) == len(held)

    def _take_others(self, held: Any) -> bool:
        others = held if isinstance(held, bool) else self.of(held, self._levels - 1)
        if others is None:
            return False
        self._others = others
        return True

    def _take_items(self, held: Any) -> bool:
        self._items = self.of(held, self._levels - 1)
        return self._items is not None

    def _take_choices(self, held: Any) -> bool:
        if not is_array(held) or not held or not all(_is_scalar(value) and type(value) is not float for value in held):
            return False
        # A set, since there may be thousands of choices; with types, since `1 == True` in Python.
        choices: set[tuple[type, object]] = {(type(choice), choice) for choice in held}
        self._choices = frozenset(choices)
        return len(choices) == len(held)

    def _take_branches(self, held: Any) -> bool:
        if not is_array(held) or not 0 < len(held) <= _MAX_BRANCHES:
            return False
        branches = [self.of(item, min(self._levels - 1, _BRANCH_LEVELS)) for item in held]
        self._branches = [branch for branch in branches if branch is not None]
        return len(self._branches) == len(held)

    def _take_dialect(self, held: Any) -> bool:
        return held in _DIALECTS and self._levels == _MAX_LEVELS


def _is_text(value: Any) -> bool:
    """Whether a value is a text without lone surrogates, which JSON in UTF-8 cannot carry."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_scalar(value: object) -> bool:
    """Whether a value is no object or array, and means the same to every reader of JSON."""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, int | float):  # true and false among them
        return type(value) in _NUMBERS and -_MAX_NUMBER <= value <= _MAX_NUMBER  # false for NaN
    return value is None


def _are_scalars(held: Any) -> bool:
    return is_array(held) and all(map(_is_scalar, held))


def _is_plain_default(held: Any) -> bool:
    return held == {} or _is_scalar(held) or _are_scalars(held)


def _is_flag(held: Any) -> bool:
    return isinstance(held, bool)
