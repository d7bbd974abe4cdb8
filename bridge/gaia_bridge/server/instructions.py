"""Instructions of several sources within a client's limit: the short ones whole, the long ones cut fairly.

A text that is cut is a resource that can be read whole, and a note where it is cut says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from gaia_bridge.text.borders import border_before

INSTRUCTIONS_SCHEME: Final = "gaia-instructions://"
_NOTE: Final = (
    f"What ends in […], or is left out, is too long here: all of it is a resource, {INSTRUCTIONS_SCHEME}NAME.\n\n"
)
_LEAST: Final = 80
"""Units of a text that are worth sending; a source with less room is left out, as its resource can be read."""
_ENDS: Final = ("\n", ". ", "! ", "? ", "。")


def whole(parts: Sequence[tuple[str, str]]) -> str:
    """Return all instructions, each below the name of its source."""
    return "\n\n".join(f"{_heading(name)}{text}" for name, text in parts)


def fitted(parts: Sequence[tuple[str, str]], limit: int) -> str:
    """Return the same within a number of UTF-16 units, which is what clients written in JavaScript count.

    The room is shared out so that no source is cut while another has more (max-min fairness). The order stays.
    """
    text = whole(parts)
    if _units(text) <= limit:
        return text
    sizes = sorted((_units(text), place) for place, (_, text) in enumerate(parts))
    headings = [_units(_heading(name)) + 2 for name, _ in parts]
    room = limit - _units(_NOTE) + 2 - sum(headings)
    level = _level([size for size, _ in sizes], room)
    while sizes and sizes[-1][0] > level < _LEAST:
        _, place = sizes.pop()
        room += headings[place]
        level = _level([size for size, _ in sizes], room)
    if not sizes:
        return _cut(_NOTE.rstrip(), limit)
    left = sorted(place for _, place in sizes)
    return _NOTE + whole([(parts[place][0], _cut(parts[place][1], level, "[…]")) for place in left])


def fitted_alone(source: str, text: str, limit: int) -> str:
    """Return the instructions of a single source, without a heading, within a number of UTF-16 units."""
    return _cut(text, limit, f"[… all of it: resource {instructions_uri(source)}]")


def instructions_uri(source: str) -> str:
    """Return the URI of the resource that holds all instructions of a source."""
    return INSTRUCTIONS_SCHEME + quote(source, safe="")


def _heading(name: str) -> str:
    return f"## {name}\n\n"


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the length that each text may have so that all fit; the lengths begin with the shortest."""
    for place, size in enumerate(sizes):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def _cut(text: str, limit: int, mark: str = "") -> str:
    """Return the beginning of a text, up to the end of a line, sentence or word; then a mark, if there is room."""
    if _units(text) <= limit:
        return text
    room = limit - _units(mark) - 1
    if not mark or room <= 0:
        return _beginning(text, limit)
    beginning = _beginning(text, room)
    least = len(beginning) // 2
    ends = [place + len(end.rstrip()) for end in _ENDS if (place := beginning.rfind(end, least)) >= 0]
    end = max(ends) if ends else max(beginning.rfind(" ", least), 0) or len(beginning)
    return f"{beginning[:end].rstrip()} {mark}"


def _beginning(text: str, limit: int) -> str:
    """Return as many characters as have so many units, without parting those that look like one."""
    end = max(limit, 0)
    while (over := _units(text[:end]) - limit) > 0 and end:
        end -= (over + 1) // 2  # a character has one or two units
    return text[: border_before(text, end)]
