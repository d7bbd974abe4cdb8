"""Makes text of peers, agents and children harmless for a log and a terminal.

Header values go through `access_policy.shown` instead: they are bytes, and need quotes to show where they end.
"""

from __future__ import annotations

import re
from typing import Final

MAX_SHOWN = 1_000
"""The most characters of one text in a log."""

_HIDDEN: Final = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Controls of the direction of text, and tags: with them, people see other words than a model reads. Joiners are not
among them, since emoji and several scripts need joiners."""


def printable(text: str, limit: int | None = MAX_SHOWN) -> str:
    """Escape characters that are not printable, so that each of them can be recognized.

    Args:
        limit: The most characters shown; `None` for all of them.
    """
    shown = text if limit is None or len(text) <= limit else text[:limit] + "..."
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def one_line(text: str, limit: int = 500) -> str:
    """Make text fit for one line that people read: characters that are not printable become spaces.

    Args:
        limit: The most characters of the line.
    """
    plain = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(plain.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def valid_text(value: str) -> str:
    """Replace lone surrogates, which JSON in UTF-8 cannot carry."""
    return value.encode("utf-8", "replace").decode("utf-8")


def without_hidden(text: str) -> str:
    """Remove characters that hide parts of a text from people, for a text that models and people read."""
    return text if text.isascii() else _HIDDEN.sub("", text)
