"""The engine of `Agent`: its model, its sessions and its tools' threads, brought together for one turn."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia.agents.chat.console_output import ConsoleOutput
from gaia.agents.chat.lent_tools import lent_entries
from gaia.agents.chat.limits import CLIENT_SESSION, DEFAULT_SESSION, SERVED_SESSION
from gaia.agents.chat.messages import sendable, split_instructions
from gaia.agents.chat.no_client import client_request, with_some_request
from gaia.agents.chat.options import ChatOptions
from gaia.agents.chat.prompts import compose, is_deferred
from gaia.agents.chat.requests import AgentHooks, TurnRequest
from gaia.agents.chat.runtime import ChatRuntime
from gaia.agents.chat.sessions import AgentSession, Sessions
from gaia.agents.chat.suspended_turns import SuspendedTurns
from gaia.agents.chat.tool_execution import ToolExecutor
from gaia.agents.chat.tool_search import ToolSearch
from gaia.agents.chat.turn import Turn, View
from gaia.agents.chat.turn_stream import Tell, TurnStream, discard
from gaia_bridge.calls.results.conversion import words
from gaia_bridge.chat_types import ChatRequest, Piece, Reply
from gaia_bridge.errors import BridgeError, ModelError
from gaia_bridge.runtime.agent_runner import LoopHandle

__all__ = ["ChatEngine"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLOSED: Final = "this agent was closed; make a new one to converse with"
"""The error text for callers that go on using it."""


class _Place(Struct, eq=False):
    """Where a turn is played."""

    engine: ChatEngine | None
    """`None` once the turn is over: contexts that have a place live on, in a timer for as long as that was set to."""
    session_id: str | None

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self.engine is None


class _ChatParts(Struct, frozen=True):
    """The parts that an engine needs to play turns."""

    seat: ChatRuntime
    narrator: ConsoleOutput
    forgotten: weakref.finalize[..., Any]
    """Leaves the seat when nobody knows the engine any more."""


_ANSWERING: Final[ContextVar[tuple[_Place, ...]]] = ContextVar("gaia_answering", default=())
"""The turns that the current code works for: a tool must not wait for the turn that waits for it."""

_ENGINES: Final = weakref.WeakSet["ChatEngine"]()
_INHERITED: Final[list[ChatRuntime]] = []
"""After a fork, those of the parent: kept, so that nothing that is not ours is disposed of."""


class ChatEngine:
    """Plays turns for one agent, on the background loop. Making it starts nothing.

    Args:
        agent: The agent, as far as it is needed here.
        name: What it is called, for threads and messages.
        options: How it converses.
    """

    def __init__(self, agent: AgentHooks, name: str, options: ChatOptions) -> None:
        limits = options.limits
        self._agent = agent
        self._name = name
        self._options = options
        self._search = ToolSearch(ranked=options.ranked_search)
        self._suspended = SuspendedTurns(limits.suspended, limits.suspended_bytes)
        self._lock = threading.RLock()
        self._seated: _ChatParts | None = None
        self._is_closed = False
        self.sessions = Sessions(limits, options.session_timeout, options.max_sessions, options.session_file)
        _ENGINES.add(self)

    def run(self, request: TurnRequest) -> Reply:
        """Play a turn and wait for it. If it works for a request to a published agent, it ends with that."""
        seat, narrator = self._seat()
        try:
            return seat.lease.run(partial(self._play, seat, narrator, request, discard), check=_cancellation_check())
        except ModelError as error:
            raise _in_short(error) from None

    async def chat(self, request: TurnRequest) -> Reply:
        """Play a turn and wait for it on any event loop."""
        seat, narrator = self._seat()
        try:
            return await seat.lease.wait(partial(self._play, seat, narrator, request, discard))
        except ModelError as error:
            raise _in_short(error) from None

    def stream(self, request: TurnRequest) -> Generator[str]:
        """Play a turn, and yield the text as it comes. Whoever stops reading ends the turn."""
        seat, playing = self._playing(request)
        check = _cancellation_check()
        try:
            while pieces := seat.lease.run(playing.next, check=check):
                yield from (piece for piece in pieces if isinstance(piece, str))
        except ModelError as error:
            raise _in_short(error) from None
        finally:
            playing.end()

    async def answer(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """Play a turn for a client of the bridge; see `gaia_bridge.chat_types.AnswersChats`."""
        prefix = SERVED_SESSION if request.is_own else CLIENT_SESSION
        seat, playing = self._playing(
            TurnRequest(
                request.messages,
                None if request.session_id is None else f"{prefix}{request.session_id}",
                not request.must_exist,
                lent=lent_entries(request.lent_tools, LoopHandle()),
                client_tools=request.client_tools,
                options=request.options,
                events=request.events,
            )
        )
        texts: list[str] = []
        try:
            while pieces := await seat.lease.wait(playing.next):
                for piece in pieces:
                    if isinstance(piece, str):
                        texts.append(piece)
                    yield replace(piece, text="".join(texts)) if isinstance(piece, Reply) else piece
        finally:
            with anyio.CancelScope(shield=True):
                await playing.aend()

    def close(self) -> None:
        """End what is played, and let go of the model's connections, of threads and of the session file."""
        with self._lock:
            self._is_closed = True
            seated, self._seated = self._seated, None
        if seated is not None:
            seated.forgotten.detach()
            seated.seat.leave()
        self.sessions.close()

    def begin_anew_after_fork(self) -> None:
        """Begin anew in a forked child, which has neither the threads nor the connections of the parent."""
        self._lock = threading.RLock()
        if self._seated is not None:
            self._seated.forgotten.detach()
            _INHERITED.append(self._seated.seat)
            self._seated = None
        self.sessions.begin_anew_after_fork()

    def _seat(self) -> tuple[ChatRuntime, ConsoleOutput]:
        with self._lock:
            if self._is_closed:
                raise RuntimeError(CLOSED)
            if self._seated is None or not self._seated.seat.lease.is_alive:
                seat = ChatRuntime(self._name, self._options)
                narrator = ConsoleOutput(self._agent.console, seat.console, seat.asking, self._options.limits)
                self._seated = _ChatParts(seat, narrator, weakref.finalize(self, seat.leave_later))
                self._seated.forgotten.atexit = False
            return self._seated.seat, self._seated.narrator

    def _playing(self, request: TurnRequest) -> tuple[ChatRuntime, TurnStream]:
        seat, narrator = self._seat()
        play = partial(self._play, seat, narrator, request)
        return seat, TurnStream(seat.lease, play, self._options.limits.pieces)

    async def _play(self, seat: ChatRuntime, narrator: ConsoleOutput, request: TurnRequest, tell: Tell) -> Reply:
        timeout = self._options.limits.turn_timeout
        try:
            with seat.playing(timeout):
                if seat.is_left:
                    raise RuntimeError(CLOSED)
                place = self._entered_by(request)
                try:
                    await self._agent.prepare_turn()
                    if place.session_id is None:
                        return await self._play_alone(seat, narrator, request, tell)
                    return await self._play_in_session(seat, narrator, request, place.session_id, tell)
                finally:
                    place.engine = None
                    await narrator.flush()
        except (SystemExit, KeyboardInterrupt) as error:  # of the agent's own code; it would end the loop of everybody
            raise _own_failure(error) from error
        if seat.is_left:
            raise RuntimeError(CLOSED)
        raise ModelError(f"There was no answer within {timeout:g} seconds.", "Ask for less, or raise turn_timeout.")

    def _entered_by(self, request: TurnRequest) -> _Place:
        """Note for the tools of the turn where it is played, and refuse what would wait for itself, or never end."""
        answering = [place for place in request.context.run(_ANSWERING.get) if not place.is_over]
        session_id = request.session_id
        if session_id == DEFAULT_SESSION and request.context.run(client_request) is not None:
            session_id = None  # what one client says is nothing that others should hear of
        if session_id is not None and any(it.engine is self and it.session_id == session_id for it in answering):
            raise ValueError(
                f"session {session_id!r} is waiting for this very tool; a tool that asks its own agent needs another "
                "session_id"
            )
        if len(answering) >= self._options.limits.nesting:
            raise ValueError(f"agents have asked one another {len(answering)} times already; this one is not asked")
        place = _Place(self, session_id)
        request.context.run(_ANSWERING.set, (*answering, place))
        return place

    async def _play_alone(self, seat: ChatRuntime, narrator: ConsoleOutput, request: TurnRequest, tell: Tell) -> Reply:
        """Play a turn for a client that keeps the history, but for the agent's own calls: those are remembered here."""
        instructions, messages = split_instructions(self._suspended.restored(map(sendable, request.messages)))
        turn = await self._turn(seat, narrator, request, None, instructions, {}, tell)
        reply, added = await turn.play((), messages, tell)
        if reply.tool_calls:
            self._suspended.remember([call.id for call in reply.tool_calls], added[len(messages) :])
        return reply

    async def _play_in_session(
        self, seat: ChatRuntime, narrator: ConsoleOutput, request: TurnRequest, session_id: str, tell: Tell
    ) -> Reply:
        session = await self._entered(seat, request, session_id)
        instructions, messages = split_instructions(map(sendable, request.messages))
        try:
            async with session.turn:
                self.sessions.check_size(session)
                history, loaded = session.history, dict(session.loaded_tools)
                said_to_all = session.system_message
                turn = await self._turn(seat, narrator, request, said_to_all, instructions, loaded, tell)
                reply, added = await turn.play(history, messages, tell)
                try:
                    remember = partial(self.sessions.add, session, history, added, loaded)
                    await _blocking(seat, remember, request.context.copy())
                except BridgeError as error:  # the answer is there, and is not lost because the disk is full
                    logger.error("session %r is not kept: %s", session_id, error)
                    narrator.tell("print_warning", f"this conversation is not kept: {error}")
                return reply
        finally:
            self.sessions.leave(session)

    async def _entered(self, seat: ChatRuntime, request: TurnRequest, session_id: str) -> AgentSession:
        take = partial(self.sessions.take, session_id, create=request.create_if_missing)
        while True:  # until it was not ended or forgotten in that very moment
            session = await _blocking(seat, take, request.context.copy())
            if self.sessions.enter(session):
                return session

    async def _turn(
        self,
        seat: ChatRuntime,
        narrator: ConsoleOutput,
        request: TurnRequest,
        system_message: str | None,
        instructions: Sequence[str],
        loaded: dict[str, None],
        tell: Tell,
    ) -> Turn:
        options, context = self._options, request.context

        def see() -> View:
            tools = {**request.lent, **self._agent.model_tools()}
            own = self._agent.own_prompt() if system_message is None else system_message
            searched = is_deferred(len(tools), options.tool_threshold, options.deferred_tools)
            return View(compose(own, tools, searched=searched, more=instructions), tools, searched)

        async def look() -> View:
            return await _blocking(seat, see, context.copy())

        confirm = self._agent.confirm_tool if options.confirm_destructive else None
        return Turn(
            model=await _blocking(seat, partial(seat.model_for, context.run(client_request)), context.copy()),
            look=look,
            executor=ToolExecutor(
                seat.tools,
                narrator,
                confirm,
                options.limits,
                with_some_request(context).copy,
                tell if request.events else None,
            ),
            narrator=narrator,
            search=self._search,
            loaded=loaded,
            max_steps=request.max_steps or options.max_steps or options.limits.max_steps,
            client_tools=request.client_tools,
            options=request.options,
        )


async def _blocking(seat: ChatRuntime, function: Callable[[], T], context: Context) -> T:
    """Run code of the agent, or of the disk, which may block."""
    outcome = await seat.own.run(function, context)
    if isinstance(outcome.error, Exception):
        raise outcome.error
    if outcome.error is not None:
        raise _own_failure(outcome.error) from outcome.error
    return outcome.value  # type: ignore[no-any-return]  # of the function


def _own_failure(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the agent's own code ended the turn: {type(error).__name__}: {words(error)}")


def _begin_anew_after_fork() -> None:
    for engine in tuple(_ENGINES):
        engine.begin_anew_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_after_fork)


def _in_short(error: ModelError) -> ModelError:
    """Return the error without its traceback, which is of no use to a program; the log has it."""
    logger.debug("the model gave no answer", exc_info=error)
    return error.with_traceback(None)


def _cancellation_check() -> Callable[[], object] | None:
    """Return a function that raises when the client of the calling code has cancelled; `None` without a client."""
    request = client_request()
    return None if request is None else request.raise_if_cancelled
