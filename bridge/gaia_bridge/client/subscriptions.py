"""Receives changes from a modern server: one `subscriptions/listen` request stays open (MCP 2026-07-28, SEP-2575).

The filter changes with every subscription, so the request is replaced: the new stream is confirmed before the old one
is closed, and nothing is missed in between. A stream that drops is opened again; everything that may have changed
meanwhile is announced as changed.
"""

from __future__ import annotations

import logging
import math
from typing import Final

import anyio
from anyio import sleep
from msgspec import Struct, field

from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer
from gaia_bridge.client.transport import UnreachableError, UpstreamError
from gaia_bridge.client.types import RequestTimeoutError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.kinds import LISTEN_FLAGS, LISTS, list_changed
from gaia_bridge.protocol.meta import SUBSCRIPTION_ID_KEY
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON, is_object, value_at

logger = logging.getLogger(__name__)

LISTEN: Final = "subscriptions/listen"
_UPDATED: Final = "notifications/resources/updated"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"
_URIS: Final = "resourceSubscriptions"
_FOR_EVER: Final = Deadline(math.inf, math.inf)


class Subscriptions:
    """The subscriptions of one modern connection, whose requests have `meta` as `_meta`."""

    def __init__(self, peer: JsonRpcPeer, limits: UpstreamLimits, capabilities: JSON, meta: JSON) -> None:
        self._peer = peer
        self._limits = limits
        self._meta = meta
        self._lists = [kind for kind in LISTS if value_at(capabilities, kind.value, "listChanged") is True]
        self._resources = value_at(capabilities, "resources", "subscribe") is True
        self._uris: dict[str, None] = {}
        self._streams: dict[int, _Stream] = {}
        self._current: _Stream | None = None
        self._refusal: ProtocolError | None = None
        self._served = True
        self._missed = False
        self._wake = anyio.Event()
        self._pause = anyio.CancelScope()
        self._attempted = anyio.Event()
        """Set, and replaced, after each attempt at a stream with the wanted filter."""

    async def start(self) -> None:
        """Listen from now on. Waits for the confirmation, so that a list read afterwards cannot change unnoticed."""
        if self._wanted():
            attempted = self._attempted
            self._peer.tasks.start_soon(self._run)
            with anyio.move_on_after(self._limits.probe_timeout):
                await attempted.wait()
                return
            self._missed = True
        elif self._resources:
            self._peer.tasks.start_soon(self._run)

    async def subscribe(self, uri: str) -> None:
        """Listen for updates of a resource too, where the server offers that; an error if it does not confirm."""
        if not self._resources or not self._served:
            return
        is_new = uri not in self._uris
        try:
            with anyio.move_on_after(self._limits.list_timeout):
                await self._confirmed(uri)
                return
            raise RequestTimeoutError(LISTEN, self._limits.list_timeout)
        except BaseException:
            if is_new:  # else another caller listens to it already, and goes on
                self.unsubscribe(uri)
            raise

    def unsubscribe(self, uri: str) -> None:
        """Stop listening for updates of a resource."""
        self._uris.pop(uri, None)
        self._wake.set()

    def receive(self, method: str, params: JSON, during: int | None) -> None:
        """Handle a notification. Those of a stream that is not ours, or not confirmed, are dropped."""
        if method == _CANCELLED:
            # Over stdio, a server ends a stream like this.
            stream = self._stream(params.get("requestId"))
            if stream is not None:
                stream.scope.cancel()
            return
        meta, name = params.get("_meta"), value_at(params, "_meta", SUBSCRIPTION_ID_KEY)
        if method == _ACKNOWLEDGED:
            self._acknowledge(during if name is None else name)
            return
        if is_object(meta) and name is not None:
            stream = self._stream(name)
            if stream is None or not stream.acknowledged:
                return
            params = {**params, "_meta": {key: meta[key] for key in meta if key != SUBSCRIPTION_ID_KEY}}
        ours = during is not None and self._stream(during) is not None
        self._peer.tell(method, params, None if ours else during)  # our stream is no call, so it has no id for others

    async def _run(self) -> None:
        pause = self._limits.retry_floor
        while self._served and not self._peer.over.is_set():
            self._wake = anyio.Event()
            current, wanted = self._current, self._wanted()
            if current is not None and current.over:
                self._current, self._missed = None, True
                if anyio.current_time() - current.since > self._limits.retry_cap:
                    pause = self._limits.retry_floor
            elif wanted == (current.wanted if current is not None else {}):
                await self._wake.wait()
                continue
            elif await self._replace(wanted):
                continue
            if not self._peer.over.is_set():
                with anyio.CancelScope() as self._pause:
                    await sleep(pause)
                pause = min(self._limits.retry_cap, pause * 2)
        self._wake_callers()

    async def _replace(self, wanted: JSON) -> bool:
        """Replace the stream by one with the wanted filter; return whether that succeeded."""
        stream: _Stream | None = None
        if wanted:
            stream = await self._opened(wanted)
        if stream is not None or not wanted:
            if self._current is not None:
                self._current.scope.cancel()
            self._current = stream
        else:
            self._missed = self._missed or self._current is None
        self._wake_callers()
        return stream is not None or not wanted

    def _wake_callers(self) -> None:
        """Wake all callers that wait for their subscription."""
        self._attempted.set()
        self._attempted = anyio.Event()

    async def _opened(self, wanted: JSON) -> _Stream | None:
        self._refusal = None
        number = self._peer.new_id()
        stream = self._streams[number] = _Stream(wanted, anyio.current_time())
        self._peer.tasks.start_soon(self._hold, number, stream)
        with anyio.move_on_after(self._limits.list_timeout):
            await stream.decided.wait()
        if stream.acknowledged:
            return stream
        stream.scope.cancel()
        return None

    async def _hold(self, number: int, stream: _Stream) -> None:
        """Keep one stream open; its response is its end."""
        params = {"notifications": stream.wanted, "_meta": dict(self._meta)}
        with stream.scope:
            try:
                await self._peer.request(LISTEN, params, _FOR_EVER, number=number)
            except ProtocolError as error:
                self._refusal = error
                self._served = error.code != METHOD_NOT_FOUND
            except UpstreamError as error:
                logger.debug("%s ended: the server %s", LISTEN, error)
                if isinstance(error, UnreachableError):
                    self._peer.doubt("the stream of its changes ended, and it could not be reached")
        del self._streams[number]
        stream.over = True
        stream.decided.set()
        self._wake.set()

    async def _confirmed(self, uri: str) -> None:
        while self._served:
            self._peer.check()
            if uri not in self._uris:  # not yet; or another that wanted it was refused or gave up meanwhile
                self._uris[uri] = None
                self._wake.set()
                self._pause.cancel()  # an earlier refusal does not apply to this resource
            if self._current is not None and uri in self._current.wanted.get(_URIS, ()):
                return
            await self._attempted.wait()
            if self._refusal is not None and self._served:
                raise self._refusal

    def _acknowledge(self, number: object) -> None:
        stream = self._stream(number)
        if stream is None or stream.scope.cancel_called:
            return
        stream.acknowledged = True
        stream.decided.set()
        if self._missed:
            self._missed = False
            for kind in self._lists:
                self._peer.tell(list_changed(kind), {})
            for uri in self._uris:
                self._peer.tell(_UPDATED, {"uri": uri})

    def _wanted(self) -> JSON:
        """Return the filter for all current subscriptions; empty if there are none."""
        wanted: JSON = {flag: True for flag, kind in LISTEN_FLAGS.items() if kind in self._lists}
        if self._uris:
            wanted[_URIS] = list(self._uris)
        return wanted

    def _stream(self, number: object) -> _Stream | None:
        answered = own_id(number)
        return None if answered is None else self._streams.get(answered)


class _Stream(Struct, eq=False):
    wanted: JSON
    since: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    decided: anyio.Event = field(default_factory=anyio.Event)
    """Set when the stream is acknowledged, or over."""
    acknowledged: bool = False
    over: bool = False
