"""Suggests an existing name in place of one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

_TELLING = 3
"""The fewest letters of a name for which longer names that begin with it are suggested."""
_MISSPELLED: Final = 3
"""The most names of a message for which others are looked for."""
_COMPARED: Final = 50
"""The most names that are compared with each of these. Names of any origin take a tenth of a second at most."""
_LONGEST: Final = 32
"""The most letters of a name that is compared: the time grows with the square of the length."""


def closest(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name that is most like another one, whatever the case of letters; `None` if none is."""
    import difflib

    by_lower: dict[str, list[str]] = {}
    for item in existing:
        by_lower.setdefault(item.lower(), []).append(item)
    like = difflib.get_close_matches(name.lower(), by_lower, 1)
    like += [item for item in by_lower if len(name) >= _TELLING and item.startswith(name.lower())]
    # Names that differ in case alone, such as a class and its module, are told apart by the case of this name.
    return difflib.get_close_matches(name, by_lower[like[0]], 1, 0)[0] if like else None


def did_you_mean(name: str, existing: Iterable[str]) -> str:
    """Return a hint at the closest name; empty if there is none. Arguments as for `closest`."""
    match = closest(name, existing)
    return "" if match is None else f"did you mean {match!r}?"


def did_you_mean_each(names: Iterable[str], existing: Iterable[str]) -> str:
    """Return a hint at the closest names for the first of several names; empty if there is none.

    Args:
        names: Names that do not exist, of any origin and number.
        existing: The names that exist, of which the first are looked at.
    """
    short = [name for name in islice(existing, _COMPARED) if len(name) <= _LONGEST]
    matches = (closest(name, short) for name in islice(names, _MISSPELLED) if len(name) <= _LONGEST)
    shown = " and ".join(map(repr, dict.fromkeys(filter(None, matches))))
    return f"did you mean {shown}?" if shown else ""
