"""A call at a legacy server for a modern client, which cannot be asked while it waits.

The call runs in a task of its own and outlives the request that began it. When the server asks something, the client
gets the question as its result; the request that brings the answer resumes the same call.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.calls.parked_calls import Question
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import (
    INVALID_PARAMS,
    AnswerError,
    ClientCapabilityError,
    ProtocolError,
    RequestCancelledError,
    RequestError,
)
from gaia_bridge.sources.upstream.notification_queue import NotificationQueue
from gaia_bridge.text.json_types import JSON


class ParkedCall:
    """A call that outlives its request. Implements `calls.parked_calls.Resumable`."""

    def __init__(self, tasks: TaskGroup, notes: NotificationQueue, send: Callable[[], Awaitable[JSON]]) -> None:
        self._notes = notes
        self._send = send
        self._open: dict[str, Question] = {}
        self._numbers = itertools.count(1)
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()
        self._result: JSON | None = None
        self._failure: Exception | None = None
        self._reason = ""
        tasks.start_soon(self._run)

    # The server's end

    async def ask(self, method: str, params: JSON) -> JSON:
        """Put a question to the client. Cancelled when the server does not wait for the answer any more.

        Raises:
            ProtocolError: The client refused, or did not answer.
        """
        question = Question(f"q{next(self._numbers)}", method, params)
        self._open[question.key] = question
        self._wake.set()
        try:
            return await asyncio.wrap_future(question.reply)
        except ClientCapabilityError as error:  # of a later request than the one that began the call
            raise ProtocolError(INVALID_PARAMS, error.message) from None
        except ProtocolError:
            raise
        except RequestError as error:
            raise AnswerError(str(error)).for_server() from None
        finally:
            del self._open[question.key]
            self._wake.set()

    # The client's end

    @property
    def questions(self) -> list[Question]:
        """The questions of the server that are not answered yet."""
        return [question for question in self._open.values() if not question.reply.done()]

    async def advance(self, request: ClientRequest) -> bool:
        """Pass on the server's messages until it is done or asks something. Returns whether it is done."""
        self._notes.attach(request)
        try:
            while not self._done and not self.questions:
                self._wake = anyio.Event()
                await self._wake.wait()
            await self._notes.flush()
            return self._done
        finally:
            self._notes.detach()

    def cancel(self, reason: str) -> None:
        """Cancel the call at the server."""
        self._reason = self._reason or reason
        self._scope.cancel()

    @property
    def result(self) -> JSON:
        """The result of the call, once it is done.

        Raises:
            RequestError: The call failed.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise RequestCancelledError(self._reason or "the server is no longer there")
        return self._result

    @property
    def _done(self) -> bool:
        return self._result is not None or self._failure is not None or self._scope.cancel_called

    async def _run(self) -> None:
        try:
            with self._scope:
                self._result = await self._send()
        except Exception as error:
            self._failure = error
        finally:
            self._scope.cancel()
            self._notes.end()
            self._wake.set()
