"""Runs agent code for a client's request: starts or resumes it, relays its messages and questions, bounds it all."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gaia_bridge.calls.parked_calls import ParkedCalls, Waiting
from gaia_bridge.calls.request_context import RequestContext, request_scope
from gaia_bridge.calls.results.conversion import as_protocol_error, failure_text, is_input_required
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ClientCapabilityError, RequestCancelledError, RequestError, ToolError
from gaia_bridge.protocol.vocabulary import missing_capability, result_problem
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome
from gaia_bridge.runtime.exceptions import traceback_of_agent
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.invocation import Invocation
from gaia_bridge.text.json_types import JSON, is_larger, is_small

logger = logging.getLogger(__name__)

_AGENT_STATE = "agent:"
"""The beginning of an opened `requestState` that is the agent's own text; `parked_calls` has the other beginnings."""


class AgentInvoker:
    """Runs one agent's code for requests."""

    def __init__(self, runner: AgentRunner, limits: AgentLimits) -> None:
        self._runner = runner
        self._limits = limits
        self._loop = LoopHandle()
        self._one_large = threading.Lock()
        self._calls = ParkedCalls[Invocation](Waiting(limits.max_parked), limits.question_timeout)

    async def perform(
        self,
        call: Callable[[], Any],
        request: ClientRequest,
        what: str,
        convert: Callable[[Any], JSON],
        seconds: float | None = None,
    ) -> JSON:
        """Run agent code and return its wire result.

        Args:
            what: The peer's name of the call, for error messages: `tool 'x'`.
            seconds: The limit of the call; by default `call_timeout`.

        Raises:
            RequestError: The failure, in words that a peer may read.
        """
        active = None if request.request_state is None else self._calls.resumed(request)
        if active is None:
            active = self._started(call, convert, request)
        seconds = seconds or self._limits.call_timeout
        asked = await self._calls.run_or_park(active, request, what, seconds)
        if asked is not None:
            return asked
        active.cancel(f"{what} is over")  # for work that the agent still runs for the call
        outcome, active.outcome = active.outcome, None  # the traceback of an error leads back to the call
        return self._checked(self._result(outcome, what, seconds), request)

    def move_to(self, runner: AgentRunner) -> None:
        """Start later calls in another runner. Earlier ones go on where they are, also those that are parked."""
        self._runner = runner

    def close(self) -> None:
        """Cancel every call: those that run and those that wait for a client."""
        self._calls.close("the agent is no longer published")

    def _started(self, call: Callable[[], Any], convert: Callable[[Any], JSON], request: ClientRequest) -> Invocation:
        active = Invocation(self._limits, self._loop)
        state = request.request_state
        context = RequestContext(active, request, None if state is None else state.removeprefix(_AGENT_STATE))
        converted = partial(self._converted, convert)
        active.job = self._runner.start(call, request_scope(context), active.finish, converted)
        return active

    def _converted(self, convert: Callable[[Any], JSON], value: Any) -> JSON:
        """Convert the agent's return value to a wire result. Large ones go one at a time, so that others can go on."""
        if is_small(value) or not is_larger(value, self._limits.large_result_bytes):
            return convert(value)
        with self._one_large:
            return convert(value)

    def _result(self, outcome: Outcome | None, what: str, seconds: float) -> JSON:
        if outcome is None:
            raise RequestCancelledError(f"{what} did not finish within {seconds:g} s")
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
            # From the agent's code on: the frames before it are the same in every call.
            shown = error.__traceback__ if logger.isEnabledFor(logging.DEBUG) else traceback_of_agent(error)
            raised = (type(error), error, shown)
            logger.error("%s: %s failed, reference %s", name, what, reference, exc_info=raised)
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
