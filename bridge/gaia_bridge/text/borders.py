"""Finds places to cut a text without splitting a visible character, such as a letter and its accent."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
_MODIFIERS: Final = ("Mn", "Me", "Sk")
"""Unicode categories of characters that modify the one before: marks, variation selectors, tones of skin."""

_LONGEST: Final = 16
"""The most code points of one visible character that are considered."""


def border_before(text: str, place: int) -> int:
    """Return the last place, at or before the given one, where the text can be cut."""
    for _ in range(_LONGEST):
        if not _parts(text, place):
            break
        place -= 1
    return place


def border_after(text: str, place: int) -> int:
    """Return the first place, at or after the given one, where the text can be cut."""
    for _ in range(_LONGEST):
        if not _parts(text, place):
            break
        place += 1
    return place


def _parts(text: str, place: int) -> bool:
    """Whether a cut at a place splits a visible character or a line end."""
    if not 0 < place < len(text):
        return False
    return text[place - 1] == _JOINER or _continues(text[place]) or text[place - 1 : place + 1] == "\r\n"


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return character == _JOINER or unicodedata.combining(character) > 0 or unicodedata.category(character) in _MODIFIERS
