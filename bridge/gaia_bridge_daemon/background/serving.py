"""Serves an open bridge to the fronts of editors, and over HTTP on a socket, until it is unused.

Its log is its standard error, with the output of any library, and is kept at a bounded size.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer
from gaia_bridge.settings import BackgroundLimits
from gaia_bridge_daemon.background.fronts import Fronts
from gaia_bridge_daemon.background.sockets import Listening, remove_old
from gaia_bridge_daemon.background.usage import UserCounter
from gaia_bridge_daemon.front.place import Place, Scope

_STDERR: Final = 2


async def keep_bounded(path: str, limits: BackgroundLimits) -> None:
    """Begin a new log file whenever the old one is too long, until cancelled.

    Args:
        path: The path of the log.
        limits: The longest log, and the time between checks.
    """
    while True:
        await anyio.sleep(limits.log_look)
        begin_anew(path, limits.log_bytes)


def begin_anew(path: str, longest: int, descriptor: int = _STDERR) -> bool:
    """Rename a log that is too long, and go on in a new file; return whether that was done.

    Args:
        path: The path of the log.
        longest: The most bytes of the log.
        descriptor: The descriptor through which it is written.
    """
    try:
        about = os.fstat(descriptor)
        if about.st_size <= longest or not os.path.samestat(about, os.stat(path)):  # or standard error is another file
            return False
        os.replace(path, f"{path}.1")
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        logger.debug("the log cannot be put aside: %r", error)
        return False
    try:
        os.dup2(fresh, descriptor)  # inherited by agents' children, as it was before
    finally:
        os.close(fresh)
    return True


logger = logging.getLogger(__name__)

_HOSTS = ("localhost", "localhost:*", "127.0.0.1", "127.0.0.1:*", "[::1]", "[::1]:*")
"""`Host` headers that clients of the socket send: no name leads to it, so DNS rebinding is impossible."""


class Background(Struct, frozen=True):
    """The place and the scope of a bridge in the background."""

    place: Place
    scope: Scope
    keep: float | None
    """Seconds that the bridge stays without a client; for ever if `None`."""
    held: Sequence[int] = ()
    """Descriptors to hold open until clients can connect."""


async def serve_background(
    bridge: Bridge,
    background: Background,
    front_socket: Listening,
    http_socket: Listening,
    when_signalled: Callable[[Callable[[], None]], None],
) -> None:
    """Serve until the bridge was unused for a while, or is asked to end.

    Args:
        bridge: The bridge; open.
        background: The place and the scope of the bridge.
        front_socket: The socket of fronts; bound.
        http_socket: The socket of HTTP clients; bound.
        when_signalled: Takes the function that a signal has to call.
    """
    place, settings = background.place, bridge.settings
    ended = anyio.Event()
    draining = anyio.Event()
    usage = UserCounter(background.keep, settings.background.greeting_timeout, ended.set)
    policy = AccessPolicy.for_hosts(_HOSTS, limits=settings.http)
    app = usage.of(bridge.asgi(policy))
    # Stopped by itself, it makes room for another bridge, and lets calls in flight finish.
    limits = replace(settings.http, shutdown_grace=settings.background.drain_timeout)
    server = HttpServer(app, sockets=[http_socket.socket], limits=limits, on_shutdown=[bridge.close_streams])

    def stop() -> None:
        fronts.rest()
        ended.set()

    def drain() -> None:
        if draining.is_set():
            return
        front_socket.remove()  # the next one takes their place at once
        http_socket.remove()
        fronts.move()
        draining.set()

    fronts = Fronts(
        background.scope,
        bridge.dispatcher,
        lambda: [source.name for source in bridge.sources],
        settings,
        usage,
        stop,
        drain,
        bridge.status,
    )

    async def end_when_left() -> None:
        await draining.wait()
        with anyio.move_on_after(settings.background.drain_timeout):
            await fronts.none_left()
            server.stop()  # after the fronts, since it ends the subscriptions of all clients
            await usage.none_left()
        ended.set()

    when_signalled(stop)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        await tasks.start(fronts.run, front_socket.socket)
        for descriptor in background.held:
            os.close(descriptor)
        logger.info("%s: process %d serves it now", place.front, os.getpid())
        await anyio.to_thread.run_sync(remove_old, os.path.dirname(place.front), settings.background.log_kept)
        tasks.start_soon(end_when_left)
        tasks.start_soon(keep_bounded, place.log, settings.background)
        await ended.wait()
        usage.close()
        logger.info("%s: it ends", place.front)
        server.stop()
        tasks.cancel_scope.cancel()
