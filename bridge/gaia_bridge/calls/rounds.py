"""The rounds of a request whose result asks for input: the request is made again until a result asks for nothing.

MCP 2026-07-28, SEP-2322. The parties that are asked differ, and the ways of asking; the rounds are the same for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import anyio

from gaia_bridge.calls.results.conversion import is_input_required
from gaia_bridge.text.json_types import JSON, is_object

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
"""Seconds before a request is made again whose result asked nothing: it means "not yet". They prevent a storm."""


class RoundsError(Exception):
    """The questions of a server never end, or make no sense. The text continues a sentence with its name."""


class InputRequest(NamedTuple):
    """One thing that a result asks for."""

    method: str
    params: JSON


Again = Callable[[JSON], Awaitable[JSON]]
"""A function that makes the request again, with `inputResponses` and `requestState`, where there are any."""
Answer = Callable[[Mapping[str, InputRequest]], Awaitable[JSON]]
"""A function that answers the questions of one result, by their keys."""


async def play_rounds(method: str, result: JSON, again: Again, answer: Answer, *, rounds: int, questions: int) -> JSON:
    """Answer the questions of a result, and make the request again, until a result asks for nothing.

    There are at most so many rounds, of so many questions each.

    Raises:
        RoundsError: The rounds come to no end, or a question makes no sense.
    """
    pause = _FIRST_PAUSE
    for _ in range(rounds):
        if not is_input_required(result):
            return result
        more: JSON = {}
        if asked := _questions(method, result, questions):
            more["inputResponses"] = await answer(asked)
        else:
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        result = await again(more)
    if is_input_required(result):
        raise RoundsError(f"asked for input {rounds} times without coming to an end of {method}")
    return result


def _questions(method: str, result: JSON, most: int) -> dict[str, InputRequest]:
    asked: Any = result.get("inputRequests") or {}
    if not is_object(asked) or len(asked) > most:
        raise RoundsError(f"answered {method} with input requests that are no object, or more than {most}")
    return {key: _question(method, item) for key, item in asked.items()}


def _question(method: str, item: Any) -> InputRequest:
    asked, params = (item.get("method"), item.get("params")) if is_object(item) else (None, None)
    if not isinstance(asked, str) or not (params is None or is_object(params)):
        raise RoundsError(f"answered {method} with an input request that is none")
    return InputRequest(asked, params or {})
