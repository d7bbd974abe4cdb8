"""One turn of an agent for the person at an editor: its texts and calls are shown as they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio
from acp import RequestError
from anyio.abc import TaskGroup

from gaia_bridge.calls.editor_access import RunningTool
from gaia_bridge.calls.request_context import RequestContext, request_scope
from gaia_bridge.chat_types import ChatRequest, Piece, Plan, Reply, Thought, ToolBegun, ToolEnded
from gaia_bridge.model import Progress
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.acp import updates
from gaia_bridge_doors.acp.access import Access, Workplace
from gaia_bridge_doors.acp.channel import EditorRequest, TurnChannel
from gaia_bridge_doors.acp.questions import EditorQuestions
from gaia_bridge_doors.conversation.errors import ChatError, as_chat_error
from gaia_bridge_doors.conversation.models import Model
from gaia_bridge_doors.conversation.turn import Turn
from gaia_bridge_doors.conversation.turn_log import TurnLog

_STOP_REASONS: Final = {"length": "max_tokens", "content_filter": "refusal"}
"""ACP's reasons for the end of a reply; any other reason is the end of the turn."""

_CANCELLED: Final = ChatError(503, "The turn was cancelled.", "cancelled")


class EditorTurn:
    """A turn. `play` it once, within the conversation's request.

    Args:
        model: The agent.
        notify: Sends an update of the conversation.
        questions: Puts questions to the person.
        workplace: The parts of the editor that the agent may use.
        line: The log line of the turn.
        farewell: Seconds for the agent's code to end, once the turn is cancelled.
    """

    def __init__(
        self,
        model: Model,
        notify: Callable[[JSON], Coroutine[Any, Any, None]],
        questions: EditorQuestions,
        workplace: Workplace,
        line: TurnLog,
        farewell: float,
    ) -> None:
        self._model = model
        self._notify = notify
        self._questions = questions
        self._workplace = workplace
        self._cwd = workplace.folder
        self._line = line
        self._farewell = farewell
        self._turn: Turn | None = None
        self._open: dict[str, ToolBegun] = {}
        self._shown: set[str] = set()
        """The calls that the editor knows."""
        self._shown_another = anyio.Event()
        self._terminals: dict[str, list[JSON]] = {}
        """The terminals that calls have opened: they stay where they are shown."""
        self._is_cancelled = False
        self._preparing = anyio.CancelScope()

    def cancel(self) -> None:
        """Cancel the turn for the person."""
        self._is_cancelled = True
        self._preparing.cancel()
        if self._turn is not None:
            self._turn.end(_CANCELLED)

    async def play(
        self, prepare: Callable[[TurnChannel], Awaitable[ChatRequest]], request: Callable[[TurnChannel], EditorRequest]
    ) -> JSON:
        """Play the turn; errors are shown in the conversation.

        Args:
            prepare: Makes the request to the agent, which may take a while: servers start, and prompts are filled in.
            request: Makes the request that the agent's code works for.

        Returns:
            The result of the prompt.

        Raises:
            RequestError: The prompt is invalid.
        """
        reply: Reply | None = None
        problem: RequestError | None = None
        try:
            async with anyio.create_task_group() as tasks:
                channel = TurnChannel(self._answer, self._report(tasks), tasks.start_soon)
                if self._workplace.is_open:
                    channel.editor = Access(self._workplace, channel.do, self._show_terminal)
                try:
                    with self._model.turn() as self._turn:
                        reply = await self._played(self._turn, channel, prepare, request)
                except anyio.get_cancelled_exc_class():  # the editor is gone
                    self._is_cancelled = True
                    raise
                except RequestError as error:
                    problem = error
                except Exception as error:  # including errors of a malformed reply of the agent
                    await self._fail(as_chat_error(error, self._model.id))
                finally:
                    await self._end(channel)
                    tasks.cancel_scope.cancel()
        finally:
            await self._close_calls()
        if problem is not None:  # raised here, not in the task group, which would wrap it
            raise problem
        return self._result(reply)

    async def _played(
        self,
        turn: Turn,
        channel: TurnChannel,
        prepare: Callable[[TurnChannel], Awaitable[ChatRequest]],
        request: Callable[[TurnChannel], EditorRequest],
    ) -> Reply | None:
        """Return the reply; `None` if the turn was cancelled before it began."""
        with self._preparing:
            chat = await prepare(channel)
            scope = request_scope(RequestContext(channel, request(channel), None))
            scope.run(self._model.begin, turn, chat)
        if self._is_cancelled:
            return None
        while not isinstance(piece := await turn.next(), Reply):
            await self._show(piece)
        if rest := turn.rest(piece):
            await self._notify(updates.agent_text(rest))
        self._line.answered(piece)
        return piece

    async def _end(self, channel: TurnChannel) -> None:
        """Notify tools that the turn is over; a cancelled one ends first: the model must not get their results."""
        if not self._is_cancelled:
            channel.end()
            return
        try:
            with anyio.move_on_after(self._farewell):
                if self._turn is not None:
                    await self._turn.over()
        finally:
            channel.cancel()

    async def _fail(self, error: ChatError) -> None:
        if self._is_cancelled:
            return
        self._line.failed(error)
        await self._notify(updates.agent_text(error.message))

    async def _answer(self, method: str, params: JSON, running: RunningTool | None) -> JSON:
        """Put a question to the person; a question of a call waits until the call is shown."""
        if running is not None:
            await self._until_shown(running.call.id)
        return await self._questions.answer(method, params, running)

    async def _until_shown(self, call_id: str) -> None:
        while call_id not in self._shown:
            await self._shown_another.wait()

    async def _show_terminal(self, call_id: str, terminal_id: str) -> None:
        await self._until_shown(call_id)
        shown = self._terminals.setdefault(call_id, [])
        shown.append(updates.terminal(terminal_id))
        await self._notify(updates.call_running(call_id, *shown))

    async def _show(self, piece: Piece) -> None:
        match piece:
            case str():
                await self._notify(updates.agent_text(piece))
            case Thought():
                await self._notify(updates.thought(piece.text))
            case Plan():
                await self._notify(updates.plan(piece.entries))
            case ToolBegun():
                self._open[piece.id] = piece
                await self._notify(updates.call_begun(piece, self._cwd))
                self._shown.add(piece.id)
                self._shown_another.set()
                self._shown_another = anyio.Event()
            case ToolEnded():
                self._open.pop(piece.id, None)
                ended = updates.call_ended(piece, self._cwd)
                ended["content"] = [*self._terminals.pop(piece.id, ()), *ended["content"]]
                await self._notify(ended)
                if (plan := updates.plan_in(piece)) is not None:
                    await self._notify(plan)
            case Reply():
                pass

    async def _close_calls(self) -> None:
        for call_id in self._open:
            await self._notify(updates.call_cancelled(call_id, self._terminals.get(call_id, ())))
        self._open.clear()

    def _report(self, tasks: TaskGroup) -> Callable[[RunningTool, Progress], None]:
        def report(running: RunningTool, progress: Progress) -> None:
            call_id = running.call.id
            if call_id in self._open:
                content = [*self._terminals.get(call_id, ()), updates.text_content(_told(progress))]
                tasks.start_soon(self._notify, updates.call_running(call_id, *content))

        return report

    def _result(self, reply: Reply | None) -> JSON:
        if self._is_cancelled:
            return {"stopReason": "cancelled"}
        if reply is None:
            return {"stopReason": "end_turn"}
        result: JSON = {"stopReason": _STOP_REASONS.get(reply.finish_reason, "end_turn")}
        taken, given = reply.usage.prompt_tokens, reply.usage.completion_tokens
        if taken or given:
            result["usage"] = {"inputTokens": taken, "outputTokens": given, "totalTokens": taken + given}
        return result


def _told(progress: Progress) -> str:
    """Return the progress of a call as text for a person."""
    numbers = f"{progress.progress:g}" + ("" if progress.total is None else f"/{progress.total:g}")
    return numbers if not progress.message else f"{progress.message} ({numbers})"
