"""What `Agent` converses with: its model, its sessions and its tools' threads, brought together for one turn."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import anyio

from gaia.agents.chat.executing import ToolExecutor
from gaia.agents.chat.lending import lent_entries
from gaia.agents.chat.limits import CLIENT_SESSION
from gaia.agents.chat.messages import split_instructions
from gaia.agents.chat.narrating import Narrator
from gaia.agents.chat.options import ChatOptions
from gaia.agents.chat.playing import Playing, Tell, discard
from gaia.agents.chat.prompting import compose, is_deferred
from gaia.agents.chat.requests import AgentHooks, TurnRequest
from gaia.agents.chat.searching import ToolSearch
from gaia.agents.chat.sessions import AgentSession, Sessions
from gaia.agents.chat.suspending import SuspendedTurns
from gaia.agents.chat.turn import Turn, View
from gaia.llm.model import ChatModel
from gaia_bridge.background import BACKGROUND, Lease
from gaia_bridge.chats import ChatRequest, Reply
from gaia_bridge.context import get_request_context
from gaia_bridge.errors import BridgeError, ModelError
from gaia_bridge.runtime import AgentRunner, LoopHandle

__all__ = ["ChatEngine"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWERING: Final[ContextVar[tuple[object, ...]]] = ContextVar("gaia_answering", default=())
"""The sessions that the current code works for: a tool must not wait for the turn that waits for it."""


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
        self._options = options
        self._runner = AgentRunner(name, limits.threads, limits.queue)
        self._steps = self._runner.beside(limits.step_threads, limits.queue)
        self._console_runner = AgentRunner(f"{name} console", 1, limits.console_lines)
        self._narrator = Narrator(agent.console, self._console_runner, limits)
        self._search = ToolSearch(ranked=options.ranked_search)
        self._suspended = SuspendedTurns(limits.suspended, limits.suspended_bytes)
        self._lock = threading.RLock()
        self._seat: _Seat | None = None
        self.sessions = Sessions(limits, options.session_timeout, options.max_sessions, options.session_file)
        for runner in (self._runner, self._steps, self._console_runner):
            weakref.finalize(self, runner.close).atexit = False  # its threads are daemons

    def run(self, request: TurnRequest) -> Reply:
        """Play a turn and wait for it. If it works for a request to a published agent, it ends with that."""
        return self._lease().run(partial(self._play, request, discard), check=_cancellation_check())

    async def chat(self, request: TurnRequest) -> Reply:
        """Play a turn and wait for it on any event loop."""
        return await self._lease().wait(partial(self._play, request, discard))

    def stream(self, request: TurnRequest) -> Generator[str]:
        """Play a turn, and yield the text as it comes. Whoever stops reading ends the turn."""
        lease, check = self._lease(), _cancellation_check()
        playing = lease.run(partial(self._begin, lease, request))
        try:
            while pieces := lease.run(playing.next, check=check):
                yield from (piece for piece in pieces if isinstance(piece, str))
        finally:
            lease.run(playing.stop)

    async def answer(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        """Play a turn for a client of the bridge; see `gaia_bridge.chats.AnswersChats`."""
        lease = self._lease()
        wanted = TurnRequest(
            request.messages,
            None if request.session_id is None else f"{CLIENT_SESSION}{request.session_id}",
            lent=lent_entries(request.lent_tools, LoopHandle()),
            client_tools=request.client_tools,
            options=request.options,
        )
        playing = await lease.wait(partial(self._begin, lease, wanted))
        said: list[str] = []
        try:
            while pieces := await lease.wait(playing.next):
                for piece in pieces:
                    if isinstance(piece, Reply):
                        yield replace(piece, text="".join(said))
                    else:
                        said.append(piece)
                        yield piece
        finally:
            with anyio.CancelScope(shield=True):
                await lease.wait(playing.stop)

    def close(self) -> None:
        """Let go of the model's connections, of threads and of the session file. What is left is usable no more."""
        with self._lock:
            seat, self._seat = self._seat, None
        if seat is not None:
            seat.leave()
        for runner in (self._runner, self._steps, self._console_runner):
            runner.close()
        self.sessions.close()

    async def _begin(self, lease: Lease, request: TurnRequest) -> Playing:
        return Playing(lease, partial(self._play, request), self._options.limits.pieces)

    def _lease(self) -> Lease:
        return self._seated().lease

    def _seated(self) -> _Seat:
        """The place on the background loop; a new one where there is none, as after a fork."""
        with self._lock:
            if self._seat is None or not self._seat.lease.is_alive:
                self._seat = _Seat(self._options)
                weakref.finalize(self, self._seat.leave_later).atexit = False
            return self._seat

    async def _play(self, request: TurnRequest, tell: Tell) -> Reply:
        timeout = self._options.limits.turn_timeout
        with anyio.move_on_after(timeout):
            await self._agent.prepare_turn()
            try:
                if request.session_id is None:
                    return await self._play_alone(request, tell)
                return await self._play_in_session(request, request.session_id, tell)
            finally:
                await self._narrator.flush()
        raise ModelError(f"There was no answer within {timeout:g} seconds.", "Ask for less, or raise turn_timeout.")

    async def _play_alone(self, request: TurnRequest, tell: Tell) -> Reply:
        """For a client that keeps the history, without what the agent did by itself: that is remembered here."""
        instructions, messages = split_instructions(self._suspended.restored(request.messages))
        turn = await self._turn(request, None, instructions, {}, ())
        reply, added = await turn.play((), messages, tell)
        if reply.tool_calls:
            self._suspended.remember([call.id for call in reply.tool_calls], added[len(messages) :])
        return reply

    async def _play_in_session(self, request: TurnRequest, session_id: str, tell: Tell) -> Reply:
        place = (id(self), session_id)
        answering = request.context.run(_ANSWERING.get)
        if place in answering:
            raise ValueError(
                f"session {session_id!r} is waiting for this very tool; a tool that asks its own agent needs another "
                "session_id"
            )
        session = await self._blocking(
            partial(self.sessions.take, session_id, create=request.create_if_missing), request.context.copy()
        )
        instructions, messages = split_instructions(request.messages)
        with self.sessions.using(session):
            async with session.turn:
                self.sessions.check_size(session)
                turn = await self._turn(request, session.system_message, instructions, session.loaded_tools, place)
                reply, added = await turn.play(session.history, messages, tell)
                session.history += added
                await self._keep(session)
                return reply

    async def _keep(self, session: AgentSession) -> None:
        """Write the session down. The answer is there, and is not lost because the disk is full."""
        try:
            await self._blocking(partial(self.sessions.keep, session), copy_context())
        except BridgeError as error:
            logger.error("session %r is not kept: %s", session.session_id, error)
            self._narrator.tell("print_warning", f"this conversation is not kept: {error}")

    async def _turn(
        self,
        request: TurnRequest,
        system_message: str | None,
        instructions: Sequence[str],
        loaded: dict[str, None],
        place: tuple[object, ...],
    ) -> Turn:
        options, context = self._options, request.context
        if place:
            context.run(lambda: _ANSWERING.set((*_ANSWERING.get(), place)))

        def see() -> View:
            tools = {**request.lent, **self._agent.model_tools()}
            own = self._agent.own_prompt() if system_message is None else system_message
            searched = is_deferred(len(tools), options.tool_threshold, options.deferred_tools)
            return View(compose(own, tools, searched=searched, more=instructions), tools, searched)

        async def look() -> View:
            return await self._blocking(see, context.copy())

        confirm = self._agent.confirm_tool if options.confirm_destructive else None
        executor = ToolExecutor(self._runner, self._narrator, confirm, options.limits, context.copy)
        return Turn(
            model=await self._blocking(self._seated().model, context.copy()),
            look=look,
            executor=executor,
            narrator=self._narrator,
            search=self._search,
            loaded=loaded,
            max_steps=request.max_steps or options.max_steps or options.limits.max_steps,
            client_tools=request.client_tools,
            options=request.options,
        )

    async def _blocking(self, function: Callable[[], T], context: Context) -> T:
        """Run code of the agent, or of the disk, which may block."""
        outcome = await self._steps.run(function, context)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[no-any-return]  # of the function


class _Seat:
    """A lease on the background loop, and the model whose connections live there."""

    def __init__(self, options: ChatOptions) -> None:
        self.lease = BACKGROUND.acquire()
        self._options = options
        self._lock = threading.Lock()
        self._model: ChatModel | None = None

    def model(self) -> ChatModel:
        """The model, made when it is first needed, which takes a moment: a library is loaded."""
        with self._lock:
            if self._model is None:
                self._model = _made_model(self._options)
            return self._model

    def leave(self) -> None:
        """Close the model's connections, and give back the lease."""
        model = self._model
        try:
            if model is not None and self.lease.is_alive:
                self.lease.run(model.aclose)
        finally:
            self.lease.release()

    def leave_later(self) -> None:
        """The same, without waiting: whoever forgets an agent does not expect to."""
        model, lease = self._model, self.lease

        async def leave() -> None:
            try:
                if model is not None:
                    await model.aclose()
            finally:
                lease.release()

        try:
            lease.start(leave)
        except RuntimeError:
            lease.release()


def _made_model(options: ChatOptions) -> ChatModel:
    model = options.model
    if model is None or isinstance(model, str):
        from gaia.llm import OpenAIModel

        return OpenAIModel(model, base_url=options.base_url, api_key=options.api_key)
    return model


def _cancellation_check() -> Callable[[], object] | None:
    """Looks whether the client is still there that the calling code works for, if there is one."""
    with suppress(LookupError):
        return get_request_context().raise_if_cancelled
    return None
