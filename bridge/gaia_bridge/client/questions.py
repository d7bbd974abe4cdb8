"""Requests that a server makes of us: within bounds, only what was declared, and never with a traceback."""

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
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY
from gaia_bridge.protocol.vocabulary import CAPABILITY_OF, missing_capability
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)


async def answer_of(
    delegate: ClientDelegate, declared: Mapping[str, Any], method: str, params: JSON, during: int | None = None
) -> JSON:
    """Let the role answer a question, if what that needs was declared.

    Args:
        declared: The capabilities that the server was told of.
        during: Our request that it belongs to, where that is known.

    Raises:
        ProtocolError: It was not declared, or the role refused or failed.
    """
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


class _Question:
    """One open request: implements `gaia_bridge.calls.in_flight.Cancellable`."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        """In which the answer is worked out; what is being sent cannot be withdrawn."""

    def cancel(self, reason: str | None) -> None:
        """The server waits no longer."""
        self.scope.cancel()


class Questions:
    """The open requests of one server.

    Args:
        declared: The capabilities that the server was told of.
        limits: How many may be open.
        waits: Entered while the server waits for us, as long as that is; told the request that it waits for, where the
            wire tells.
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
        """What the server speaks, once that is agreed on."""
        self._received = ReceivedRequests()
        self._replies: deque[JSON] = deque(maxlen=limits.notes)
        self._replying = False
        self._reporting: set[RequestId] = set()

    def ask(self, tasks: TaskGroup, number: object, method: str, params: JSON, during: int | None) -> None:
        """A request came; see to it that it is answered.

        Args:
            tasks: Where the answer is worked on.
            number: Its `id`. One that could not be answered is ignored.
            during: Our request on whose own stream it came, where the wire tells.
        """
        if isinstance(number, bool) or not isinstance(number, int | str | float):
            return
        if method == "ping":
            self._reply(tasks, number, {"result": {}})
        elif len(self._received) >= self._limits.requests_in:
            problem = f"{len(self._received)} requests are open, and no more may be"
            self._reply(tasks, number, _error(INTERNAL_ERROR, problem))
        elif not self._received.begin(number, question := _Question()):
            self._reply(tasks, number, _error(INVALID_REQUEST, "A request with this id is still open"))
        else:
            tasks.start_soon(self._answer, number, question, method, params, during)

    def withdraw(self, number: object) -> None:
        """The server waits no longer for the answer to one of its requests."""
        self._received.cancel(number, None)

    async def _answer(
        self, number: RequestId, question: _Question, method: str, params: JSON, during: int | None
    ) -> None:
        reply: JSON | None = None
        params, token = _without_token(params)
        try:
            with (
                question.scope,
                self._waits(during),
                reporting(None if token is None else partial(self._report, token)),
            ):
                reply = await self._worked_out(method, params, during)
            if reply is not None:
                await self._deliver(number, reply)
        finally:
            self._received.end(number, question)

    async def _report(self, token: RequestId, report: Progress) -> None:
        """Tell the server how far the client is; what comes while it still takes the last report is dropped."""
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
        """Send what needs no work. In turn, and the oldest is dropped when the server floods us but reads nothing."""
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
    """The parameters of a question without its progress token, which speaks about one hop only; and the token."""
    meta = params.get("_meta")
    token = meta.get(PROGRESS_TOKEN_KEY) if is_object(meta) else None
    if not is_object(meta) or isinstance(token, bool) or not isinstance(token, int | str):
        return params, None
    others = {key: value for key, value in meta.items() if key != PROGRESS_TOKEN_KEY}
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": others} if others else rest, token


def _error(code: int, message: str, data: Any = None) -> JSON:
    error: JSON = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"error": error}
