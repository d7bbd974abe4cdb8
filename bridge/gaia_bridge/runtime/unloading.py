"""Callbacks for modules that are about to be imported anew, for code that caches objects of modules."""

from __future__ import annotations

from collections.abc import Callable, Collection

Forgets = Callable[[Collection[str]], Callable[[Collection[str]], None]]
"""Drops cached objects of the named modules; returns a function that restores those of the modules it is given."""

_forgetting: list[Forgets] = []


def on_unload(forget: Forgets) -> None:
    """Register a callback that drops cached objects of modules, for the life of the process."""
    _forgetting.append(forget)


def unload(modules: Collection[str]) -> Callable[[Collection[str]], None]:
    """Drop all cached objects of these modules.

    Returns:
        A function that restores those of the modules it is called with, which could not be imported anew.
    """
    undo = [forget(modules) for forget in _forgetting]

    def remember(stay: Collection[str]) -> None:
        for remembers in undo:
            remembers(stay)

    return remember
