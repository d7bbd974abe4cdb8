"""Work for a client that may have to ask the client something before it is done, in both eras.

A client of the handshake era is asked while it waits. A client of 2026-07-28 cannot be asked: it gets the question as
the result, and sends the request again with the answer. Until then the work is parked here. Its handle travels in
`requestState`, which the server seals and binds to the request, so a handle cannot be guessed, moved or used twice.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import anyio
from msgspec import Struct, field

from gaia_bridge.calls.cancellation import cancel_reason, note_failure
from gaia_bridge.calls.deadlines import Clock, Clocks, Deadline
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INVALID_PARAMS, AnswerError, ClientCapabilityError, ProtocolError, RequestError
from gaia_bridge.protocol.vocabulary import answer_problem, missing_capability
from gaia_bridge.runtime.agent_runner import LoopHandle
from gaia_bridge.text.json_types import JSON

_PARKED = "parked:"
"""The prefix of a `requestState` that resumes parked work."""
_REMEMBERED = 256
"""Calls that ended while they were parked, of which the reason is kept. Older ones are only reported as gone."""


class Question(Struct, frozen=True):
    """A question to the client."""

    key: str
    method: str
    params: JSON
    reply: concurrent.futures.Future[JSON] = field(default_factory=concurrent.futures.Future[JSON])

    def answer(self, result: JSON) -> None:
        """Deliver the answer, unless there is one already or the wait is over."""
        with suppress(concurrent.futures.InvalidStateError):
            self.reply.set_result(result)

    def fail(self, error: Exception) -> None:
        """Raise `error` in the code that waits for the answer, if it still waits."""
        with suppress(concurrent.futures.InvalidStateError):
            self.reply.set_exception(error)


class Resumable(Protocol):
    """Work for one request of a client, which may outlive the request."""

    @property
    def questions(self) -> list[Question]:
        """The questions that are not answered yet."""
        ...

    async def advance(self, request: ClientRequest) -> bool:
        """Send progress and logs to `request`'s client until the work is done or asks; return whether it is done."""
        ...

    def cancel(self, reason: str) -> None:
        """Cancel the work and its open questions. Only the first reason counts."""
        ...


W = TypeVar("W", bound=Resumable)


class Waiting:
    """A bounded set of the calls that wait for answers of clients. When it is full, a new one ends the oldest.

    No client is obliged to come back with an answer (MCP 2026-07-28, basic/patterns/mrtr). If the newest were refused,
    clients that have gone would lock out those that are still there.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._ends: OrderedDict[object, Callable[[str], object]] = OrderedDict()

    def add(self, key: object, end: Callable[[str], object]) -> None:
        """Add a call that waits. `end` ends it with a reason, and is called at most once."""
        while len(self._ends) >= self._places:
            _, oldest = self._ends.popitem(last=False)
            oldest(f"{self._places} calls wait for answers of clients, and the oldest gives way")
        self._ends[key] = end

    def discard(self, key: object) -> None:
        """Remove a call that does not wait any more. May be called twice."""
        self._ends.pop(key, None)


class ParkedCalls(Generic[W]):
    """The work of one source that may ask clients something. Use it only on the event loop."""

    def __init__(self, waiting: Waiting, patience: float) -> None:
        self._waiting = waiting
        self._patience = patience
        self._loop = LoopHandle()
        self._clocks = Clocks()
        self._numbers = itertools.count()
        self._running: set[W] = set()
        self._parked: dict[str, tuple[W, Callable[[], None]]] = {}
        self._of_client: dict[Hashable, set[str]] = {}
        """The handles of parked work of each client that has a session: it ends with that."""
        self._gone: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)
        """Handles of parked work that was ended, each with the reason, for clients that come back later."""

    def __len__(self) -> int:
        return len(self._parked)

    def resumed(self, request: ClientRequest) -> W | None:
        """Return the parked work that a request resumes, if any; raise `ProtocolError` if that is gone."""
        state = request.request_state
        if state is None or not resumes_parked(request):
            return None
        handle = state.removeprefix(_PARKED)
        work = self._take(handle)
        if work is None:
            reason = next((f" ({reason})" for ended, reason in self._gone if ended == handle), "")
            raise ProtocolError(
                INVALID_PARAMS, f"The call that asked is no longer there{reason}; call again from the start"
            )
        return work

    async def run_or_park(self, work: W, request: ClientRequest, what: str, seconds: float) -> JSON | None:
        """Run work until it ends, or until it has a question that the client's next request must answer.

        Args:
            work: New, or `resumed`.
            what: How the peer knows the work, for messages: `tool 'x'`.
            seconds: How long this may take; afterwards the work is cancelled.

        Returns:
            A wire `InputRequiredResult`, or `None` when the work is done, or out of time.

        Raises:
            RequestError: The work cannot go on.
        """
        self._running.add(work)
        number = next(self._numbers)
        clock = Clock(self._clocks, number, Deadline(seconds, seconds))
        try:
            with clock:
                try:
                    return await self._until_done(work, request)
                except BaseException:
                    late = clock.is_up
                    work.cancel(f"{what} took too long" if late else cancel_reason("the client cancelled the request"))
                    raise
        except TimeoutError:
            if not clock.is_up:
                raise
            note_failure(too_late=True)
            return None
        finally:
            self._running.discard(work)

    def close(self, reason: str) -> None:
        """Cancel all work, running or parked."""
        for work in list(self._running):
            work.cancel(reason)
        for handle in list(self._parked):
            self._cancel(handle, reason)
        self._clocks.close()

    async def _until_done(self, work: W, request: ClientRequest) -> JSON | None:
        if request.input_responses:
            _answer(work, request.input_responses)
        while not await work.advance(request):
            _refuse_undeclared(work.questions, request.client_capabilities)
            if request.modern and work.questions:
                return self._park(work, request)
            for question in work.questions:
                await self._ask(question, work, request)
        return None

    async def _ask(self, question: Question, work: W, request: ClientRequest) -> None:
        """Ask the client, until it answers, its time is up, or the answer is not needed any more."""
        self._waiting.add(question.reply, work.cancel)
        try:
            with anyio.move_on_after(self._patience) as patience:
                question.reply.add_done_callback(lambda _: self._loop.call_soon(patience.cancel))
                try:
                    question.answer(await request.push(question.method, question.params))
                except RequestError as error:
                    question.fail(error)
        finally:
            self._waiting.discard(question.reply)
        if patience.cancelled_caught:
            question.fail(AnswerError(f"the client did not answer {question.method} within {self._patience:g} s"))

    def _park(self, work: W, request: ClientRequest) -> JSON:
        questions = {item.key: {"method": item.method, "params": item.params} for item in work.questions}
        handle = secrets.token_urlsafe(16)
        self._waiting.add(handle, partial(self._cancel, handle))
        expire = partial(self._cancel, handle, f"the client did not answer within {self._patience:g} s")
        stop_timer = self._loop.call_later(self._patience, expire)
        self._parked[handle] = work, partial(self._unparked, handle, request.client, stop_timer)
        if (handles := self._of_client.get(request.client)) is not None:
            handles.add(handle)
        else:
            self._of_client[request.client] = {handle}
            if not request.when_client_leaves(partial(self._left, request.client)):
                del self._of_client[request.client]
        return {"resultType": "input_required", "inputRequests": questions, "requestState": _PARKED + handle}

    def _left(self, client: Hashable) -> None:
        """Cancel the parked work of a client that cannot come back."""
        for handle in self._of_client.pop(client, ()):
            self._cancel(handle, "the client has left")

    def _unparked(self, handle: str, client: Hashable, stop_timer: Callable[[], None]) -> None:
        stop_timer()
        self._of_client.get(client, set[str]()).discard(handle)

    def _take(self, handle: str) -> W | None:
        self._waiting.discard(handle)
        work, unparked = self._parked.pop(handle, (None, None))
        if unparked is not None:
            unparked()
        return work

    def _cancel(self, handle: str, reason: str) -> None:
        if (work := self._take(handle)) is not None:
            self._gone.append((handle, reason))
            work.cancel(reason)


def resumes_parked(request: ClientRequest) -> bool:
    """Return whether a request resumes parked work."""
    return request.request_state is not None and request.request_state.startswith(_PARKED)


def _answer(work: Resumable, answers: Mapping[str, JSON]) -> None:
    """Deliver the answers. A question without a matching answer stays open and is asked again."""
    for question in work.questions:
        answer = answers.get(question.key)
        if answer is not None and answer_problem(question.method, answer) is None:
            question.answer(answer)


def _refuse_undeclared(questions: list[Question], declared: Mapping[str, Any]) -> None:
    for question in questions:
        if (missing := missing_capability(question.method, question.params, declared)) is not None:
            question.fail(ClientCapabilityError(missing))
