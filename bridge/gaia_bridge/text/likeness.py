"""Which name was meant by one that there is not."""

from __future__ import annotations

from collections.abc import Iterable

_TELLING = 3
"""Letters that a name has to have, that longer ones which begin with it are meant by it."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name that is most like another one, whatever the case of letters; `None` if none is."""
    import difflib

    by_lower = {item.lower(): item for item in known}
    like = difflib.get_close_matches(name.lower(), by_lower, 1)
    like += [item for item in by_lower if len(name) >= _TELLING and item.startswith(name.lower())]
    return by_lower[like[0]] if like else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the closest name; empty if there is none. Arguments as for `closest`."""
    found = closest(name, known)
    return "" if found is None else f"did you mean {found!r}?"
