"""A source of this process as a server: an agent that is used like any other, without a socket and without JSON text.

Both sides keep their own objects: what crosses is copied, as it would be on a wire, because an agent hands out the
definitions and results that it holds, and a caller may go on with its arguments while a call still runs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gaia_bridge.contract import Source
from gaia_bridge.errors import INTERNAL_ERROR, AnswerError, ProtocolError, RequestError
from gaia_bridge.jsontypes import JSON, is_array, is_object
from gaia_bridge.model import Change
from gaia_bridge.outbound.transport import ConnectionLostError, Link, Receiver
from gaia_bridge.outbound.transports.local_server import LocalServer
from gaia_bridge.settings import AgentLimits

__all__ = ["LocalTransport"]

logger = logging.getLogger(__name__)


class LocalTransport:
    """Reaches a source of this process, on its own event loop. Implements `transport.Transport`.

    Whoever publishes the source runs it; this neither starts nor stops it. It speaks both eras.

    Args:
        source: The source.
        limits: How long a question may stay open, and how often one call may ask.
    """

    def __init__(self, source: Source, limits: AgentLimits | None = None) -> None:
        self._source = source
        self._limits = limits or AgentLimits()

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the source."""
        link = _LocalLink(self._source, receiver, self._limits)
        stop = self._source.listen(link.changed)
        try:
            yield link
        finally:
            stop()
            await link.close()


class _LocalLink:
    """Implements `transport.Link`: the envelope, and the server's own requests."""

    last_words = ""

    def __init__(self, source: Source, receiver: Receiver, limits: AgentLimits) -> None:
        self._receiver = receiver
        self._server = LocalServer(source, self, limits)
        self._running: set[anyio.CancelScope] = set()
        self._asked: dict[int, asyncio.Future[JSON]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Serve a request in the caller's own task, so that cancelling it cancels the work."""
        if self._closed:
            raise ConnectionLostError
        scope = anyio.CancelScope()
        self._running.add(scope)
        try:
            with scope:
                return {"jsonrpc": "2.0", "id": message["id"], **await self._outcome(message)}
            raise ConnectionLostError
        finally:
            self._running.discard(scope)

    async def notify(self, message: JSON) -> None:
        """Take an answer; nothing that a client announces matters here."""
        number = message.get("id")
        future = self._asked.get(number) if type(number) is int else None
        if future is not None and not future.done():
            future.set_result(_copied(message))

    def agree(self, revision: str) -> None:
        """Nothing to do: each request says by itself what it is."""

    async def close(self) -> None:
        """End what runs."""
        self._closed = True
        for scope in tuple(self._running):
            scope.cancel()
        await self._server.close()

    def changed(self, change: Change) -> None:
        """The source changed."""
        self._server.changed(change)

    def tell(self, method: str, params: JSON, during: int | None) -> None:
        """Send a notification."""
        if not self._closed:
            self._receiver.message({"jsonrpc": "2.0", "method": method, "params": _copied(params)}, during)

    async def ask(self, method: str, params: JSON, during: int) -> JSON:
        """Send a request and return its result.

        Raises:
            AnswerError: The client answered with an error.
        """
        number = next(self._numbers)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            request: JSON = {"jsonrpc": "2.0", "id": number, "method": method, "params": _copied(params)}
            self._receiver.message(request, during)
            response = await future
        except asyncio.CancelledError:
            self.tell("notifications/cancelled", {"requestId": number}, during)
            raise
        finally:
            del self._asked[number]
        error, result = response.get("error"), response.get("result")
        if error is not None or not is_object(result):
            reason = error.get("message") if is_object(error) else "it answered with neither a result nor an error"
            raise AnswerError(f"the client refused {method}: {reason}")
        return result

    async def _outcome(self, message: JSON) -> JSON:
        try:
            params = _copied(message.get("params") or {})
            return {"result": _copied(await self._server.serve(message["id"], message["method"], params))}
        except ProtocolError as error:
            failure: JSON = {"code": error.code, "message": error.message}
            if error.data is not None:
                failure["data"] = _copied(error.data)
            return {"error": failure}
        except RequestError as error:
            return {"error": {"code": INTERNAL_ERROR, "message": str(error)}}
        except Exception:
            logger.exception("a request failed")
            return {"error": {"code": INTERNAL_ERROR, "message": "Internal error"}}


def _copied(value: Any) -> Any:
    """The same JSON value in objects of its own; texts and numbers cannot change and are shared."""
    if is_object(value):
        return {key: _copied(item) for key, item in value.items()}
    if is_array(value):
        return [_copied(item) for item in value]
    return value
