"""The rounds of a modern request: the questions of one are answered at once, each by our delegate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio

from gaia_bridge.calls.rounds import Question, RoundsError, play_rounds
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON

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
        answer: Answers one question.
        limits: How many rounds, and how many questions in one.

    Raises:
        ProtocolError: A question was refused, or the server answered with an error.
        UpstreamError: The server does not come to an end, asks what makes no sense, or failed to answer.
    """
    rounds, questions = limits.max_rounds, limits.requests_in_result
    try:
        return await play_rounds(method, result, ask, partial(_answers, answer), rounds=rounds, questions=questions)
    except RoundsError as error:
        raise UpstreamError(str(error)) from None


async def _answers(answer: Answer, questions: Mapping[str, Question]) -> JSON:
    answers: JSON = {}
    failure: Exception | None = None

    async def put(key: str, question: Question) -> None:
        nonlocal failure
        try:
            answers[key] = await answer(question.method, question.params)
        except Exception as error:  # raised below, not in the task group, which would wrap it
            failure = failure or error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for key, question in questions.items():
            tasks.start_soon(put, key, question)
    if failure is not None:
        raise failure
    return {key: answers[key] for key in questions}
