"""Measuring files: lines, to-do marks, and for Python what its syntax tree says. Runs in the helper process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gaia_agents.files import FileTooLargeError, decode, lines_of, read_below
from gaia_agents.languages import language_of
from gaia_agents.python_facts import python_facts

__all__ = ["measure_files", "measure_text"]

_MAX_FILE_BYTES = 2 * 1024 * 1024
"""Bytes of a file at most: more is not written by hand, and a syntax tree takes a hundred times its source."""
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")

JSON = dict[str, Any]


def measure_files(job: JSON, paths: Iterable[str]) -> Iterator[JSON]:
    """Measure each file.

    Args:
        job: `syntax`: whether to parse Python.
        paths: The files.

    Yields:
        `{"report": ...}` for each text file as `measure_text` makes it, `{"skipped": reason, "path": ...}` for others.
    """
    for path in paths:
        try:
            data = read_below(".", path, _MAX_FILE_BYTES)
        except FileTooLargeError as error:
            yield {"path": path, "skipped": f"it has {error}"}
            continue
        except OSError as error:
            yield {"path": path, "skipped": f"it cannot be read: {error.strerror or error}"}
            continue
        text = decode(data)
        if text is None:
            yield {"path": path, "skipped": "it is binary"}
            continue
        report = measure_text(path, text.value, len(data))
        if job["syntax"] and report["language"] == "Python":
            report["python"] = python_facts(data)
        yield {"report": report}


def measure_text(path: str, text: str, size: int) -> JSON:
    """Count what can be counted in any text.

    Returns:
        `path`, `language`, `bytes`, `todos` and `lines` with `total`, `blank`, `longest` and `comment`; the last is
        `None` for languages without line comments. `todos` counts lines with TODO, FIXME, XXX or HACK behind a
        comment sign, or anywhere where the language has none.
    """
    language = language_of(path)
    lines = lines_of(text)
    stripped = [line.strip() for line in lines]
    comment = sum(line.startswith(language.comments) for line in stripped) if language.comments else None
    return {
        "path": path,
        "language": language.name,
        "bytes": size,
        "lines": {
            "total": len(lines),
            "blank": sum(not line for line in stripped),
            "comment": comment,
            "longest": max(map(len, lines), default=0),
        },
        "todos": sum(_has_todo(line, language.comments) for line in stripped),
    }


def _has_todo(line: str, comments: tuple[str, ...]) -> bool:
    if not comments:
        return _TODO.search(line) is not None
    starts = [start for sign in comments if (start := line.find(sign)) >= 0]
    return bool(starts) and _TODO.search(line, min(starts)) is not None
