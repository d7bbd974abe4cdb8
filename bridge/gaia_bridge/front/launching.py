"""Finds the bridge of a place, or starts it: once, whoever else is about to do so."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
import time

from gaia_bridge.front.greeting import (
    DRAIN,
    LINE_BYTES,
    SERVE,
    GreetingError,
    is_newer,
    read_greeting,
    written,
)
from gaia_bridge.version import __version__

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from typing import Any

    from gaia_bridge.front.place import Place, Scope

__all__ = ["START_PATIENCE", "BridgeDownError", "ask", "command", "connect", "is_alive", "launch", "replace", "start"]

START_PATIENCE = 60.0
"""Seconds for a bridge to start, or for whoever is starting it: a cold machine needs some, and agents import models."""

GREETING_PATIENCE = 30.0
"""Seconds for a bridge to say who it is. It does so at once, unless an agent holds its event loop."""

_LOOK = 0.005
"""Seconds between two looks whether a bridge that was started takes connections."""

_LOG_BYTES = 1_048_576
"""Of the log of a bridge; when one is started after that, the old log is renamed."""

_TOLD = 2_000
"""Bytes of a log that are looked at for the reason why a bridge ended."""

_NOT_INHERITED = ("GAIA_BRIDGE_CHILD", "GAIA_BRIDGE_AGENTS")
"""What marks the children of a bridge, which are ended with it: one that others use as well is no child."""


class BridgeDownError(Exception):
    """There is no bridge, and none can be started; says why."""


def connect(place: Place, scope: Scope, keep: float | None, asks: dict[str, object]) -> socket.socket:
    """A connection to the bridge, greeted on our side; it is started if it does not run.

    One of an older version than ours is asked to end, once nobody waits for it any more, and ours takes its place.

    Args:
        place: Where it is.
        scope: What it publishes.
        keep: Seconds that it stays without a client, where we start it; its own setting if `None`.
        asks: What the greeting says beside that.

    Raises:
        BridgeDownError: It cannot be started, or does not answer.
    """
    until = time.monotonic() + START_PATIENCE
    while True:
        connection = _reached(place.front) or start(place, scope, keep, until)
        try:
            connection.sendall(written(do=SERVE, scope=scope.as_json(), pid=os.getpid(), **asks))
            told = _greeting(connection, place)
            if told.get("error"):
                raise BridgeDownError(str(told["error"]))
            if not is_newer(__version__, told["version"]):
                return connection
        except OSError:  # it ended meanwhile
            told = {}
        except BaseException:
            connection.close()
            raise
        connection.close()
        if time.monotonic() > until:
            raise BridgeDownError(f"the bridge at {place.front} ends whenever it is connected to; see {place.log}")
        if told:
            replace(place)


def ask(place: Place, what: str, patience: float = GREETING_PATIENCE) -> dict[str, Any] | None:
    """Ask a bridge for something other than to serve a client.

    Args:
        place: Where it is.
        what: `STATUS`, `STOP` or `DRAIN`.
        patience: Seconds for the answer.

    Returns:
        Its answer; `None` if none runs there.

    Raises:
        BridgeDownError: It does not answer.
    """
    connection = _reached(place.front)
    if connection is None:
        return None
    with connection:
        try:
            connection.sendall(written(do=what))
            return _greeting(connection, place, patience)
        except OSError:
            return None


def replace(place: Place) -> None:
    """Have a bridge end that is older than we are, once nobody waits for it; others may have done so already."""
    ask(place, DRAIN)


def is_alive(place: Place) -> bool:
    """Whether somebody takes connections there."""
    connection = _reached(place.front)
    if connection is not None:
        connection.close()
    return connection is not None


def start(place: Place, scope: Scope, keep: float | None, until: float) -> socket.socket:
    """Start a bridge, unless somebody else just did; returns a connection to it.

    Args:
        place: Where it will be.
        scope: What it publishes.
        keep: Seconds that it stays without a client.
        until: When to give up, in monotonic time.

    Raises:
        BridgeDownError: It ended again, or takes too long.
    """
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _locked(lock, place, until)
        if (connection := _reached(place.front)) is not None:
            return connection
        pid, said = launch(place, scope, keep)
        while time.monotonic() < until:
            if (connection := _reached(place.front)) is not None:
                return connection
            if os.waitpid(pid, os.WNOHANG)[0]:
                raise BridgeDownError(_last_words(place.log, said))
            time.sleep(_LOOK)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise BridgeDownError(f"the bridge did not start within {START_PATIENCE:g} s; see {place.log}")
    finally:
        os.close(lock)


def launch(place: Place, scope: Scope, keep: float | None) -> tuple[int, int]:
    """Start the program of a bridge, in a session of its own; its standard error is its log.

    Returns:
        Its process, and how long the log was before.
    """
    for path in (place.front, place.http):  # of one that was killed: whoever holds the lock is alone with them
        _remove(path)
    log = _opened_log(place.log)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        words = command(place, scope, keep)
        environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsid=True), os.fstat(log).st_size
    finally:
        os.close(null)
        os.close(log)


def command(place: Place, scope: Scope, keep: float | None) -> list[str]:
    """The command line of the program of a bridge."""
    words = [sys.executable, "-P", "-m", "gaia_bridge", "background", "--place", os.path.dirname(place.front)]
    words += ["--name", place.name, "--folder", scope.folder]
    if scope.config:
        words += ["--config", scope.config]
    if keep is not None:
        words += ["--keep", f"{keep / 60:g}"]
    return [*words, "--", *scope.agents]


def _reached(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(GREETING_PATIENCE)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _greeting(connection: socket.socket, place: Place, patience: float = GREETING_PATIENCE) -> dict[str, Any]:
    """What a bridge says first.

    Raises:
        BridgeDownError: Nothing, or something else.
        OSError: It ended.
    """
    line = b""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    until = time.monotonic() + patience
    while not line.endswith(b"\n"):
        if not poll.poll(max(0, until - time.monotonic()) * 1000):
            raise BridgeDownError(
                f"the bridge at {place.front} takes connections and does not answer; see {place.log}, "
                "or end it: gaia-bridge down"
            )
        # One byte at a time: what follows is no greeting, and somebody else's to read.
        byte = connection.recv(1)
        if not byte:
            raise ConnectionResetError
        line += byte
        if len(line) > LINE_BYTES:
            break
    try:
        return read_greeting(line)
    except GreetingError as error:
        raise BridgeDownError(f"what listens at {place.front} is no bridge: {error}") from None


def _locked(lock: int, place: Place, until: float) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise BridgeDownError(
                    f"another program has been starting the bridge for long; see {place.log}"
                ) from None
        time.sleep(_LOOK)


def _opened_log(path: str) -> int:
    try:
        if os.stat(path).st_size > _LOG_BYTES:
            os.replace(path, f"{path}.1")
    except OSError:
        pass
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _last_words(log: str, said: int) -> str:
    """Why a bridge ended, as its log has it."""
    try:
        with open(log, "rb") as file:
            file.seek(said)
            lines = file.read(_TOLD).decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return f"the bridge ended as soon as it was started; see {log}"
    _, error, told = lines[-1].partition(": error: ")
    return told if error else lines[-1]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
