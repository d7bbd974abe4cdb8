"""Runs agent code for a client's request: start or resume, relay what it says, answer what it asks, bound it all."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
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
from gaia_bridge.results import as_protocol_error, failure_text, is_input_required
from gaia_bridge.runtime import AgentRunner, LoopHandle, Outcome
from gaia_bridge.settings import AgentLimits
from gaia_bridge.wire import answer_problem, missing_capability, result_problem

__all__ = ["Performer"]

logger = logging.getLogger(__name__)

_PARKED = "parked:"
_AGENT_STATE = "agent:"
"""What a `requestState` of ours begins with, once opened: a parked call's handle, or the agent's own text."""


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
        self._active: set[AgentCall] = set()
        self._loop = LoopHandle()

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
        active = self._resumed(request) or self._started(call, convert, request)
        self._active.add(active)
        try:
            asked = await self._run(active, request, what)
        finally:
            self._active.discard(active)
        if asked is not None:
            return asked
        active.cancel(f"{what} is over")  # for whatever the agent still has running in its name
        return self._checked(self._result(active.outcome, what), request)

    def close(self) -> None:
        """Cancel every call: those that run and those that wait for a client."""
        for active in list(self._active):
            active.cancel("the agent is no longer published")
        self._parking.close()

    async def _run(self, active: AgentCall, request: ClientRequest, what: str) -> JSON | None:
        """Bring a call to its end, or to a question that the client's next request must answer; returns that."""
        with anyio.move_on_after(self._limits.call_timeout) as deadline:
            try:
                self._answer(active, request.input_responses)
                while not await active.advance(request):
                    _refuse_undeclared(active.questions, request.client_capabilities)
                    if request.modern and active.questions:
                        return self._park(active)
                    for question in active.questions:
                        await self._push(question, request)
            except BaseException:
                active.cancel(f"{what} took too long" if deadline.cancel_called else "the client cancelled the request")
                raise
        return None

    def _started(self, call: Callable[[], Any], convert: Callable[[Any], JSON], request: ClientRequest) -> AgentCall:
        active = AgentCall(self._limits)
        state = request.request_state
        context = RequestContext(active, request, None if state is None else state.removeprefix(_AGENT_STATE))
        active.job = self._runner.start(call, request_scope(context), active.finish, convert)
        return active

    def _resumed(self, request: ClientRequest) -> AgentCall | None:
        state = request.request_state
        if state is None or not state.startswith(_PARKED):
            return None
        active = self._parking.take(state.removeprefix(_PARKED))
        if active is None:
            raise ProtocolError(INVALID_PARAMS, "The call that asked is no longer there; call again from the start")
        return active

    def _answer(self, active: AgentCall, answers: Mapping[str, JSON]) -> None:
        """Hand on the answers that came; a question without a fitting one stays open and is asked again."""
        for question in active.questions:
            answer = answers.get(question.key)
            if answer is not None and answer_problem(question.method, answer) is None:
                question.answer(answer)

    def _park(self, active: AgentCall) -> JSON:
        questions = {item.key: {"method": item.method, "params": item.params} for item in active.questions}
        state = _PARKED + self._parking.park(active)
        return {"resultType": "input_required", "inputRequests": questions, "requestState": state}

    async def _push(self, question: Question, request: ClientRequest) -> None:
        """Ask the client, until it answers, its time is up, or the agent waits no longer."""
        seconds = self._limits.question_timeout
        with anyio.move_on_after(seconds) as patience:
            question.reply.add_done_callback(lambda _: self._loop.call_soon(patience.cancel))
            try:
                question.answer(await request.push(question.method, question.params))
            except RequestError as error:
                question.fail(error)
        if patience.cancelled_caught:
            question.fail(AnswerError(f"the client did not answer {question.method} within {seconds:g} s"))

    def _result(self, outcome: Outcome | None, what: str) -> JSON:
        if outcome is None:
            raise RequestCancelledError(f"{what} did not finish within {self._limits.call_timeout:g} s")
        error = outcome.error
        if error is None:
            result: JSON = outcome.value
            return result
        if (protocol := as_protocol_error(error)) is not None:
            raise protocol
        name, reference = self._runner.name, secrets.token_hex(4)
        text = failure_text(error, what, reference)
        if isinstance(error, RequestError | ValueError):
            logger.info("%s: %s failed: %s", name, what, text)
        else:
            logger.error("%s: %s failed, reference %s", name, what, reference, exc_info=error)
        raise ToolError(text) from error

    def _checked(self, result: JSON, request: ClientRequest) -> JSON:
        """Refuse a result that the SDK would refuse, and mark the state of one that asks for input as the agent's.

        Complete tool results are well-formed by construction (`results.tool_result`) and not looked at again.
        """
        asks = is_input_required(result)
        if asks or request.method != "tools/call":
            if problem := result_problem(request.method, result):
                raise ToolError(f"the agent returned a malformed result: {problem}")
        if not asks:
            return result
        questions: Mapping[str, JSON] = result.get("inputRequests") or {}
        for item in questions.values():
            missing = missing_capability(item["method"], item.get("params") or {}, request.client_capabilities)
            if missing is not None:
                raise ClientCapabilityError(missing)
        state = result.get("requestState")
        return result if state is None else result | {"requestState": _AGENT_STATE + state}


def _refuse_undeclared(questions: list[Question], declared: Mapping[str, Any]) -> None:
    """Fail the questions that the client cannot answer (S-32)."""
    for question in questions:
        if (missing := missing_capability(question.method, question.params, declared)) is not None:
            question.fail(ClientCapabilityError(missing))
