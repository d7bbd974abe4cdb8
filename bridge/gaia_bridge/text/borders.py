"""Where a text can be cut so that nothing is parted that is one to the eye, such as a letter and its accent."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
_MODIFIERS: Final = ("Mn", "Me", "Sk")
"""Unicode categories of what changes the character before it: marks, variation selectors, tones of skin."""

_LONGEST: Final = 16
"""Characters that are one to the eye, at most, as far as anybody cares."""


def border_before(text: str, place: int) -> int:
    """The last place, not behind the one that is wanted, where the text can be cut."""
    for _ in range(_LONGEST):
        if not _parts(text, place):
            break
        place -= 1
    return place


def border_after(text: str, place: int) -> int:
    """The first place, not before the one that is wanted, where the text can be cut."""
    for _ in range(_LONGEST):
        if not _parts(text, place):
            break
        place += 1
    return place


def _parts(text: str, place: int) -> bool:
    """Whether a cut there parts what belongs together."""
    if not 0 < place < len(text):
        return False
    return text[place - 1] == _JOINER or _continues(text[place]) or text[place - 1 : place + 1] == "\r\n"


def _continues(character: str) -> bool:
    """Whether it belongs to the character before it."""
    return character == _JOINER or unicodedata.combining(character) > 0 or unicodedata.category(character) in _MODIFIERS
