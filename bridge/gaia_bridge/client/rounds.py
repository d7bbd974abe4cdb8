"""The rounds of a modern request: the server asks by way of its result, and is asked again with the answers.

MCP 2026-07-28, SEP-2322.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.results.conversion import is_input_required
from gaia_bridge.settings import UpstreamLimits

__all__ = ["play"]

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
"""Seconds before a request is made again whose result asked nothing: it says "not yet", and must not become a storm."""

Ask = Callable[[JSON], Awaitable[JSON]]
"""Makes the request, with further parameters."""

Answer = Callable[[str, JSON], Awaitable[JSON]]
"""Answers one question: method and parameters."""


async def play(method: str, result: JSON, ask: Ask, answer: Answer, limits: UpstreamLimits) -> JSON:
    """Answer what a result asks, and make the request again, until the result is complete.

    Args:
        method: The request, for errors.
        result: Its first result.
        ask: Makes it again.
        answer: Answers one question; all of a round are put at once.
        limits: How many rounds, and how many questions in one.

    Raises:
        ProtocolError: A question was refused, or the server answered with an error.
        UpstreamError: The server does not come to an end, asks what makes no sense, or failed to answer.
    """
    pause = _FIRST_PAUSE
    for _ in range(limits.max_rounds):
        if not is_input_required(result):
            return result
        questions: Any = result.get("inputRequests") or {}
        if not is_object(questions) or len(questions) > limits.requests_in_result:
            raise UpstreamError(
                f"answered {method} with input requests that are no object, or more than {limits.requests_in_result}"
            )
        more: JSON = {}
        if questions:
            more["inputResponses"] = await _answers(method, questions, answer)
        else:
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        result = await ask(more)
    if is_input_required(result):
        raise UpstreamError(f"asked for input {limits.max_rounds} times without coming to an end of {method}")
    return result


async def _answers(method: str, questions: Mapping[str, Any], answer: Answer) -> JSON:
    answers: JSON = {}
    failure: Exception | None = None

    async def put(key: str, question: Any) -> None:
        nonlocal failure
        try:
            answers[key] = await _answer(method, question, answer)
        except Exception as error:  # raised below, not in the task group, which would wrap it
            failure = failure or error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for key, question in questions.items():
            tasks.start_soon(put, key, question)
    if failure is not None:
        raise failure
    return {key: answers[key] for key in questions}


async def _answer(method: str, question: Any, answer: Answer) -> JSON:
    asked = question.get("method") if is_object(question) else None
    params = question.get("params", {}) if is_object(question) else None
    if not isinstance(asked, str) or not is_object(params):
        raise UpstreamError(f"answered {method} with an input request that is none")
    return await answer(asked, params)
