"""Suggests an existing name in place of one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

_TELLING = 3
"""The fewest letters of a name for which longer names that begin with it are suggested."""


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
