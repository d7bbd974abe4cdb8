"""Searching files line by line. Runs in the helper process, because a pattern may take for ever."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gaia_agents.files import FileTooLargeError, decode, lines_of, read_below

__all__ = ["search_files"]

_MAX_FILE_BYTES = 10 * 1024 * 1024
"""Larger files are data, not code."""
_MAX_SHOWN = 400
"""Characters of a line that are shown: minified code has lines of megabytes."""
_FILES_PER_EVENT = 50

JSON = dict[str, Any]


def search_files(job: JSON, paths: Iterable[str]) -> Iterator[JSON]:
    """Find the lines that match, at most one match in each line.

    Args:
        job: `pattern`, `literal`, `ignore_case`, `context_lines` and `max_results`.
        paths: The files.

    Yields:
        `{"match": ...}` for each line found, `{"searched": files, "skipped": files}` now and then and at the end, and
        `{"more": true}` if there were more matches than asked for; `{"error": text}` if the pattern is none.
    """
    try:
        pattern = re.compile(
            re.escape(job["pattern"]) if job["literal"] else job["pattern"],
            re.IGNORECASE if job["ignore_case"] else 0,
        )
    except (re.error, RecursionError, OverflowError) as error:
        shown = repr(job["pattern"][:200])
        yield {"error": f"{shown} is no regular expression: {error}; set literal to true to find plain text"}
        return
    matches = searched = skipped = 0
    for path in paths:
        lines = _lines(path)
        searched, skipped = searched + (lines is not None), skipped + (lines is None)
        for match in _matches(pattern, path, lines or [], job["context_lines"]):
            if matches == job["max_results"]:
                yield {"more": True, "searched": searched, "skipped": skipped}
                return
            matches += 1
            yield {"match": match}
        if (searched + skipped) % _FILES_PER_EVENT == 0:
            yield {"searched": searched, "skipped": skipped}
    yield {"searched": searched, "skipped": skipped}


def _lines(path: str) -> list[str] | None:
    """Return the lines of a text file; `None` for everything else."""
    try:
        text = decode(read_below(".", path, _MAX_FILE_BYTES))
    except (FileTooLargeError, OSError):
        return None
    return None if text is None else lines_of(text.value)


def _matches(pattern: re.Pattern[str], path: str, lines: list[str], context: int) -> Iterator[JSON]:
    for index, line in enumerate(lines):
        match = pattern.search(line)
        if match is None:
            continue
        shown: JSON = {"path": path, "line": index + 1, "column": match.start() + 1, "text": _clip(line, match.start())}
        if context:
            shown["before"] = [_clip(near) for near in lines[max(0, index - context) : index]]
            shown["after"] = [_clip(near) for near in lines[index + 1 : index + 1 + context]]
        yield shown


def _clip(line: str, around: int = 0) -> str:
    """`line`, or the part of it around a position, with … where something was left out."""
    if len(line) <= _MAX_SHOWN:
        return line
    start = max(0, min(around - _MAX_SHOWN // 4, len(line) - _MAX_SHOWN))
    end = start + _MAX_SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
