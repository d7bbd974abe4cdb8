"""Why an entry of a configuration file cannot be used, in words that show no value: values may be secrets."""

from __future__ import annotations


class EntryError(ValueError):
    """One entry cannot be used; the others can. The text names the key and what was expected there."""


class MissingReferenceError(EntryError):
    """A reference of the entry leads nowhere here and now; elsewhere or later the entry may be usable as it is."""


def kind_of(value: object) -> str:
    """What a decoded JSON value is, for a sentence: `a list`."""
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
