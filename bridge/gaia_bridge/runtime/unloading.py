"""Modules that are about to be imported anew, for those who keep something of what modules define."""

from __future__ import annotations

from collections.abc import Callable, Collection

Forgets = Callable[[Collection[str]], Callable[[Collection[str]], None]]
"""Forgets what the named modules had defined; returns what remembers that again, for the modules that stay."""

_forgetting: list[Forgets] = []


def on_unload(forget: Forgets) -> None:
    """Register somebody who keeps something of what modules define, for the life of the process."""
    _forgetting.append(forget)


def unload(modules: Collection[str]) -> Callable[[Collection[str]], None]:
    """Have everybody forget what these modules had defined.

    Returns:
        What undoes it for the modules that it is called with, which could not be imported anew.
    """
    undo = [forget(modules) for forget in _forgetting]

    def remember(stay: Collection[str]) -> None:
        for remembers in undo:
            remembers(stay)

    return remember
