"""What a bridge leaves in the folder of its sockets: its lock and its logs, removed once nobody needs them.

A bridge that ends as it should leaves nothing. The log of one that failed stays, since its front names it: until
`gaia-bridge down`, or for some days.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from gaia_bridge_daemon.front.launching import BridgeDownError, alone, connected
from gaia_bridge_daemon.front.place import Place

_ENDINGS = (".front.sock", ".sock", ".lock", ".log", ".log.1")
"""Of all files of a place; the longer ones first."""


def remove_left(place: Place, patience: float = 0) -> bool:
    """Remove what is left of a bridge, unless one runs there or is being started; whether there was anything.

    Args:
        place: Where it was.
        patience: Seconds to wait for whoever is starting one.
    """
    if not files_of(place):
        return False
    try:
        with alone(place, time.monotonic() + patience):
            if (running := connected(place)) is not None:
                running.close()
                return False
            found = [path for path in files_of(place) if path != place.lock]
            for path in (*found, place.lock):  # the lock last: until then, others wait for it
                with suppress(FileNotFoundError):
                    os.unlink(path)
            return bool(found)
    except (OSError, BridgeDownError):  # somebody is busy there
        return False


def places_left(folder: str) -> list[Place]:
    """All places of which there is a file, whether a bridge runs there or not.

    Args:
        folder: Of the sockets.
    """
    found: set[str] = set()
    for name in os.listdir(folder):
        ending = next((ending for ending in _ENDINGS if name.endswith(ending)), None)
        if ending is not None:
            found.add(name.removesuffix(ending))
    return [Place(folder, name) for name in sorted(found)]


def remove_old(folder: str, seconds: float) -> None:
    """Remove what has been left for long.

    Args:
        folder: Of the sockets.
        seconds: How long.
    """
    for place in places_left(folder):
        if is_old(place, seconds):
            remove_left(place)


def is_old(place: Place, seconds: float) -> bool:
    """Whether something is left at a place, all of it for long.

    Args:
        place: Where a bridge was.
        seconds: How long.
    """
    try:
        # Where another bridge has removed everything meanwhile, there is nothing left.
        latest = max((os.stat(path).st_mtime for path in files_of(place)), default=None)
    except OSError:  # just now
        return False
    return latest is not None and latest < time.time() - seconds


def files_of(place: Place) -> list[str]:
    """The files that are there of a place."""
    known = (place.front, place.http, place.log, f"{place.log}.1", place.lock)
    return [path for path in known if os.path.lexists(path)]
