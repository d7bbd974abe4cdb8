"""The channel from an agent's code to an editor during an answer: questions, progress, cancellation."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from gaia_bridge.calls.editor_access import EditorAccess, RunningTool, running_tool
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.errors import RequestCancelledError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.protocol.vocabulary import question_problem
from gaia_bridge.runtime.agent_runner import LoopHandle, resting
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)

T = TypeVar("T")

Answer = Callable[[str, JSON, RunningTool | None], Awaitable[JSON]]
"""Puts a question of MCP to the person, for a call."""


Report = Callable[[RunningTool, Progress], None]
"""Shows the progress of a call. Only on the event loop."""


class TurnChannel:
    """One turn's channel to the editor: implements `calls.request_context.CallChannel`. To be made on the event loop.

    Args:
        answer: Answers a question.
        report: Shows the progress of a call; called on the event loop.
        start: Starts a coroutine that ends with the turn.
    """

    def __init__(
        self,
        answer: Answer,
        report: Report,
        start: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
    ) -> None:
        self.answer = answer
        self.report = report
        self._start = start
        self._loop = LoopHandle()
        self._over = threading.Event()
        self._cancelled = threading.Event()
        self._open: set[Future[Any]] = set()
        self.editor: EditorAccess | None = None
        """The agent's access to the editor."""

    @property
    def cancelled(self) -> bool:
        """Whether the person cancelled the turn."""
        return self._cancelled.is_set()

    @property
    def is_asking(self) -> bool:
        """Whether a question to the person is still without its answer."""
        return bool(self._open)

    def wait_cancelled(self, timeout: float) -> bool:
        """Block up to `timeout` seconds, and return whether the turn was cancelled."""
        return self._cancelled.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raise `RequestCancelledError` if the turn was cancelled."""
        if self._cancelled.is_set():
            raise RequestCancelledError

    def post_progress(self, report: Progress) -> None:
        """Show the progress of the running call."""
        if (running := running_tool()) is not None:
            self._loop.call_soon(partial(self._told, running, report))

    def post_log(self, message: LogMessage) -> None:
        """Log a message: editors have no place for it."""
        number = logging.getLevelNamesMapping().get(message.level.upper(), logging.INFO)
        logger.log(number, "%s%s", f"{message.logger}: " if message.logger else "", message.data)

    def do(self, work: Callable[[RunningTool | None], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the event loop; it is cancelled, and fails, once the turn is over. In any thread.

        Args:
            work: Makes the coroutine, given the call that it is for.
        """
        future: Future[T] = Future()
        running = running_tool()
        self._loop.call_soon(partial(self._begin, future, partial(work, running)))
        return future

    def ask(self, method: str, params: JSON) -> JSON:
        """Put a question and block until it is answered, in bounded time."""
        future = self._put(method, params)
        with resting():
            return future.result()

    async def aask(self, method: str, params: JSON) -> JSON:
        """Put a question and wait, on any event loop."""
        future = self._put(method, params)
        with resting():
            return await asyncio.wrap_future(future)

    def close_stream(self) -> None:
        """Do nothing: there is no stream."""

    def cancel(self) -> None:
        """Cancel the turn for the person."""
        self._cancelled.set()
        self.end()

    def end(self) -> None:
        """End the turn: every open question fails."""
        self._over.set()
        for future in list(self._open):
            _fail(future, RequestCancelledError("the turn is over"))

    def _told(self, running: RunningTool, report: Progress) -> None:
        if not self._over.is_set():
            self.report(running, report)

    def _put(self, method: str, params: JSON) -> Future[JSON]:
        if problem := question_problem(method, params):
            raise ValueError(f"{method} cannot be asked like this: {problem}")
        return self.do(partial(self._ask, method, params))

    async def _ask(self, method: str, params: JSON, running: RunningTool | None) -> JSON:
        return await self.answer(method, params, running)

    def _begin(self, future: Future[T], work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        if self._over.is_set():
            _fail(future, RequestCancelledError("the turn is over"))
            return
        self._open.add(future)
        self._start(partial(self._done, future, work))

    async def _done(self, future: Future[T], work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        try:
            result = await work()
        except Exception as error:  # raised where it was asked
            _fail(future, error)
        except BaseException:
            _fail(future, RequestCancelledError("the turn is over"))
            raise
        else:
            with suppress(InvalidStateError):  # nobody waits any more
                future.set_result(result)
        finally:
            self._open.discard(future)


class EditorRequest(OwnRequest):
    """A request for the person at an editor: an agent's turn, or one call of a tool of the editor's servers.

    Args:
        client: The conversation.
        answer: Answers a question.
        report: Shows the progress of a call.
        capabilities: The questions that the editor supports, as MCP capabilities.
        client_info: The editor's name and version.
        when_it_leaves: Registers a function that is called when the conversation ends.
        params: The parameters of the call.
    """

    def __init__(
        self,
        client: Hashable,
        answer: Answer,
        report: Report,
        capabilities: JSON,
        client_info: Mapping[str, Any],
        when_it_leaves: Callable[[Callable[[], None]], None],
        params: Mapping[str, Any],
    ) -> None:
        super().__init__(client)
        self._answer = answer
        self._report = report
        self._when_it_leaves = when_it_leaves
        self._running = running_tool()
        self.client_capabilities = capabilities
        self.client_info = client_info
        self.params = params

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Register `callback` to be called when the conversation ends."""
        self._when_it_leaves(callback)
        return True

    async def report_progress(self, report: Progress) -> None:
        """Show the progress of the call."""
        if self._running is not None:
            self._report(self._running, report)

    async def log(self, message: LogMessage) -> None:
        """Log the message."""
        logger.info("%s", one_line(str(message.data)))

    async def push(self, method: str, params: JSON) -> JSON:
        """Put a question to the person."""
        return await self._answer(method, params, self._running)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):  # answered, or no caller waits any more
        future.set_exception(error)
