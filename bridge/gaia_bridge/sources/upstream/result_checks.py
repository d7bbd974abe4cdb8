"""Whether a result of a server can be handed on: looked at on the event loop, or in a thread where that takes long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from gaia_bridge.constants import KIB
from gaia_bridge.protocol.json_text import json_size, to_json
from gaia_bridge.protocol.json_types import JSON, MAX_NESTING, is_array, is_object, is_too_deep
from gaia_bridge.protocol.vocabulary import result_problem

__all__ = ["ResultChecker", "with_list"]

_LARGE: Final = 256 * KIB
"""Bytes from which on a result is looked at in a thread: below, that takes a few milliseconds at most."""

_THREADS: Final = 1
"""Results of one server that are looked at in threads at once: more would only take the loop's time from it."""

_BLOCKS: Final = 250
"""Blocks of content that are looked at in one go: nothing else runs meanwhile, also in another thread."""


_LISTS: Final[Mapping[str, str]] = {"tools/call": "content", "prompts/get": "messages", "resources/read": "contents"}
"""The list that a result must have."""


def with_list(method: str, result: JSON) -> JSON:
    """The result with the list that it must have, where the server left it out or wrote null, as Go does for none.

    Structured content is repeated as text then, as servers should do (MCP, server/tools): most clients show models
    nothing else. A result of another type, and one that names a task, is returned unchanged.
    """
    name = _LISTS.get(method)
    if name is None or result.get(name) is not None:
        return result
    if result.get("resultType", "complete") != "complete" or is_object(result.get("task")):
        return result
    structured = result.get("structuredContent") if name == "content" else None
    blocks = (
        []
        if structured is None or is_too_deep(structured)
        else [{"type": "text", "text": to_json(structured).decode()}]
    )
    return {**result, name: blocks}


class ResultChecker:
    """Looks at the results of one server."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def problem(self, method: str, result: JSON) -> str | None:
        """Why a result cannot be handed on; continues "answered METHOD with a result that". `None` if it can.

        Args:
            method: What was asked.
            result: What came, of any size and shape.
        """
        size = json_size(result)
        if size > _LARGE:
            return await anyio.to_thread.run_sync(partial(_problem, method, result, size), limiter=self._threads)
        return _problem(method, result, size)


def _problem(method: str, result: JSON, size: float) -> str | None:
    # A level has two brackets, so that most results need not be looked at.
    if size > 2 * MAX_NESTING and is_too_deep(result):
        return f"is nested deeper than {MAX_NESTING} levels"
    content = result.get("content")
    if not is_array(content) or len(content) <= _BLOCKS:
        problem = result_problem(method, result)
    else:
        problem = next(filter(None, (result_problem(method, part) for part in _parts(result, content))), None)
    return None if problem is None else f"MCP does not allow: {problem}"


def _parts(result: JSON, content: list[Any]) -> Iterator[JSON]:
    """Results that have together what one has; none of them has many blocks."""
    yield result | {"content": []}
    about = {key: value for key, value in result.items() if key != "structuredContent"}
    for start in range(0, len(content), _BLOCKS):
        yield about | {"content": content[start : start + _BLOCKS]}
