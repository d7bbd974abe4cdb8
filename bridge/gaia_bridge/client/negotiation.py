"""Agrees on the revision of a connection: a short probe for the modern era, the handshake for the earlier ones.

Anything that is no modern answer means legacy: servers written before 2026-07-28 refuse `server/discover`, ignore it,
or even exit because of it, which then requires a new link.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import is_loop
from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer
from gaia_bridge.client.transport import (
    AuthorizationError,
    ConnectionLostError,
    LaunchError,
    StartTimeoutError,
    UpstreamError,
)
from gaia_bridge.client.types import ClientDelegate, Era, ServerHandshake
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError
from gaia_bridge.protocol.codes import UNSUPPORTED_REVISION
from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY, SERVER_INFO_KEY
from gaia_bridge.protocol.revisions import (
    HANDSHAKE_REVISIONS,
    LATEST_HANDSHAKE,
    UNDATED_REVISION,
    Revisions,
    is_dated,
    is_modern,
)
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

logger = logging.getLogger(__name__)

DISCOVER: Final = "server/discover"
_FOR_EVER: Final = Deadline(math.inf, math.inf)
"""No deadline of its own: the caller that opens the connection has one for all of the negotiation."""
_WARNED: Final = 1_024
"""The most servers and revisions whose logged warning is remembered."""
_SHOWN_REVISIONS: Final = 10
"""The most of a server's revisions that an error names."""


class EraRefusedError(LaunchError):
    """The server does not speak the only era that was to be tried."""


class _RefusedError(UpstreamError):
    """The server refuses this era; `code` is that of its JSON-RPC error, if there was one."""

    def __init__(self, problem: str, code: int | None = None) -> None:
        super().__init__(problem)
        self.code = code


class _LoopError(LaunchError):
    """The server is a bridge that leads back to this one."""

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(f"leads back to where it is asked from, and refused: {printable(error.message)}")


class _DisjointError(UpstreamError):
    """The server is modern, and too new for us: there is no point in trying anything else."""

    def __init__(self, theirs: list[Any], revisions: Revisions) -> None:
        shown = ", ".join(printable(str(revision), 40) for revision in theirs[:_SHOWN_REVISIONS])
        ours = ", ".join((*HANDSHAKE_REVISIONS, *revisions.names))
        super().__init__(f"speaks none of our revisions of MCP: it supports {shown}; we support {ours}")


_DECISIVE: Final = (_DisjointError, _LoopError, ConnectionLostError, StartTimeoutError, AuthorizationError)
"""Failures to discover after which no handshake is tried."""


_Greet = Callable[[JsonRpcPeer, ClientDelegate, UpstreamLimits], Awaitable[ServerHandshake]]


class Attempt(Struct, frozen=True):
    """One way to agree on a revision, on a link of its own."""

    greet: _Greet
    """Agrees with the server and confirms it; after that, requests may be made. Raises `UpstreamError`."""
    gives_way_to: tuple[type[UpstreamError], ...] = ()
    """Failures after which the next attempt gets a new link."""


def attempts(era: Era | None, only: Era | None = None) -> tuple[Attempt, ...]:
    """Return the attempts to make, in turn.

    Args:
        era: The era of the server's last connection, if that is known.
        only: The only era to try; `None` for both.
    """
    if only is not None:
        return (Attempt(partial(_insist, _initialize if only is Era.LEGACY else _discover)),)
    # A process that is gone may have ended because of the probe. One that ends in the handshake is broken.
    race = Attempt(partial(_race, era is Era.MODERN), (ConnectionLostError,))
    after_all = (Attempt(partial(_alone, _initialize), (_RefusedError,)),) if era is Era.LEGACY else ()
    return (*after_all, race, Attempt(partial(_alone, _initialize)))


def modern_meta(role_info: JSON, declared: JSON, revision: str) -> JSON:
    """Return the `_meta` in which every modern request describes us (MCP 2026-07-28, basic)."""
    return {PROTOCOL_VERSION_KEY: revision, CLIENT_INFO_KEY: role_info, CLIENT_CAPABILITIES_KEY: declared}


async def _alone(greet: _Greet, peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    handshake = await greet(peer, delegate, limits)
    await _confirm(peer, handshake)
    return handshake


async def _insist(
    greet: _Greet, peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits
) -> ServerHandshake:
    """Greet the server; raise `EraRefusedError` if it refuses for good. An internal error of the server may pass."""
    try:
        return await _alone(greet, peer, delegate, limits)
    except _RefusedError as error:
        if error.code == INTERNAL_ERROR:
            raise
        raise EraRefusedError(str(error)) from None


async def _race(
    was_modern: bool, peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits
) -> ServerHandshake:
    """Discover; if that fails or takes long, shake hands as well.

    A server that accepts the handshake is legacy on this link, however late it answers the discovery: over stdio and
    SSE it then refuses everything modern there. The silence of one that was modern the last time more likely means
    that it is slow than that it changed.
    """
    news = asyncio.Event()
    discovering = _Contender(partial(_discover, peer, delegate, limits), news)
    peer.tasks.start_soon(discovering.run)
    with anyio.move_on_after(limits.connect_timeout / 2 if was_modern else limits.probe_timeout):
        await news.wait()
        news.clear()
    # Authorization that failed for one would fail for the other, and the user would be asked to log in again.
    if isinstance(discovering.error, _DECISIVE):
        raise discovering.error
    handshake = discovering.handshake
    if handshake is None:
        shaking_hands = _Contender(partial(_initialize, peer, delegate, limits), news)
        peer.tasks.start_soon(shaking_hands.run)
        handshake = await _outcome(discovering, shaking_hands, news, limits.probe_timeout)
    await _confirm(peer, handshake)
    # Only now: nothing may come between `initialize` and our confirmation. A handshake that lost the race is
    # left to itself, because clients must not cancel it.
    discovering.scope.cancel()
    return handshake


async def _outcome(
    discovering: _Contender, shaking_hands: _Contender, news: asyncio.Event, patience: float
) -> ServerHandshake:
    """Wait for the era that the server chooses. A modern-only server may ignore the handshake: this wait is bounded."""
    with anyio.CancelScope() as waiting:
        while shaking_hands.handshake is None:
            if shaking_hands.error is not None and discovering.ended:
                break
            if discovering.handshake is not None:
                waiting.deadline = min(waiting.deadline, anyio.current_time() + patience)
            await news.wait()
            news.clear()
    if shaking_hands.handshake is not None:
        return replace(shaking_hands.handshake, also_modern=discovering.handshake is not None)
    if discovering.handshake is not None:
        return discovering.handshake
    # The handshake's failure is the one that users of most servers can do something about.
    error = discovering.error if isinstance(discovering.error, _DisjointError) else shaking_hands.error
    assert error is not None
    raise error


async def _confirm(peer: JsonRpcPeer, handshake: ServerHandshake) -> None:
    peer.agree(handshake.revision)
    if not handshake.modern:
        await peer.notify("notifications/initialized")


class _Contender:
    """One way to agree, tried beside another; sets `news` at its end."""

    def __init__(self, run: Callable[[], Awaitable[ServerHandshake]], news: asyncio.Event) -> None:
        self._run = run
        self._news = news
        self.scope = anyio.CancelScope()
        self.handshake: ServerHandshake | None = None
        self.error: UpstreamError | None = None

    @property
    def ended(self) -> bool:
        """Whether the contender succeeded or failed."""
        return self.handshake is not None or self.error is not None

    async def run(self) -> None:
        with self.scope:
            try:
                self.handshake = await self._run()
            except UpstreamError as error:
                self.error = error
            self._news.set()


async def _discover(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    """Discover the server; raise `_DisjointError` if it is too new for us, another `UpstreamError` if it is legacy."""
    result = await _discovered(peer, delegate, limits.revisions, limits.revisions.latest)
    supported = result.get("supportedVersions")
    _refuse_disjoint(supported, limits.revisions)
    revision = _newest_in_common(supported, limits.revisions)
    if revision is None:
        raise _RefusedError(f"answered {DISCOVER} without a modern revision")
    return _handshake(revision, result, value_at(result, "_meta", SERVER_INFO_KEY), limits)


async def _discovered(
    peer: JsonRpcPeer, delegate: ClientDelegate, revisions: Revisions, revision: str, *, again: bool = True
) -> JSON:
    """Discover with a revision, and once more with the one that the server demands (MCP 2026-07-28, SEP-2575)."""
    params = {"_meta": modern_meta(delegate.info, peer.declared, revision)}
    try:
        return await peer.request(DISCOVER, params, _FOR_EVER)
    except ProtocolError as error:
        if error.code == UNSUPPORTED_REVISION and is_object(error.data):
            supported = error.data.get("supported")
            _refuse_disjoint(supported, revisions)
            if again and (wanted := _newest_in_common(supported, revisions)) is not None:
                return await _discovered(peer, delegate, revisions, wanted, again=False)
        if is_loop(error):
            raise _LoopError(error) from None
        raise _RefusedError(f"refused {DISCOVER}: {printable(error.message)} ({error.code})", error.code) from None


def _newest_in_common(supported: object, revisions: Revisions) -> str | None:
    theirs: list[Any] = supported if is_array(supported) else []
    return next((ours for ours in reversed(revisions.names) if ours in theirs), None)


def _refuse_disjoint(supported: object, revisions: Revisions) -> None:
    ours = (*HANDSHAKE_REVISIONS, *revisions.names)
    if is_array(supported) and supported and not any(revision in ours for revision in supported):
        raise _DisjointError(supported, revisions)


async def _initialize(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    params = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": peer.declared, "clientInfo": delegate.info}
    try:
        result = await peer.request("initialize", params, _FOR_EVER)
    except ProtocolError as error:
        if is_loop(error):
            raise _LoopError(error) from None
        raise _RefusedError(f"refused the handshake: {printable(error.message)} ({error.code})", error.code) from None
    revision = result.get("protocolVersion")
    if isinstance(revision, str) and revision and not is_dated(revision):
        _warn_of_undated(delegate.server, printable(json.dumps(revision), 40))
        revision = UNDATED_REVISION
    if not isinstance(revision, str) or revision not in HANDSHAKE_REVISIONS:
        shown = "no revision of MCP" if revision is None else f"the revision {printable(json.dumps(revision), 40)}"
        expected = ", ".join(HANDSHAKE_REVISIONS)
        raise _RefusedError(f"answered the handshake with {shown}; we support {expected}")
    return _handshake(revision, result, result.get("serverInfo"), limits)


@lru_cache(maxsize=_WARNED)
def _warn_of_undated(server: str, stated: str) -> None:
    """Log a warning once for each server, however often it is connected to."""
    logger.warning(
        "%s answered the handshake with the protocol version %s, which is no revision of MCP; it is spoken to as %s",
        server,
        stated,
        UNDATED_REVISION,
    )


def _handshake(revision: str, result: JSON, info: object, limits: UpstreamLimits) -> ServerHandshake:
    instructions = result.get("instructions")
    return ServerHandshake(
        revision=revision,
        modern=is_modern(revision),
        info=_cut(info, limits.text_bytes),
        capabilities=_cut(result.get("capabilities"), limits.text_bytes),
        instructions=_cut_text(instructions, limits.text_bytes) if isinstance(instructions, str) else None,
    )


def _cut(value: object, limit: int) -> JSON:
    """Cut the texts of an object and remove other fields that are too large; return `{}` for any other value."""
    if not is_object(value):
        return {}
    fields: Mapping[str, Any] = {
        name: _cut_text(item, limit) if isinstance(item, str) else item for name, item in value.items()
    }
    return {name: item for name, item in fields.items() if isinstance(item, str) or len(json.dumps(item)) <= limit}


def _cut_text(text: str, limit: int) -> str:
    """Cut a text to at most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
