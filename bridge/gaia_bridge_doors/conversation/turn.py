"""One turn of one agent: the agent's code runs in its own threads, and its answer comes here, piece by piece.

The protocol's event loop never runs agent code: an agent that answers turn by turn runs on the agent's own loop, one
that answers in one piece in a thread of the agent's. The agent is not asked for its next piece before the last one
is taken, so that a slow reader holds up the agent and fills no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import anyio
from msgspec.structs import replace

from gaia_bridge.calls.results.conversion import jsonable
from gaia_bridge.chat_types import (
    AnswersChats,
    ChatRequest,
    Piece,
    Plan,
    Reply,
    Thought,
    ToolBegun,
    ToolEnded,
    TurnEvent,
)
from gaia_bridge.errors import BusyError
from gaia_bridge.runtime.agent_runner import AgentRunner, Job, LoopHandle, Outcome
from gaia_bridge.server.http.error_bodies import NEVER_AGAIN
from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError, as_chat_error

ANSWER_METHODS: Final = ("answer_chat", "process_query")
"""The methods by which an agent answers: turn by turn, or in one piece."""

_ANSWER_FIELDS: Final = ("result", "answer", "response")
"""The fields of the answer in a dictionary that `process_query` returns; the first one there counts."""

_EVENTS: Final = (Plan, Thought, ToolBegun, ToolEnded)
"""The kinds of `TurnEvent`."""


def joined(parts: list[JSON]) -> str:
    """Return the texts among the parts of a content, as one."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def can_answer(agent: object) -> bool:
    """Return whether an agent has a method that answers."""
    return any(callable(getattr(agent, name, None)) for name in ANSWER_METHODS)


class Turn:
    """A turn that runs. A context manager: it ends, at the latest, with the block. Only on the event loop.

    Args:
        model: The model that was asked, for messages.
        limits: The limits of its time and its answer.
        on_end: Called once when it ends.
    """

    def __init__(self, model: str, limits: ChatEndpointLimits, on_end: Callable[[Turn], None]) -> None:
        self._model = model
        self._limits = limits
        self._on_end = on_end
        self._loop = LoopHandle()
        self._wake = anyio.Event()
        self._waiting: tuple[str | TurnEvent, Future[None]] | None = None
        self._sent: list[str] = []
        self._size = 0
        self._outcome: Outcome | None = None
        self._failure: ChatError | None = None
        self._job: Job | None = None
        self._has_ended = False
        seconds = limits.turn_timeout
        message = f"The agent did not finish its answer within {seconds:g} seconds."
        late = ChatError(504, message, "deadline_exceeded", headers=NEVER_AGAIN)
        self._deadline = self._loop.call_later(seconds, partial(self.end, late))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.end(ChatError(503, "The turn is over.", "cancelled"))

    def begin(self, agent: Any, runner: AgentRunner, request: ChatRequest) -> None:
        """Let the agent answer.

        Args:
            agent: The agent.
            runner: Its threads and its loop.
            request: The request to it.

        Raises:
            ChatError: The agent has too much to do, or cannot answer such a request.
        """
        convert: Callable[[Any], Any] = _unchanged
        if isinstance(agent, AnswersChats):
            call = partial(_pump, agent, request, self._give)
        else:
            call = partial(agent.process_query, _only_question(request, self._model))
            convert = partial(_text_of, limit=self._limits.answer_length)
        try:
            self._job = runner.start(call, copy_context(), self._finish_soon, convert)
        except BusyError as error:
            raise as_chat_error(error, self._model) from None

    async def next(self) -> Piece:
        """Return the next piece, and at the end the reply. Other pieces than text come only if the request wants them.

        Raises:
            ChatError: The agent failed, or the turn was ended.
        """
        while True:
            self._wake = wake = anyio.Event()
            if self._failure is not None:
                raise self._failure
            if self._waiting is not None:
                piece, taken = self._waiting
                self._waiting = None
                if taken.set_running_or_notify_cancel():
                    taken.set_result(None)
                return self._record(piece) if isinstance(piece, str) else piece
            if self._outcome is not None:
                return self._reply(self._outcome)
            await wake.wait()

    async def reply(self) -> Reply:
        """Return the whole answer.

        Raises:
            ChatError: As `next`.
        """
        while not isinstance(piece := await self.next(), Reply):
            pass
        return piece

    def end(self, error: ChatError) -> None:
        """End the turn, whatever it does; do nothing if it has ended.

        Args:
            error: The error for the caller that waits for a piece.
        """
        if self._has_ended:
            return
        self._has_ended = True
        self._failure = error
        self._deadline()
        if self._job is not None:
            self._job.cancel()
        self._wake.set()
        self._on_end(self)

    async def wait_until_ended(self) -> None:
        """Wait until the agent's code has ended, after `end`. A thread that blocks may take for ever."""
        while self._job is not None and self._outcome is None:
            self._wake = wake = anyio.Event()
            await wake.wait()

    def end_later(self, seconds: float, error: ChatError) -> None:
        """End the turn in `seconds`, unless it ends before."""
        self._deadline()
        self._deadline = self._loop.call_later(seconds, partial(self.end, error))

    def rest(self, reply: Reply) -> str:
        """Return the part of a reply's text that was not sent in pieces."""
        sent = "".join(self._sent)
        return reply.text[len(sent) :] if reply.text.startswith(sent) else ""

    async def _give(self, piece: str | TurnEvent) -> None:
        """Hand over a piece, and wait until it is taken. Called on the agent's loop."""
        taken: Future[None] = Future()
        self._loop.call_soon(partial(self._receive, piece, taken))
        await asyncio.wrap_future(taken)

    def _receive(self, piece: str | TurnEvent, taken: Future[None]) -> None:
        self._waiting = piece, taken
        self._wake.set()

    def _finish_soon(self, outcome: Outcome) -> None:
        """Pass the outcome to the event loop. Called in a thread of the agent."""
        self._loop.call_soon(partial(self._finish, outcome))

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._wake.set()

    def _record(self, piece: str) -> str:
        piece = valid_text(piece)
        self._size += len(piece)
        self._check_length(self._size)
        self._sent.append(piece)
        return piece

    def _check_length(self, length: int) -> None:
        if length > (limit := self._limits.answer_length):
            raise ChatError(
                500, f"The agent's answer has more than {limit} characters.", "answer_too_long", headers=NEVER_AGAIN
            )

    def _reply(self, outcome: Outcome) -> Reply:
        if outcome.error is not None:
            error = as_chat_error(outcome.error, self._model)
            error.headers |= NEVER_AGAIN  # whatever it was: tools may have run before it
            raise error
        answer = outcome.value
        if not isinstance(answer, Reply):
            answer = Reply("".join(self._sent) if answer is None else answer)
        self._check_length(len(answer.text))
        return replace(answer, text=valid_text(answer.text))


async def _pump(
    agent: AnswersChats, request: ChatRequest, give: Callable[[str | TurnEvent], Awaitable[None]]
) -> Reply | None:
    """Pass on the pieces of the agent's answer, up to its reply. Runs on the agent's loop."""
    async with aclosing(agent.answer_chat(request)) as pieces:
        async for piece in pieces:
            value: Any = piece
            if isinstance(value, Reply):
                return value
            if isinstance(value, _EVENTS):
                if request.events:
                    await give(value)
                continue
            if not isinstance(value, str):
                raise TypeError(f"answer_chat() yielded {type(value).__name__}; expected str, and one Reply at the end")
            if value:
                await give(value)
    return None


def _only_question(request: ChatRequest, model: str) -> str:
    """Return the question for an agent that takes only a text.

    Raises:
        ChatError: The request has other contents as well.
    """
    if request.client_tools or request.lent_tools:
        message = f"tools: model '{model}' answers in one piece and cannot be given tools. Leave them out."
        raise ChatError(400, message, "unsupported_parameter", "tools")
    question = _last_question(list(request.messages))
    if not question:
        message = f"messages: model '{model}' takes text only; expected a message of the role user with a text."
        raise ChatError(400, message, "invalid_value", "messages")
    return question


def _last_question(messages: list[JSON]) -> str:
    """Return the text of the user's last message; empty if it is no text."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            return content if isinstance(content, str) else joined(content)
    return ""


def _text_of(value: Any, limit: int) -> str:
    """Return the answer in the result of `process_query`."""
    if is_object(value):
        value = next((value[name] for name in _ANSWER_FIELDS if value.get(name) is not None), value)
    plain, text = jsonable("" if value is None else value, limit)
    return plain if isinstance(plain, str) else text


def _unchanged(value: Any) -> Any:
    return value
