"""One running call of agent code: its progress and log messages, its questions, and its end.

The agent's thread puts messages in; the handler of the client's request takes them out in order. A call may outlive
the request that started it: where the client cannot be asked directly (2026-07-28), the client gets the question as
the result, the call waits, and the client's next request carries on where the last one stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.parked_calls import Question
from gaia_bridge.calls.results.conversion import jsonable
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import RequestCancelledError, ToolError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.protocol.vocabulary import question_problem
from gaia_bridge.runtime.agent_runner import Job, LoopHandle, Outcome, resting
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia_bridge.calls.editor_access import EditorAccess


class _CloseStream:
    pass


_Note = Progress | LogMessage | _CloseStream


class Invocation:
    """The two ends of one call: `CallChannel` for the agent, `calls.parked_calls.Resumable` for the bridge."""

    def __init__(self, limits: AgentLimits, loop: LoopHandle) -> None:
        self._limits = limits
        self._loop = loop
        self._has_news = False
        """Whether a message, a question or the end has come since `advance` last looked."""
        self._waiter: asyncio.Future[None] | None = None
        """The future that `advance` awaits while there is no news."""
        self._signalled = False
        self._notes: deque[_Note] = deque(maxlen=limits.notes)
        self._questions: dict[str, Question] = {}
        self._numbers = itertools.count(1)
        self._cancelled = False
        self._cancel_waiters: list[threading.Event] = []
        self._reason = ""
        self.editor: EditorAccess | None = None
        """The access to a client's editor; always `None` here."""
        self.job: Job | None = None
        self.outcome: Outcome | None = None
        self.direct: DirectCall | None = None
        """The direct call that is answered with the outcome, until an ordinary one takes over (`advance`)."""

    # The agent's end: any thread.

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self._cancelled

    @property
    def is_asking(self) -> bool:
        """Whether a question to the client is still without its answer."""
        return bool(self.questions)

    def wait_cancelled(self, timeout: float) -> bool:
        """Block up to `timeout` seconds, and return whether the call was cancelled."""
        ended = threading.Event()  # few calls wait like this, and an event for each call costs more than the rest of it
        self._cancel_waiters.append(ended)
        try:
            return self._cancelled or ended.wait(timeout)  # in this order: `cancel` does it the other way round
        finally:
            self._cancel_waiters.remove(ended)

    def raise_if_cancelled(self) -> None:
        """Raise `RequestCancelledError` if the call was cancelled."""
        if self._cancelled:
            raise RequestCancelledError(self._reason)

    def post_progress(self, report: Progress) -> None:
        """Queue a progress message."""
        if report.message is not None:
            report = replace(report, message=self._note_text(report.message))
        self._post(report)

    def post_log(self, message: LogMessage) -> None:
        """Queue a log message; data without a JSON form travels as text."""
        try:
            plain = jsonable(message.data, self._limits.log_bytes)[0]
        except ToolError:
            plain = self._note_text(repr(message.data))
        name = None if message.logger is None else self._note_text(message.logger)
        self._post(LogMessage(message.level, plain, name, message.meta))

    def close_stream(self) -> None:
        """Queue the request to close the event stream."""
        self._post(_CloseStream())

    def ask(self, method: str, params: JSON) -> JSON:
        """Put a question and block. The server of the call answers, fails or cancels it in bounded time.

        Raises:
            ValueError: MCP has no such question.
        """
        question = self._put(method, params)
        try:
            with resting():
                return question.reply.result()
        finally:
            self._forget(question)

    async def aask(self, method: str, params: JSON) -> JSON:
        """Put a question and wait, on the agent's own loop."""
        question = self._put(method, params)
        try:
            with resting():
                return await asyncio.wrap_future(question.reply)
        finally:
            self._forget(question)

    def finish(self, outcome: Outcome) -> None:
        """Record the end of the agent's code; called by the runner's thread. Our own cancellation is no outcome."""
        if not self._cancelled:
            self.outcome = outcome
        self._signal()

    # The bridge's end: the event loop.

    @property
    def questions(self) -> list[Question]:
        """The questions of the agent that are not answered yet."""
        if not self._questions:  # as usual
            return []
        return [question for question in list(self._questions.values()) if not question.reply.done()]

    async def advance(self, request: ClientRequest) -> bool:
        """Pass messages of the agent to the client until the agent is done or asks; return whether it is done.

        Raises:
            RequestCancelledError: The call was cancelled meanwhile.
        """
        while True:
            self._has_news = False
            done = self.outcome is not None
            for _ in range(len(self._notes)):  # no more: an agent can write faster than this loop reads
                await self._relay(self._notes.popleft(), request)
            if self._cancelled:
                self.raise_if_cancelled()
            if done:
                return True
            if self._questions and self.questions:
                return False
            await self._news()

    def cancel(self, reason: str) -> None:
        """Cancel the call and its open questions. Only the first reason counts.

        The job is let go: it leads back here, and a large result would wait for the garbage collector.
        """
        if self._cancelled:
            return
        self._reason = reason
        self._cancelled = True
        for ended in list(self._cancel_waiters):
            ended.set()
        for question in self.questions:
            question.fail(RequestCancelledError(reason))
        job, self.job = self.job, None
        if job is not None:
            job.cancel()
        self._wake()

    async def _news(self) -> None:
        if self._has_news:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _post(self, note: _Note) -> None:
        self._notes.append(note)
        self._signal()

    def _put(self, method: str, params: JSON) -> Question:
        plain = jsonable(params, self._limits.result_bytes)[0]
        if problem := question_problem(method, plain):
            raise ValueError(f"{method} cannot be asked like this: {problem}")
        question = Question(f"q{next(self._numbers)}", method, plain)
        self._questions[question.key] = question
        self.raise_if_cancelled()  # after it can be found by `cancel`: no question is left without an end
        self._signal()
        return question

    def _forget(self, question: Question) -> None:
        """Drop a question that is over. Its exception refers to the frames it was raised in, and so to the agent."""
        self._questions.pop(question.key, None)

    def _note_text(self, value: object) -> str:
        return valid_text(str(value))[: self._limits.log_bytes]

    def _signal(self) -> None:
        """Wake the event loop, once for any number of messages."""
        if not self._signalled:
            self._signalled = True
            self._loop.call_soon(self._woken)

    def _woken(self) -> None:
        self._signalled = False
        direct, outcome = self.direct, self.outcome
        if direct is None or direct.is_ordinary:
            self._wake()
        elif outcome is None or self._notes:
            direct.make_ordinary()
        else:
            direct.set_result({"result": outcome.value})

    def _wake(self) -> None:
        self._has_news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _relay(self, note: _Note, request: ClientRequest) -> None:
        match note:
            case Progress():
                await request.report_progress(note)
            case LogMessage():
                await request.log(note)
            case _CloseStream():
                await request.close_stream()
