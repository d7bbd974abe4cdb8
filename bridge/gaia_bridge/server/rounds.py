"""Brings a request to its end for clients that cannot play rounds: what a result asks for is put to the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from gaia_bridge.errors import INTERNAL_ERROR, AnswerError, ProtocolError
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.results.conversion import is_input_required
from gaia_bridge.settings import AgentLimits

if TYPE_CHECKING:
    from gaia_bridge.server.call import Call

__all__ = ["play_rounds"]


async def play_rounds(ask: Callable[[Call], Awaitable[JSON]], call: Call, limits: AgentLimits) -> JSON:
    """Ask until there is a result that asks for nothing; clients of 2026-07-28 play rounds by themselves.

    Args:
        ask: Asks the source.
        call: The client's request.
        limits: How many rounds there may be, and how long a question may stay open.

    Raises:
        ProtocolError: The source keeps asking.
        AnswerError: The client does not answer.
    """
    result = await ask(call)
    if call.modern:
        return result
    for _ in range(limits.max_rounds):
        if not is_input_required(result):
            return result
        asked: Mapping[str, JSON] = result.get("inputRequests") or {}
        answers = {key: await _pushed(item, call, limits.question_timeout) for key, item in asked.items()}
        result = await ask(call.next_round(answers, result.get("requestState")))
    if is_input_required(result):
        raise ProtocolError(
            INTERNAL_ERROR, f"The server asked for input {limits.max_rounds} times without coming to an end"
        )
    return result


async def _pushed(question: JSON, call: Call, patience: float) -> JSON:
    """The client's answer to one question of an `input_required` result."""
    method: str = question["method"]
    try:
        with anyio.fail_after(patience):
            return await call.push(method, question.get("params") or {})
    except TimeoutError:
        raise AnswerError(f"the client did not answer {method} within {patience:g} s") from None
