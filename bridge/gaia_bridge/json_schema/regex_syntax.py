"""Regular expressions in the syntax that JavaScript (with the `u` flag) and Python share. Pure.

Clients compile the patterns of schemas in their own language, and some refuse every tool because of one pattern that
does not compile there.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_LENGTH: Final = 1_000
"""Characters of a pattern; a longer one is not worth its risk."""

_MAX_REPEATS: Final = 1_000
"""The largest number of repetitions that is taken; some engines unroll them."""

_ESCAPE: Final = r"\\(?:[dDsSwWfnrtv^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4})"
"""What may follow a backslash in both languages, and means the same."""

_IN_CLASS: Final = rf"(?:{_ESCAPE}|\\-|&(?!&)|~(?!~)|\|(?!\|)|[^\\\[\]&|~-])"

_TOKEN: Final = re.compile(
    rf"""
    (?P<open>\((?:\?:|\?=|\?!)?(?!\?))
    | (?P<close>\))
    | (?P<either>\|)
    | (?P<assertion>\^|\$|\\[bB])
    | (?P<repeat>(?:[*+?]|\{{(?P<least>\d{{1,4}})(?:,(?P<most>\d{{1,4}})?)?\}})\??(?![*+?{{]))
    | (?P<class>\[(?!\^\])\^?-?(?:{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\])
    | (?P<atom>{_ESCAPE}|[^\\^$.*+?()\[\]{{}}|]|\.)
    """,
    re.VERBOSE,
)

_RANGE: Final = re.compile(rf"({_IN_CLASS})-({_IN_CLASS})")


def is_common_pattern(pattern: object) -> bool:
    """Whether a value is a pattern that both languages surely compile; others may compile in one of them, or in both.

    Args:
        pattern: What a schema has as `pattern`, or as a key of `patternProperties`.
    """
    if not isinstance(pattern, str) or len(pattern) > _MAX_LENGTH:
        return False
    place, is_repeatable = 0, False
    open_groups: list[bool] = []  # whether each can be repeated: what looks ahead cannot
    while place < len(pattern):
        if (token := _TOKEN.match(pattern, place)) is None:
            return False
        place, kind = token.end(), token.lastgroup
        match kind:
            case "open":
                open_groups.append(token["open"] in ("(", "(?:"))
                is_repeatable = False
            case "close":
                if not open_groups:
                    return False
                is_repeatable = open_groups.pop()
            case "least" | "most" | "repeat":
                if not is_repeatable or not _is_bounded(token["least"], token["most"]):
                    return False
                is_repeatable = False
            case _:
                is_repeatable = kind in ("class", "atom")
                if kind == "class" and not _has_ordered_ranges(token["class"]):
                    return False
    return not open_groups


def _is_bounded(least: str | None, most: str | None) -> bool:
    if least is None:
        return True
    return int(least) <= int(most or least) <= _MAX_REPEATS


def _has_ordered_ranges(characters: str) -> bool:
    """Whether each range of a class goes from one single character to a later one."""
    return all(
        len(start) == len(end) == 1 and start <= end
        for start, end in _RANGE.findall(characters[1:-1].removeprefix("^"))
    )
