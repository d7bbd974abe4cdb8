r"""The rules of `.gitignore` files (https://git-scm.com/docs/gitignore), entry by entry as git itself decides.

Rules come from cloned repositories and globs from clients, so matching must not backtrack without bound: each path
segment is matched by itself with the standard library's `fnmatch`, whose expressions do not backtrack across a `*`, and
`**` never tries a segment more than once per position. POSIX classes such as `[[:alpha:]]` are not understood.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

__all__ = ["IgnoreRules", "Rule", "parse_rule"]

_MAX_RULE = 1_000
_MAX_RULES = 10_000
"""Longer rules and longer lists are not written by people; the rest is left out."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a `.gitignore`."""

    segments: tuple[re.Pattern[str] | None, ...]
    """One expression for each path segment; `None` is `**`, any number of segments."""
    negated: bool = False
    """Whether it includes again what an earlier rule excluded."""
    folders_only: bool = False
    anchored: bool = False
    """Whether it applies to the whole path from the rule's folder, not to the name alone."""

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Whether the rule names this entry itself (not only a folder above it).

        Args:
            parts: The entry's path from the folder of the rule.
            is_folder: Whether the entry is a folder.
        """
        if self.folders_only and not is_folder:
            return False
        return _match(self.segments, parts if self.anchored else parts[-1:])

    def covers(self, parts: Sequence[str]) -> bool:
        """Whether the rule names this file or a folder above it; the opposite for a negated rule."""
        named = any(self.matches(parts[:end], end < len(parts)) for end in range(1, len(parts) + 1))
        return named is not self.negated


class IgnoreRules:
    """The rules that hold in one folder: its own, and where they say nothing, those of the folders above.

    Args:
        lines: The folder's own rules, first to last.
        depth: How many folders lie between the topmost one and this one.
        above: The rules of the folder above.
    """

    def __init__(self, lines: Iterable[str], depth: int = 0, above: IgnoreRules | None = None) -> None:
        rules = (rule for line in lines if (rule := parse_rule(line)) is not None)
        self._rules = list(islice(rules, _MAX_RULES))[::-1]
        self._depth = depth
        self._above = above

    def ignores(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Whether an entry is excluded; the last rule of the nearest folder that names it decides.

        Args:
            parts: The entry's path from the topmost folder.
            is_folder: Whether the entry is a folder.
        """
        rules: IgnoreRules | None = self
        while rules is not None:
            local = parts[rules._depth :]
            for rule in rules._rules:
                if rule.matches(local, is_folder):
                    return not rule.negated
            rules = rules._above
        return False


def parse_rule(line: str) -> Rule | None:
    """Read one line; `None` for blank lines, comments, and what git could not read either."""
    glob = _without_trailing_blanks(line.removesuffix("\r"))
    if not glob or glob.startswith("#") or len(glob) > _MAX_RULE:
        return None
    negated = glob.startswith("!")
    glob = glob[negated:]
    folders_only = glob.endswith("/")
    glob = glob.removesuffix("/")
    anchored = "/" in glob
    try:
        segments = [None if segment == "**" else _segment(segment) for segment in glob.removeprefix("/").split("/")]
    except ValueError:
        return None
    if segments[-1] is None:
        segments.append(_segment("*"))  # "a/**" names what is inside of "a", not "a" itself
    return Rule(tuple(segments), negated, folders_only, anchored)


def _match(segments: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Glob matching with one way back, to the latest `**`, which is all that is ever needed."""
    at = position = 0
    retry: tuple[int, int] | None = None
    while position < len(parts):
        segment = segments[at] if at < len(segments) else None
        if segment is not None and segment.match(parts[position]):
            at, position = at + 1, position + 1
        elif at < len(segments) and segment is None:
            at += 1
            retry = at, position
        elif retry is not None:
            at, position = retry[0], retry[1] + 1
            retry = at, position
        else:
            return False
    return at == len(segments)


def _segment(glob: str) -> re.Pattern[str]:
    """Compile a glob for one path segment.

    Raises:
        ValueError: A bracket or a backslash has no end.
    """
    parts: list[str] = []
    position = 0
    while position < len(glob):
        char = glob[position]
        if char == "\\":
            parts.append(_literal(glob[position + 1 : position + 2]))
            position += 2
        elif char == "[":
            end = _bracket_end(glob, position)
            parts.append("[" + glob[position + 1 : end].replace("^", "!", glob[position + 1] == "^") + "]")
            position = end + 1
        else:
            parts.append(char)
            position += 1
    return re.compile(fnmatch.translate("".join(parts)))


def _literal(char: str) -> str:
    if not char:
        raise ValueError("nothing after the backslash")
    return f"[{char}]" if char in "*?[" else char


def _bracket_end(glob: str, start: int) -> int:
    """Return the position of the `]` that closes the bracket at `start`; one that comes first stands for itself."""
    first = start + 1 + (glob[start + 1 : start + 2] in ("!", "^"))
    return glob.index("]", first + 1)


def _without_trailing_blanks(line: str) -> str:
    stripped = line.rstrip(" ")
    escaped = (len(stripped) - len(stripped.rstrip("\\"))) % 2 and len(stripped) < len(line)
    return stripped + " " if escaped else stripped
