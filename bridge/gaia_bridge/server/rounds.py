"""Brings a request to its end for clients that cannot play rounds: sends the questions of a result to the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, Self, TypeVar

import anyio

from gaia_bridge.calls.results.conversion import is_input_required
from gaia_bridge.calls.rounds import InputRequest, RoundsError, play_rounds
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INTERNAL_ERROR, AnswerError, ProtocolError
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON


class RoundRequest(ClientRequest, Protocol):
    """A request that can be made again."""

    def next_round(self, responses: Mapping[str, JSON], state: str | None, /) -> Self:
        """Return the same request with the answers to the questions of its result."""
        ...


_Request = TypeVar("_Request", bound=RoundRequest)


async def brought_to_an_end(ask: Callable[[_Request], Awaitable[JSON]], call: _Request, limits: AgentLimits) -> JSON:
    """Make a request until a result asks for nothing; clients of 2026-07-28 play rounds by themselves.

    Raises:
        ProtocolError: The source keeps asking, or asks what makes no sense.
        AnswerError: The client does not answer.
    """
    result = await ask(call)
    if call.modern or not is_input_required(result):
        return result

    async def again(more: JSON) -> JSON:
        return await ask(call.next_round(more.get("inputResponses") or {}, more.get("requestState")))

    async def answer(questions: Mapping[str, InputRequest]) -> JSON:
        return {key: await _pushed(question, call, limits.question_timeout) for key, question in questions.items()}

    try:
        return await play_rounds(
            call.method, result, again, answer, rounds=limits.max_rounds, questions=limits.requests_in_result
        )
    except RoundsError as error:
        raise ProtocolError(INTERNAL_ERROR, f"The server {error}") from None


async def _pushed(question: InputRequest, call: ClientRequest, patience: float) -> JSON:
    try:
        with anyio.fail_after(patience):
            return await call.push(question.method, question.params)
    except TimeoutError:
        raise AnswerError(f"the client did not answer {question.method} within {patience:g} s") from None
