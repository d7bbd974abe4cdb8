"""The helper process: `gaia_agents.isolation` starts it, this is what runs in it.

Standard input: JSON lines, first the job, then one path for each file. Standard output: JSON lines, the events of the
task; an event `{"error": text}` is for the client's model. Standard library only, because it starts without
site-packages.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["main"]

JSON = dict[str, Any]
Task = Callable[[JSON, Iterator[str]], Iterator[JSON]]
_MEMORY_BYTES = 1024**3
"""Enough to parse any file that is read; far from what would hurt a desktop."""


def main() -> None:
    """Do the job on standard input."""
    job = json.loads(sys.stdin.buffer.readline())
    _limit(resource.RLIMIT_CPU, int(job["seconds"]) + 1)
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    paths = (json.loads(line) for line in sys.stdin.buffer)
    for event in _task(job["task"])(job, paths):
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def _task(name: str) -> Task:
    """Return the function that does the job; its module is imported only where it is needed, to start fast."""
    if name == "search":
        from gaia_agents.search import search_files

        return search_files
    from gaia_agents.analysis import measure_files

    return measure_files


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses some; the deadline remains
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
