"""The errors of an entry of a configuration file. They show no value: values may be secrets."""

from __future__ import annotations


class EntryError(ValueError):
    """An entry cannot be used; the others can. The text names the key and the expected value."""


class MissingReferenceError(EntryError):
    """A reference of the entry has no value here and now; elsewhere or later the entry may be usable as it is."""


def kind_of(value: object) -> str:
    """Return the kind of a decoded JSON value, for a sentence: `a list`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
