"""What the two HTTP transports share: a client, background work that ends with the link, and last words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2

from gaia_bridge.jsontypes import JSON
from gaia_bridge.outbound.transport import ConnectionLostError, Receiver, UpstreamError
from gaia_bridge.outbound.transports.http_client import HttpClient, Reply
from gaia_bridge.outbound.transports.json_rpc import cancellation, encoded
from gaia_bridge.settings import UpstreamLimits

__all__ = ["HttpLink"]

logger = logging.getLogger(__name__)


class HttpLink:
    """Base of the links over HTTP.

    Args:
        http: Owned by the link, which closes it.
        receiver: Is told what comes in.
        limits: Bounds.
    """

    def __init__(self, http: HttpClient, receiver: Receiver, limits: UpstreamLimits) -> None:
        self._http = http
        self._receiver = receiver
        self._limits = limits
        self._lost: ConnectionLostError | None = None
        self._open_requests: set[anyio.CancelScope] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._last_errands: set[asyncio.Task[None]] = set()

    @property
    def last_words(self) -> str:
        """Empty: a server behind HTTP has no error output that we could see."""
        return ""

    async def close(self) -> None:
        """Release everything: what waits for an answer fails, last errands are done within `limits.farewell`."""
        self._lost = self._lost or ConnectionLostError()
        with anyio.CancelScope(shield=True):
            for scope in self._open_requests:
                scope.cancel()
            _cancel(self._background - self._last_errands)
            with anyio.move_on_after(self._limits.farewell):
                if self._last_errands:
                    await asyncio.wait(self._last_errands)
                await self._say_farewell()
            remaining = set(self._background)
            _cancel(remaining)
            if remaining:
                await asyncio.wait(remaining)
            await self._http.close()

    async def _say_farewell(self) -> None:
        """Whatever the server should know at the end."""

    async def _post(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> Reply:
        return await self._http.send("POST", {"content-type": "application/json", **headers}, encoded(message), url)

    async def _deliver(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> None:
        """Send a message that has no response.

        Raises:
            UpstreamError: The server did not take it.
        """
        reply = await self._post(message, headers, url)
        try:
            if not reply.ok:
                raise self._refusal(reply)
        finally:
            await self._finish(reply)

    def _refusal(self, reply: Reply) -> UpstreamError:
        """The error that a status stands for."""
        if reply.status != 401:
            return reply.refusal()
        if self._http.authorises:
            return UpstreamError("does not accept our authorisation (HTTP 401)")
        return UpstreamError("wants authorisation (HTTP 401)")

    @contextmanager
    def _until_closed(self) -> Generator[None]:
        """Fail what happens within as soon as the link is over.

        Raises:
            ConnectionLostError: It is.
        """
        if self._lost is not None:
            raise self._lost
        with anyio.CancelScope() as scope:
            self._open_requests.add(scope)
            try:
                yield
            finally:
                self._open_requests.discard(scope)
        if scope.cancelled_caught:
            raise self._lost or ConnectionLostError()

    def _tell_cancelled(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None = None) -> None:
        """Tell the server that nobody waits any more; nobody waits for that either. `initialize` is never cancelled."""
        if message["method"] != "initialize" and self._lost is None:
            errand = self._spawn(self._errand(cancellation(message["id"]), headers, url))
            self._last_errands.add(errand)
            errand.add_done_callback(self._last_errands.discard)

    async def _errand(self, message: JSON, headers: Mapping[str, str], url: httpx2.URL | None) -> None:
        with anyio.move_on_after(self._limits.farewell):
            try:
                await self._deliver(message, headers, url)
            except UpstreamError as error:
                logger.debug("a server that should know of a cancellation %s", error)

    async def _finish(self, reply: Reply) -> None:
        """Close a reply that has said all. If it ends soon, its connection is kept; nobody waits for that."""
        if reply.ended or self._lost is not None:
            await reply.close()
        else:
            self._spawn(reply.finish(self._limits.farewell))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
