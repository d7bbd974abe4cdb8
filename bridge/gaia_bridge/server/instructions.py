"""Instructions of several sources within what a client takes of them: the short ones whole, the long ones cut fairly.

What is cut is a resource that can be read whole, and says so where it is cut.
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
"""Units of a text that are worth being told; of less a source is left out, as it can be read."""

_ENDS: Final = ("\n", ". ", "! ", "? ", "。")


def whole(parts: Sequence[tuple[str, str]]) -> str:
    """All instructions, each below the name of its source.

    Args:
        parts: Name and instructions of each source.
    """
    return "\n\n".join(f"{_heading(name)}{text}" for name, text in parts)


def fitted(parts: Sequence[tuple[str, str]], limit: int) -> str:
    """The same within a number of UTF-16 units, which is what clients written in JavaScript count.

    What there is is shared out so that no source is cut while another has more (max-min fairness). The order stays.

    Args:
        parts: Name and instructions of each source.
    """
    text = whole(parts)
    if _units(text) <= limit:
        return text
    told = [(_units(text), place) for place, (_, text) in enumerate(parts)]
    told.sort()
    headings = [_units(_heading(name)) + 2 for name, _ in parts]
    room = limit - _units(_NOTE) + 2 - sum(headings)
    level = _level([size for size, _ in told], room)
    while told and told[-1][0] > level < _LEAST:
        _, place = told.pop()
        room += headings[place]
        level = _level([size for size, _ in told], room)
    if not told:
        return _cut(_NOTE.rstrip(), limit)
    left = sorted(place for _, place in told)
    return _NOTE + whole([(parts[place][0], _cut(parts[place][1], level, "[…]")) for place in left])


def fitted_alone(source: str, text: str, limit: int) -> str:
    """Instructions of a single source, which are told as they are.

    Args:
        limit: UTF-16 units.
    """
    return _cut(text, limit, f"[… all of it: resource {instructions_uri(source)}]")


def instructions_uri(source: str) -> str:
    """The resource that holds all that a source has to say."""
    return INSTRUCTIONS_SCHEME + quote(source, safe="")


def _heading(name: str) -> str:
    return f"## {name}\n\n"


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _level(sizes: Sequence[int], room: int) -> int:
    """How much each text may have, so that all together have no more than there is room for.

    Args:
        sizes: How long the texts are, the shortest first.
    """
    for place, size in enumerate(sizes):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def _cut(text: str, limit: int, mark: str = "") -> str:
    """The beginning of a text, up to the end of a line, a sentence or a word; then a mark, if there is room for it."""
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
    """As many characters as have so many units; what is one to the eye is not parted."""
    end = max(limit, 0)
    while (over := _units(text[:end]) - limit) > 0 and end:
        end -= (over + 1) // 2
    return text[: border_before(text, end)]
