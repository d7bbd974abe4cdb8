"""The values of one entry, checked by type: a value of another type raises an error that names its key."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from gaia_bridge.config.problems import EntryError, kind_of
from gaia_bridge.text.json_types import JSON, is_array, is_object

T = TypeVar("T", bound=str)


class Values:
    """The values of an entry by type. A key with `null` counts as absent.

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
        """Return a text."""
        return self._text(self.place(key), self._entry[key]) if key in self._entry else None

    def choice(self, key: str, *choices: T) -> T | None:
        """Return one of certain texts."""
        value = self.text(key)
        for choice in choices:
            if choice == value:
                return choice
        if value is None:
            return None
        expected = " or ".join(f'"{choice}"' for choice in choices)
        raise EntryError(f"{self.place(key)} has a value that is not known; expected {expected}")

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts."""
        items = self._entry.get(key)
        if items is None:
            return None
        if not is_array(items):
            raise EntryError(f"{self.place(key)} is {kind_of(items)}; expected a list of texts")
        return tuple(self._text(f"item {number} of {self.place(key)}", item) for number, item in enumerate(items, 1))

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts, or the words of one text."""
        if not isinstance(self._entry.get(key), str):
            return self.texts(key)
        return tuple((self.text(key) or "").split())

    def section(self, key: str) -> Values | None:
        """Return an object with values of its own, empty if absent; `None` where the entry has `false`."""
        section = self._entry.get(key, {})
        if section is False:
            return None
        if not is_object(section):
            kind = "true" if section is True else kind_of(section)
            raise EntryError(f"{self.place(key)} is {kind}; expected an object, or false")
        return Values(section, key)

    def sections(self, key: str) -> dict[str, Values]:
        """Return an object of objects, each with values of its own."""
        table = self._entry.get(key, {})
        if not is_object(table):
            raise EntryError(f"{self.place(key)} is {kind_of(table)}; expected an object of objects")
        sections: dict[str, Values] = {}
        for name, section in table.items():
            if section is None:
                continue
            path = f"{self._path}{key}.{name}"
            if not is_object(section):
                raise EntryError(f"'{path}' is {kind_of(section)}; expected an object")
            sections[name] = Values(section, path)
        return sections

    def anything(self, key: str) -> Any:
        """Return any JSON value, as it is; `None` if it is absent."""
        return self._entry.get(key)

    def table(self, key: str) -> dict[str, str]:
        """Return an object of texts. Numbers and booleans are a common slip and clear enough: they become texts."""
        table = self._entry.get(key, {})
        if not is_object(table):
            raise EntryError(f"{self.place(key)} is {kind_of(table)}; expected an object of texts")
        return {
            name: json.dumps(value)
            if isinstance(value, bool | int | float)
            else self._text(f"{name!r} in {self.place(key)}", value)
            for name, value in table.items()
            if value is not None
        }

    def flag(self, key: str, default: bool) -> bool:
        """Return `true` or `false`."""
        value = self._entry.get(key, default)
        if not isinstance(value, bool):
            raise EntryError(f"{self.place(key)} is {kind_of(value)}; expected true or false")
        return value

    def seconds(self, key: str) -> float | None:
        """Return a number of seconds."""
        return None if key not in self._entry else float(self._number(key, "a number of seconds"))

    def count(self, key: str) -> int | None:
        """Return a whole number."""
        if key not in self._entry:
            return None
        value = self._number(key, "a whole number")
        if not isinstance(value, int):
            raise EntryError(f"{self.place(key)} is a fraction; expected a whole number above 0")
        return value

    def flag_or_texts(self, key: str) -> bool | tuple[str, ...]:
        """Return `true`, `false`, or a list of texts; an empty one if the key is absent."""
        value = self._entry.get(key)
        if value is None or isinstance(value, bool):
            return value or ()
        if not is_array(value):
            raise EntryError(f"{self.place(key)} is {kind_of(value)}; expected true, false or a list of names")
        return self.texts(key) or ()

    def place(self, key: str) -> str:
        """Return the name of a value for an error."""
        return f"'{key}'{self._within}"

    def _number(self, key: str, expected: str) -> int | float:
        value: Any = self._entry[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise EntryError(f"{self.place(key)} is {kind_of(value)}; expected {expected}")
        try:
            usable = math.isfinite(value) and value > 0
        except OverflowError:  # an integer beyond every float
            usable = False
        if not usable:
            raise EntryError(f"{self.place(key)} is not above 0 and finite; expected {expected}")
        return value

    def _text(self, place: str, value: object) -> str:
        if not isinstance(value, str):
            raise EntryError(f"{place} is {kind_of(value)}; expected a text")
        if "\0" in value:
            raise EntryError(f"{place} contains a NUL character")
        return value
