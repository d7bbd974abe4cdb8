"""Answers requests of a server: within bounds, only declared ones, and never with a traceback."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.calls.in_flight import ReceivedRequests, RequestId
from gaia_bridge.calls.progress import progress_params, reporting
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.types import ClientDelegate
from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS, AnswerError, ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.protocol.codes import INVALID_REQUEST, METHOD_NOT_FOUND
from gaia_bridge.protocol.earlier_revisions import answer_for
from gaia_bridge.protocol.messages import error_object
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY, without_key
from gaia_bridge.protocol.vocabulary import CAPABILITY_OF, missing_capability
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object, value_at

logger = logging.getLogger(__name__)


async def answer_of(
    delegate: ClientDelegate, declared: Mapping[str, Any], method: str, params: JSON, during: int | None = None
) -> JSON:
    """Let the delegate answer a question; raise `ProtocolError` if that is not declared, or the delegate fails."""
    if method not in CAPABILITY_OF:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {printable(method)}")
    if missing := missing_capability(method, params, declared):
        if declared.get(CAPABILITY_OF[method]) is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method} (not declared by this client)")
        raise ProtocolError(INVALID_PARAMS, "This client did not declare what the request needs", missing)
    try:
        return await delegate.answer(method, params, during)
    except ProtocolError:
        raise
    except Exception:
        logger.exception("answering %s failed", method)
        raise ProtocolError(INTERNAL_ERROR, "Internal error") from None


class Questions:
    """The open requests of one server, at most `limits.requests_in`.

    Args:
        waits: Entered while the server waits for an answer; called with our request that the question belongs to,
            if the wire reports that.
    """

    def __init__(
        self,
        delegate: ClientDelegate,
        declared: Mapping[str, Any],
        limits: UpstreamLimits,
        send: Callable[[JSON], Awaitable[None]],
        waits: Callable[[int | None], AbstractContextManager[None]],
    ) -> None:
        self._delegate = delegate
        self._declared = declared
        self._limits = limits
        self._send = send
        self._waits = waits
        self.revision = ""
        """The revision of the connection, once that is agreed on."""
        self._received = ReceivedRequests()
        self._replies: deque[JSON] = deque(maxlen=limits.notes)
        self._replying = False
        self._reporting: set[RequestId] = set()

    def ask(self, tasks: TaskGroup, number: object, method: str, params: JSON, during: int | None) -> None:
        """Answer a request of the server, in the background. One without a valid id is ignored: it has no answer.

        Args:
            tasks: The group for the task that answers.
            during: Our request on whose own stream it came, if the wire reports that.
        """
        if isinstance(number, bool) or not isinstance(number, int | str | float):
            return
        if method == "ping":
            self._reply(tasks, number, {"result": {}})
        elif len(self._received) >= self._limits.requests_in:
            problem = f"{len(self._received)} requests are open, and no more may be"
            self._reply(tasks, number, _error(INTERNAL_ERROR, problem))
        elif not self._received.begin(number, preparing := anyio.CancelScope()):
            self._reply(tasks, number, _error(INVALID_REQUEST, "A request with this id is still open"))
        else:
            tasks.start_soon(self._answer, number, preparing, method, params, during)

    def withdraw(self, number: object) -> None:
        """Cancel one of the server's requests, whose answer it no longer waits for."""
        self._received.cancel(number, None)

    async def _answer(
        self, number: RequestId, preparing: anyio.CancelScope, method: str, params: JSON, during: int | None
    ) -> None:
        """Answer a request. Its cancellation stops the preparation of the answer, and not the sending."""
        reply: JSON | None = None
        params, token = _without_token(params)
        try:
            with (
                preparing,
                self._waits(during),
                reporting(None if token is None else partial(self._report, token)),
            ):
                reply = await self._worked_out(method, params, during)
            if reply is not None:
                await self._deliver(number, reply)
        finally:
            self._received.end(number, preparing)

    async def _report(self, token: RequestId, report: Progress) -> None:
        """Send the server a report of progress; reports that come while the last one is being sent are dropped."""
        if token in self._reporting:
            return
        params = progress_params(token, report)
        self._reporting.add(token)
        try:
            await self._send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        except UpstreamError as error:
            logger.debug("progress could not be sent: the server %s", error)
        finally:
            self._reporting.discard(token)

    async def _worked_out(self, method: str, params: JSON, during: int | None) -> JSON:
        try:
            result: object = await answer_of(self._delegate, self._declared, method, params, during)
            if is_object(result):
                return {"result": answer_for(self.revision, method, result)}
        except ProtocolError as error:
            return _error(error.code, error.message, error.data)
        except AnswerError as error:
            return _error(INTERNAL_ERROR, str(error))
        logger.error("the answer to %s is no JSON object but %s", method, type(result).__name__)
        return _error(INTERNAL_ERROR, "Internal error")

    def _reply(self, tasks: TaskGroup, number: RequestId, reply: JSON) -> None:
        """Send a reply that needs no work. In turn; the oldest is dropped if the server floods us but reads nothing."""
        self._replies.append({"id": number, **reply})
        if not self._replying:
            self._replying = True
            tasks.start_soon(self._send_replies)

    async def _send_replies(self) -> None:
        try:
            while self._replies:
                reply = self._replies.popleft()
                await self._deliver(reply.pop("id"), reply)
        finally:
            self._replying = False

    async def _deliver(self, number: RequestId, reply: JSON) -> None:
        try:
            await self._send({"jsonrpc": "2.0", "id": number, **reply})
        except UpstreamError as error:
            logger.debug("an answer could not be sent: the server %s", error)


def _without_token(params: JSON) -> tuple[JSON, RequestId | None]:
    """Split the progress token, which is valid on one hop only, from the parameters of a question; return both."""
    token = value_at(params, "_meta", PROGRESS_TOKEN_KEY)
    if isinstance(token, bool) or not isinstance(token, int | str):
        return params, None
    return without_key(params, PROGRESS_TOKEN_KEY), token


def _error(code: int, message: str, data: Any = None) -> JSON:
    return {"error": error_object(code, message, data)}
