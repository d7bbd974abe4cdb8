"""Text of peers, agents and children, made harmless for a log and a terminal.

Header values are shown by `access_policy.shown` instead: they are bytes, and need quotes to show where they end.
"""

from __future__ import annotations

import re
from typing import Final

MAX_SHOWN = 1_000
"""Characters of one text that a log needs."""

_HIDDEN: Final = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Controls that turn text around, and tags: people see other words than a model reads. Joiners are left alone, which
emoji and several scripts need."""


def printable(text: str, limit: int | None = MAX_SHOWN) -> str:
    """Escape what is no printable character, so that every character which came can be told.

    Args:
        limit: How many of its characters are shown; `None` for all of them.
    """
    shown = text if limit is None or len(text) <= limit else text[:limit] + "..."
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def one_line(text: str, limit: int = 500) -> str:
    """Make text fit for one line that people read: what is no printable character becomes a space.

    Args:
        limit: How many characters the line may have.
    """
    plain = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(plain.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def valid_text(value: str) -> str:
    """`value` with lone surrogates replaced, which JSON in UTF-8 cannot carry."""
    return value.encode("utf-8", "replace").decode("utf-8")


def without_hidden(text: str) -> str:
    """Text for models and people without characters that hide what it says from people."""
    return text if text.isascii() else _HIDDEN.sub("", text)
