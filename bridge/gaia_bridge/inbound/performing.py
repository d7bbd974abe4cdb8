"""Runs agent code for a client's request: start or resume, relay what it says, answer what it asks, bound it all."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from gaia_bridge.context import RequestContext, request_scope
from gaia_bridge.contract import JSON, ClientRequest
from gaia_bridge.errors import (
    INVALID_PARAMS,
    AnswerError,
    ClientCapabilityError,
    ProtocolError,
    RequestCancelledError,
    RequestError,
    ToolError,
)
from gaia_bridge.inbound.agent_call import AgentCall, Question
from gaia_bridge.inbound.parking import Parking
from gaia_bridge.jsontypes import is_object
from gaia_bridge.results import as_protocol_error, failure_text, is_input_required
from gaia_bridge.runtime import AgentRunner, Outcome
from gaia_bridge.settings import AgentLimits
from gaia_bridge.wire import CAPABILITY_OF, result_problem

__all__ = ["Performer"]

logger = logging.getLogger(__name__)

_PARKED = "parked:"
_AGENT_STATE = "agent:"
"""What a `requestState` of ours begins with, once opened: a parked call's handle, or the agent's own text."""


@dataclass(frozen=True, slots=True)
class _Parked:
    """The agent asked something that only the client's next request can answer."""

    result: JSON


class Performer:
    """The way from a request into one agent's code and back.

    Args:
        runner: The agent's threads and loop.
        limits: Deadlines and bounds.
    """

    def __init__(self, runner: AgentRunner, limits: AgentLimits) -> None:
        self._runner = runner
        self._limits = limits
        self._parking = Parking(runner.name, limits.max_parked, limits.question_timeout)

    async def perform(
        self, call: Callable[[], Any], request: ClientRequest, what: str, convert: Callable[[Any], JSON]
    ) -> JSON:
        """Run agent code and return its wire result.

        Args:
            call: The agent's method with its arguments.
            request: On whose behalf.
            what: What fails if it fails, as the peer knows it: `tool 'x'`.
            convert: Turns what the agent returned into a wire result.

        Raises:
            RequestError: The failure, in words that a peer may read.
        """
        value = await self._run(call, request, what)
        return value.result if isinstance(value, _Parked) else self._checked(convert(value), request.method)

    def close(self) -> None:
        """Cancel the calls that wait for a client."""
        self._parking.close()

    async def _run(self, call: Callable[[], Any], request: ClientRequest, what: str) -> Any:
        active = self._resumed(request) or self._started(call, request)
        with anyio.move_on_after(self._limits.call_timeout) as deadline:
            try:
                while not await active.advance(request):
                    _refuse_undeclared(active.questions, request.client_capabilities)
                    if request.modern and active.questions:
                        return self._park(active)
                    await self._push(active.questions, request)
            except BaseException:
                active.cancel(f"{what} took too long" if deadline.cancel_called else "the client cancelled the request")
                raise
        if active.outcome is None:
            raise RequestCancelledError(f"{what} did not finish within {self._limits.call_timeout:g} s")
        return self._value(active.outcome, what)

    def _started(self, call: Callable[[], Any], request: ClientRequest) -> AgentCall:
        active = AgentCall(self._limits.notes, self._limits.log_bytes)
        state = request.request_state
        context = RequestContext(active, request, None if state is None else state.removeprefix(_AGENT_STATE))
        active.job = self._runner.start(call, request_scope(context), active.finish)
        return active

    def _resumed(self, request: ClientRequest) -> AgentCall | None:
        state = request.request_state
        if state is None or not state.startswith(_PARKED):
            return None
        active = self._parking.take(state.removeprefix(_PARKED))
        if active is None:
            raise ProtocolError(INVALID_PARAMS, "The call that asked is no longer there; call again from the start")
        for question in active.questions:
            if (answer := request.input_responses.get(question.key)) is not None:
                question.answer(dict(answer))
        return active

    def _park(self, active: AgentCall) -> _Parked:
        questions = {item.key: {"method": item.method, "params": item.params} for item in active.questions}
        state = _PARKED + self._parking.park(active)
        return _Parked({"resultType": "input_required", "inputRequests": questions, "requestState": state})

    async def _push(self, questions: list[Question], request: ClientRequest) -> None:
        for question in questions:
            try:
                with anyio.fail_after(self._limits.question_timeout):
                    question.answer(await request.push(question.method, question.params))
            except TimeoutError:
                seconds = self._limits.question_timeout
                question.fail(AnswerError(f"the client did not answer {question.method} within {seconds:g} s"))
            except RequestError as error:
                question.fail(error)

    def _value(self, outcome: Outcome, what: str) -> Any:
        error = outcome.error
        if error is None:
            return outcome.value
        if (protocol := as_protocol_error(error)) is not None:
            raise protocol
        name, reference = self._runner.name, secrets.token_hex(4)
        if isinstance(error, RequestError | ValueError):
            logger.info("%s: %s failed: %s", name, what, error)
        else:
            logger.error("%s: %s failed, reference %s", name, what, reference, exc_info=error)
        raise ToolError(failure_text(error, what, reference)) from error

    def _checked(self, result: JSON, method: str) -> JSON:
        """Refuse a result that the SDK would refuse, and mark the state of one that asks for input as the agent's.

        Complete tool results are well-formed by construction (`results.tool_result`) and not looked at again.
        """
        asks = is_input_required(result)
        if asks or method != "tools/call":
            if problem := result_problem(method, result):
                raise ToolError(f"the agent returned a malformed result: {problem}")
        if asks and result.get("requestState") is not None:
            return result | {"requestState": _AGENT_STATE + result["requestState"]}
        return result


def _refuse_undeclared(questions: list[Question], declared: Mapping[str, Any]) -> None:
    """Fail the questions that the client cannot answer (S-32)."""
    for question in questions:
        capability = CAPABILITY_OF[question.method]
        have = declared.get(capability)
        if have is None:
            question.fail(ClientCapabilityError({capability: {}}))
        elif question.params.get("mode") == "url" and not (is_object(have) and have.get("url") is not None):
            question.fail(ClientCapabilityError({capability: {"url": {}}}))
