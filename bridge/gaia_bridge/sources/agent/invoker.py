"""Runs agent code for a client's request: starts or resumes it, relays its messages and questions, bounds it all."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.calls.direct_call import DirectCall, plain_result
from gaia_bridge.calls.parked_calls import ParkedCalls, Waiting
from gaia_bridge.calls.request_context import RequestContext, request_scope
from gaia_bridge.calls.results.conversion import as_protocol_error, failure_text, is_input_required
from gaia_bridge.contract import ClientRequest, RequestFacts, Source
from gaia_bridge.errors import BusyError, ClientCapabilityError, RequestCancelledError, RequestError, ToolError
from gaia_bridge.protocol.vocabulary import missing_capability, result_problem
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome
from gaia_bridge.runtime.exceptions import traceback_of_agent
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.invocation import Invocation
from gaia_bridge.text.json_types import JSON, is_larger, is_small

logger = logging.getLogger(__name__)

_UNPUBLISHED = "the agent is no longer published"
_AGENT_STATE = "agent:"
"""The beginning of an opened `requestState` that is the agent's own text; `parked_calls` has the other beginnings."""


class AgentInvoker:
    """Runs one agent's code for requests."""

    def __init__(self, runner: AgentRunner, limits: AgentLimits) -> None:
        self._runner = runner
        self._limits = limits
        self._loop = LoopHandle()
        self._one_large = threading.Lock()
        self._direct: set[Invocation] = set()
        """The work for direct calls that no ordinary one has taken over."""
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
            active = Invocation(self._limits, self._loop)
            self._start(active, call, convert, request)
        seconds = seconds or self._limits.call_timeout
        return await self._ended(active, request, what, seconds, seconds)

    async def _ended(self, active: Invocation, request: ClientRequest, what: str, seconds: float, rest: float) -> JSON:
        asked = await self._calls.run_or_park(active, request, what, rest)
        if asked is not None:
            return asked
        active.cancel(f"{what} is over")  # for work that the agent still runs for the call
        outcome, active.outcome = active.outcome, None  # the traceback of an error leads back to the call
        return self._checked(self._result(outcome, what, seconds), request)

    # Direct calls

    def begin(self, direct: DirectCall, call: Callable[[], Any], convert: Callable[[Any], JSON]) -> bool:
        """Run agent code for a direct call, as `perform` does; return whether there is room for that."""
        active = Invocation(self._limits, self._loop)
        active.direct, direct.connection, direct.cancellation = direct, active, Cancellation()
        try:
            self._start(active, call, convert, direct.origin, direct.cancellation)
        except (BusyError, RuntimeError):  # or the system has no more threads
            return False
        self._direct.add(active)
        return True

    async def take_over(self, direct: DirectCall, request: ClientRequest, what: str, seconds: float) -> JSON:
        """Wait for the end of the code that a direct call has begun; otherwise as `perform`."""
        active: Invocation = direct.connection
        direct.adopt()
        return await self._ended(active, request, what, seconds, seconds - (time.monotonic() - direct.began))

    def release(self, direct: DirectCall) -> Invocation:
        """Leave the work for a direct call to an ordinary one, or to nobody; return it."""
        active: Invocation = direct.connection
        active.direct = None
        self._direct.discard(active)
        return active

    def move_to(self, runner: AgentRunner) -> None:
        """Start later calls in another runner. Earlier ones go on where they are, also those that are parked."""
        self._runner = runner

    def close(self) -> None:
        """Cancel every call: those that run and those that wait for a client."""
        for active in [*self._direct]:
            active.cancel(_UNPUBLISHED)
            if active.direct is not None:
                active.direct.make_ordinary()
        self._calls.close(_UNPUBLISHED)

    def _start(
        self,
        active: Invocation,
        call: Callable[[], Any],
        convert: Callable[[Any], JSON],
        request: RequestFacts,
        cancellation: Cancellation | None = None,
    ) -> None:
        state = request.request_state
        context = RequestContext(active, request, None if state is None else state.removeprefix(_AGENT_STATE))
        scope = request_scope(context)
        if cancellation is not None:
            scope.run(cancellation.enter)
        active.job = self._runner.start(call, scope, active.finish, partial(self._converted, convert))

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


class AgentTool:
    """One tool of one agent. A `DirectRoute`."""

    __slots__ = ("_begin", "_invoker", "deadline", "source", "target")

    def __init__(
        self,
        source: Source,
        name: str,
        deadline: float,
        begin: Callable[[DirectCall, str, JSON], bool],
        invoker: AgentInvoker,
    ) -> None:
        self.source = source
        self.target = source, name
        self.deadline = deadline
        self._begin = begin
        self._invoker = invoker

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Run the tool in a thread of the agent; see `DirectRoute.begin`."""
        return self._begin(call, self.target[1], arguments)

    def plain_result(self, response: JSON) -> JSON | None:
        """Return the result if it is plain; see `DirectRoute`."""
        return plain_result(response)

    def answered(self, call: DirectCall, now: float) -> None:
        """End work that the agent still does for the call."""
        self._invoker.release(call).cancel("the call is over")

    def release(self, call: DirectCall) -> None:
        """Leave the work to an ordinary call."""
        self._invoker.release(call)

    def abandon(self, call: DirectCall) -> None:
        """Cancel the work, for the client's reason if it gave one."""
        reason = call.reasons[0] if call.reasons else None
        self._invoker.release(call).cancel(reason or "the client cancelled the request")
