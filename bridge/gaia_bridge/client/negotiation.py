"""Which revision a connection speaks: a short probe for the modern era, the handshake for the earlier ones.

Anything that is no modern answer means legacy: servers written before 2026-07-28 refuse `server/discover`, ignore it,
or even exit because of it, which then takes a fresh link.
"""

from __future__ import annotations

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
from gaia_bridge.text.json_types import JSON, is_array, is_object

logger = logging.getLogger(__name__)

DISCOVER: Final = "server/discover"

_FOR_EVER: Final = Deadline(math.inf, math.inf)
"""Whoever opens the connection has a deadline for all of it."""

_WARNED: Final = 1_024
"""Servers that it is remembered of that a warning was logged of their revision."""

_SHOWN_REVISIONS: Final = 10
"""How many of a server's revisions an error names."""


class EraRefusedError(LaunchError):
    """The server does not speak the era that it was to be spoken to in, and no other was to be tried."""


class _RefusedError(UpstreamError):
    """The server wants nothing to do with this era.

    Args:
        code: The JSON-RPC error that it answered with, if it was one.
    """

    def __init__(self, problem: str, code: int | None = None) -> None:
        super().__init__(problem)
        self.code = code


class _LoopError(LaunchError):
    """The server is a bridge that we come from, or lead to."""

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
    """Agree, and say so to the server; after that, requests may be made. Raises `UpstreamError`."""
    gives_way_to: tuple[type[UpstreamError], ...] = ()
    """Failures after which the next attempt is worth a fresh link."""


def attempts(era: Era | None, only: Era | None = None) -> tuple[Attempt, ...]:
    """What to try, in turn.

    Args:
        era: What the server was last time, if that is known.
        only: The one era that will do, if not any.
    """
    if only is not None:
        return (Attempt(partial(_insist, _ONLY[only])),)
    # A process that is gone may have ended because of the probe. One that ends in the handshake is broken.
    probing = (Attempt(_probe, (ConnectionLostError,)), Attempt(_shake_hands))
    match era:
        case None:
            return probing
        case Era.MODERN:
            return (Attempt(_discover_patiently, (ConnectionLostError,)), Attempt(_shake_hands))
        case Era.LEGACY:
            return (Attempt(_shake_hands, (_RefusedError,)), *probing)


def modern_meta(role_info: JSON, declared: JSON, revision: str) -> JSON:
    """What every modern request says about us in its `_meta` (MCP 2026-07-28, basic)."""
    return {
        PROTOCOL_VERSION_KEY: revision,
        CLIENT_INFO_KEY: role_info,
        CLIENT_CAPABILITIES_KEY: declared,
    }


async def _shake_hands(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    handshake = await _initialize(peer, delegate, limits)
    await _confirm(peer, handshake)
    return handshake


async def _probe(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    return await _race(peer, delegate, limits, limits.probe_timeout)


async def _discover_patiently(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    """It is modern, as far as we know: silence more likely means that it is slow than that it was replaced."""
    return await _race(peer, delegate, limits, limits.connect_timeout / 2)


async def _discover_only(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    handshake = await _discover(peer, delegate, limits)
    await _confirm(peer, handshake)
    return handshake


_ONLY: Final[Mapping[Era, _Greet]] = {Era.LEGACY: _shake_hands, Era.MODERN: _discover_only}


async def _insist(
    greet: _Greet, peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits
) -> ServerHandshake:
    """Raises `EraRefusedError` if that is the server's last word: an error of its own may pass."""
    try:
        return await greet(peer, delegate, limits)
    except _RefusedError as error:
        if error.code == INTERNAL_ERROR:
            raise
        raise EraRefusedError(str(error)) from None


async def _race(
    peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits, patience: float
) -> ServerHandshake:
    """Discover; if that fails or takes long, shake hands as well.

    A server that takes the handshake has settled for it, however late it answers the discovery: over stdio and SSE it
    then refuses everything modern on this link.
    """
    news = _News()
    discovering = _Contender(partial(_discover, peer, delegate, limits), news)
    peer.tasks.start_soon(discovering.run)
    with anyio.move_on_after(patience):
        await news.wait()
    # Who cannot be authorised for one cannot for the other; but the user would be asked to log in a second time.
    if isinstance(discovering.error, _DECISIVE):
        raise discovering.error
    handshake = discovering.handshake
    if handshake is None:
        shaking_hands = _Contender(partial(_initialize, peer, delegate, limits), news)
        peer.tasks.start_soon(shaking_hands.run)
        handshake = await _settled(discovering, shaking_hands, news, limits.probe_timeout)
    await _confirm(peer, handshake)
    # Only now: nothing may come between `initialize` and our confirmation. A handshake that lost the race is
    # left to itself, because clients must not cancel it.
    discovering.scope.cancel()
    return handshake


async def _settled(discovering: _Contender, shaking_hands: _Contender, news: _News, patience: float) -> ServerHandshake:
    """What the server has settled for. One that is modern only may say nothing to a handshake: it is given a while."""
    with anyio.CancelScope() as waiting:
        while shaking_hands.handshake is None:
            if shaking_hands.error is not None and discovering.ended:
                break
            if discovering.handshake is not None:
                waiting.deadline = min(waiting.deadline, anyio.current_time() + patience)
            await news.wait()
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


class _News:
    """Something ended; wakes whoever waits for that."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def come(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Wait for the next end."""
        await self._event.wait()
        self._event = anyio.Event()


class _Contender:
    def __init__(self, run: Callable[[], Awaitable[ServerHandshake]], news: _News) -> None:
        self._run = run
        self._news = news
        self.scope = anyio.CancelScope()
        self.handshake: ServerHandshake | None = None
        self.error: UpstreamError | None = None

    @property
    def ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.handshake is not None or self.error is not None

    async def run(self) -> None:
        with self.scope:
            try:
                self.handshake = await self._run()
            except UpstreamError as error:
                self.error = error
            self._news.come()


async def _discover(peer: JsonRpcPeer, delegate: ClientDelegate, limits: UpstreamLimits) -> ServerHandshake:
    """Raises `_DisjointError` if the server is modern but too new, and another `UpstreamError` if it is legacy."""
    result = await _discovered(peer, delegate, limits.revisions, limits.revisions.latest)
    supported = result.get("supportedVersions")
    _refuse_disjoint(supported, limits.revisions)
    revision = _newest_in_common(supported, limits.revisions)
    if revision is None:
        raise _RefusedError(f"answered {DISCOVER} without a modern revision")
    meta = result.get("_meta")
    info = meta.get(SERVER_INFO_KEY) if is_object(meta) else None
    return _handshake(revision, result, info, limits)


async def _discovered(
    peer: JsonRpcPeer, delegate: ClientDelegate, revisions: Revisions, revision: str, *, again: bool = True
) -> JSON:
    """Ask with a revision, and once more with the one that the server wants instead (MCP 2026-07-28, SEP-2575)."""
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
    known = (*HANDSHAKE_REVISIONS, *revisions.names)
    if is_array(supported) and supported and not any(revision in known for revision in supported):
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
    """Say it once of each server, however often it is connected to."""
    logger.warning(
        "%s answered the handshake with the protocol version %s, which is no revision of MCP; it is spoken to as %s",
        server,
        stated,
        UNDATED_REVISION,
    )


def _handshake(revision: str, result: JSON, info: object, limits: UpstreamLimits) -> ServerHandshake:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return ServerHandshake(
        revision=revision,
        modern=is_modern(revision),
        info=_cut(info, limits.text_bytes),
        capabilities=_cut(capabilities, limits.text_bytes),
        instructions=_cut_text(instructions, limits.text_bytes) if isinstance(instructions, str) else None,
    )


def _cut(value: object, limit: int) -> JSON:
    """An object with its texts cut, and without fields that are too large in another way; `{}` for what is none."""
    if not is_object(value):
        return {}
    fields: Mapping[str, Any] = {
        name: _cut_text(item, limit) if isinstance(item, str) else item for name, item in value.items()
    }
    return {name: item for name, item in fields.items() if isinstance(item, str) or len(json.dumps(item)) <= limit}


def _cut_text(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
