"""The values of one entry by their types: what is there is what was asked for, or an error names it."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from gaia_bridge.config.problems import EntryError, kind_of
from gaia_bridge.text.json_types import JSON, is_array, is_object

T = TypeVar("T", bound=str)


class Values:
    """One entry. A key with `null` is as good as absent.

    Every method takes the key, and raises `EntryError` if its value is of another type; no error shows a value.

    Args:
        entry: The entry, its references filled in.
        within: The key of the entry that these are the values of, if they are not its own.
    """

    def __init__(self, entry: JSON, within: str | None = None) -> None:
        self._entry = {key: value for key, value in entry.items() if value is not None}
        self._within = "" if within is None else f" in '{within}'"
        self._path = "" if within is None else f"{within}."

    def __contains__(self, key: str) -> bool:
        return key in self._entry

    def text(self, key: str) -> str | None:
        """A text."""
        return self._text(self._place(key), self._entry[key]) if key in self._entry else None

    def choice(self, key: str, *choices: T) -> T | None:
        """One of certain texts."""
        value = self.text(key)
        found = next((choice for choice in choices if choice == value), None)
        if value is not None and found is None:
            expected = " or ".join(f'"{choice}"' for choice in choices)
            raise EntryError(f"{self._place(key)} has a value that is not known; expected {expected}")
        return found

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts."""
        items = self._entry.get(key)
        if items is None:
            return None
        if not is_array(items):
            raise EntryError(f"{self._place(key)} is {kind_of(items)}; expected a list of texts")
        return tuple(self._text(f"item {number} of {self._place(key)}", item) for number, item in enumerate(items, 1))

    def words(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, or one text that has them separated by blanks."""
        if not isinstance(self._entry.get(key), str):
            return self.texts(key)
        return tuple((self.text(key) or "").split())

    def section(self, key: str) -> Values | None:
        """An object with values of its own, which may all be absent; `None` where the entry says `false`."""
        section = self._entry.get(key, {})
        if section is False:
            return None
        if not is_object(section):
            kind = "true" if section is True else kind_of(section)
            raise EntryError(f"{self._place(key)} is {kind}; expected an object, or false")
        return Values(section, key)

    def sections(self, key: str) -> dict[str, Values]:
        """An object of objects, each with values of its own."""
        table = self._entry.get(key, {})
        if not is_object(table):
            raise EntryError(f"{self._place(key)} is {kind_of(table)}; expected an object of objects")
        found: dict[str, Values] = {}
        for name, section in table.items():
            if section is None:
                continue
            path = f"{self._path}{key}.{name}"
            if not is_object(section):
                raise EntryError(f"'{path}' is {kind_of(section)}; expected an object")
            found[name] = Values(section, path)
        return found

    def anything(self, key: str) -> Any:
        """Any JSON value, as it is; `None` if it is not there."""
        return self._entry.get(key)

    def place(self, key: str) -> str:
        """What to call a value in an error."""
        return self._place(key)

    def table(self, key: str) -> dict[str, str]:
        """An object of texts. Numbers and booleans are a common slip, and what is meant is clear."""
        table = self._entry.get(key, {})
        if not is_object(table):
            raise EntryError(f"{self._place(key)} is {kind_of(table)}; expected an object of texts")
        return {
            name: json.dumps(value)
            if isinstance(value, bool | int | float)
            else self._text(f"{name!r} in {self._place(key)}", value)
            for name, value in table.items()
            if value is not None
        }

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`."""
        value = self._entry.get(key, default)
        if not isinstance(value, bool):
            raise EntryError(f"{self._place(key)} is {kind_of(value)}; expected true or false")
        return value

    def seconds(self, key: str) -> float | None:
        """A length of time."""
        return None if key not in self._entry else float(self._number(key, "a number of seconds"))

    def count(self, key: str) -> int | None:
        """A whole number."""
        if key not in self._entry:
            return None
        value = self._number(key, "a whole number")
        if not isinstance(value, int):
            raise EntryError(f"{self._place(key)} is a fraction; expected a whole number above 0")
        return value

    def flag_or_texts(self, key: str) -> bool | tuple[str, ...]:
        """`true`, `false`, or a list of texts; nothing if it is not there."""
        value = self._entry.get(key)
        if value is None or isinstance(value, bool):
            return value or ()
        if not is_array(value):
            raise EntryError(f"{self._place(key)} is {kind_of(value)}; expected true, false or a list of names")
        return self.texts(key) or ()

    def _place(self, key: str) -> str:
        return f"'{key}'{self._within}"

    def _number(self, key: str, expected: str) -> int | float:
        value: Any = self._entry[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise EntryError(f"{self._place(key)} is {kind_of(value)}; expected {expected}")
        try:
            usable = math.isfinite(value) and value > 0
        except OverflowError:  # an integer beyond every float
            usable = False
        if not usable:
            raise EntryError(f"{self._place(key)} is not above 0 and finite; expected {expected}")
        return value

    def _text(self, place: str, value: object) -> str:
        if not isinstance(value, str):
            raise EntryError(f"{place} is {kind_of(value)}; expected a text")
        if "\0" in value:
            raise EntryError(f"{place} contains a NUL character")
        return value
