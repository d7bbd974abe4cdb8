"""Checks whether a result of a server can be passed on: on the event loop, or in a thread if that takes long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.constants import KIB
from gaia_bridge.protocol.content import RESULTS
from gaia_bridge.protocol.definition_repairs import repaired_result
from gaia_bridge.protocol.vocabulary import is_complete, result_problem
from gaia_bridge.text.json_text import measure
from gaia_bridge.text.json_types import JSON, MAX_NESTING, is_array, is_object

_LARGE: Final = 256 * KIB
"""Bytes from which on a result is checked in a thread: below, that takes a few milliseconds at most."""
_THREADS: Final = 1
"""Results of one server that are checked in threads at once: more would only take time from the event loop."""
_BLOCKS: Final = 250
"""Blocks of content that are checked in one go: nothing else runs meanwhile, even from another thread."""
_LISTS: Final[Mapping[str, str]] = {"tools/call": "content", "prompts/get": "messages", "resources/read": "contents"}


def with_list(method: str, result: JSON) -> JSON:
    """Return the result with its list, where the server left that out or wrote null, as servers in Go do for none.

    A result of another type, and one that names a task, is returned unchanged.
    """
    name = _LISTS.get(method)
    if name is None or result.get(name) is not None:
        return result
    if result.get("resultType", "complete") != "complete" or is_object(result.get("task")):
        return result
    return {**result, name: []}


class ResultChecker:
    """Checks the results of one server."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def checked(self, method: str, result: JSON) -> JSON:
        """Return the result in a form that can be passed on.

        Raises:
            UpstreamError: The result cannot be passed on; the message says why.
        """
        size, is_too_deep = measure(result)
        if is_too_deep:
            raise UpstreamError(f"answered {method} with a result that is nested deeper than {MAX_NESTING} levels")
        if size <= _LARGE and "task" not in result and result.get("resultType", "complete") == "complete":
            shape = RESULTS.get(method)
            if shape is not None and shape.is_plain(result):  # as nearly all are; a "no" may be wrong
                return result
        result = with_list(method, result)
        if size > _LARGE:
            check = partial(_checked, method, result)
            result, problem = await anyio.to_thread.run_sync(check, limiter=self._threads)
        else:
            result, problem = _checked(method, result)
        if problem is not None:
            raise UpstreamError(f"answered {method} with a result that {problem}")
        return result


def _checked(method: str, result: JSON) -> tuple[JSON, str | None]:
    if is_complete(method, result):
        if all(map(RESULTS[method].is_plain, _parts(result))):
            return result, None
        result = repaired_result(method, result)
    problem = next(filter(None, (result_problem(method, part) for part in _parts(result))), None)
    return result, None if problem is None else f"MCP does not allow: {problem}"


def _parts(result: JSON) -> Sequence[JSON]:
    """Return results that together have the blocks of one; none of them has many blocks."""
    content = result.get("content")
    if not is_array(content) or len(content) <= _BLOCKS:
        return (result,)
    about = {key: value for key, value in result.items() if key != "structuredContent"}
    starts = range(0, len(content), _BLOCKS)
    return [result | {"content": []}, *(about | {"content": content[at : at + _BLOCKS]} for at in starts)]
