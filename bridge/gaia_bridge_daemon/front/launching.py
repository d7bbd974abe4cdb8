"""Finds the bridge of a place, or starts it: once, whoever else is about to do so."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
import time
from contextlib import contextmanager

from gaia_bridge.version import __version__
from gaia_bridge_daemon.front.greeting import (
    DRAIN,
    LINE_BYTES,
    SERVE,
    STATUS_BYTES,
    GreetingError,
    is_newer,
    read_greeting,
    written,
)
from gaia_bridge_daemon.front.place import ELSEWHERE

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from gaia_bridge_daemon.front.place import Place, Scope

START_PATIENCE = 60.0
"""Seconds for a bridge to start, or for whoever is starting it: a cold machine needs some, and agents import models."""

GREETING_PATIENCE = 30.0
"""Seconds for a bridge to say who it is. It does so at once, unless an agent holds its event loop."""

_LOOK = 0.005
"""Seconds between two looks whether a bridge that was started takes connections."""

_LONGEST_PAUSE = 1.0
"""Seconds between two connections to a bridge that ends each of them, as one without a free descriptor does."""

_LOG_BYTES = 1_048_576
"""Of the log of a bridge; when one is started after that, the old log is renamed."""

_TOLD = 2_000
"""Bytes at the end of a log that are looked at for the reason why a bridge ended."""

_FILES = 128
"""Open files that a bridge needs without many servers: where fewer are allowed, that is why it ended."""

FOR_EVER = -1.0
"""Instead of seconds: a bridge stays until it is ended by hand."""

_NOT_INHERITED = ("GAIA_BRIDGE_CHILD", "GAIA_BRIDGE_AGENTS")
"""What marks the children of a bridge, which are ended with it: one that others use as well is no child."""


class BridgeDownError(Exception):
    """There is no bridge, and none can be started; says why."""


class NoAnswerError(BridgeDownError):
    """There is one that takes connections, and says nothing."""


def connect(
    place: Place, scope: Scope, keep: float | None, asks: dict[str, object]
) -> tuple[socket.socket, dict[str, Any]]:
    """A connection to the bridge, greeted on both sides; it is started if it does not run.

    One of an older version than ours is asked to end, once nobody waits for it any more, and ours takes its place.

    Args:
        place: Where it is.
        scope: What it publishes.
        keep: Seconds that it stays without a client, where we start it; its own setting if `None`.
        asks: What the greeting says beside that.

    Returns:
        The connection, and what the bridge says of itself.

    Raises:
        BridgeDownError: It cannot be started, or does not answer.
    """
    until = time.monotonic() + START_PATIENCE
    pause = _LOOK
    while True:
        connection = connected(place) or start(place, scope, keep, until)
        try:
            connection.sendall(written(do=SERVE, scope=scope.as_json(), pid=os.getpid(), **asks))
            told = _greeting(connection, place)
            if not is_newer(__version__, told["version"]):  # else it may not even know what we want
                if told.get("error"):
                    raise BridgeDownError(str(told["error"]))
                return connection, told
        except OSError:  # it ended meanwhile
            told = {}
        except BaseException:
            connection.close()
            raise
        connection.close()
        if time.monotonic() > until:
            raise BridgeDownError(f"the bridge at {place.front} ends whenever it is connected to; see {place.log}")
        if told:  # this very one: others may have replaced it already
            restart(place, scope, told.get("keep", keep), until, told.get("pid"))
        else:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def ask(place: Place, what: str, **details: object) -> dict[str, Any] | None:
    """Ask a bridge for something other than to serve a client.

    Args:
        place: Where it is.
        what: `STATUS`, `STOP` or `DRAIN`.
        details: What else the bridge is told.

    Returns:
        Its answer; `None` if none runs there.

    Raises:
        BridgeDownError: It does not answer.
    """
    connection = connected(place)
    if connection is None:
        return None
    with connection:
        try:
            connection.sendall(written(do=what, **details))
            return _greeting(connection, place, STATUS_BYTES)
        except OSError:
            return None


def connected(place: Place) -> socket.socket | None:
    """A connection to whoever takes some there; `None` if nobody does.

    Raises:
        NoAnswerError: There is somebody, who has taken none for long.
    """
    until = time.monotonic() + GREETING_PATIENCE
    while time.monotonic() < until:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(GREETING_PATIENCE)
        try:
            connection.connect(place.front)
            return connection
        except BlockingIOError:  # there are as many waiting as can: it is busy, and not gone
            connection.close()
            time.sleep(_LOOK)
        except OSError:
            connection.close()
            return None
    raise NoAnswerError(f"the bridge at {place.front} takes no connections; see {place.log}")


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
    with alone(place, until) as lock:
        return connected(place) or _started(place, scope, keep, until, lock)


def restart(
    place: Place, scope: Scope, keep: float | None, until: float, pid: int | None = None
) -> dict[str, Any] | None:
    """Have another bridge take the place of the one that runs, or start one; fronts start none meanwhile.

    Args:
        place: Where it is.
        scope: What it publishes.
        keep: Seconds that it stays without a client; as the one before it, if `None`.
        until: When to give up, in monotonic time.
        pid: The process of the one that is meant; if another one runs, nothing is done.

    Returns:
        What the one before said of itself; `None` if there was none.

    Raises:
        BridgeDownError: It ended again, or takes too long.
    """
    with alone(place, until) as lock:
        told = ask(place, DRAIN) if pid is None else ask(place, DRAIN, pid=pid)
        if pid is not None and told is not None and told.get("pid") != pid:
            return told
        if keep is None and told is not None:
            keep = told.get("keep")
        _started(place, scope, keep, until, lock).close()
        return told


def _started(place: Place, scope: Scope, keep: float | None, until: float, lock: int) -> socket.socket:
    pid, said = launch(place, scope, keep, lock)
    while time.monotonic() < until:
        has_ended = _has_ended(pid)  # before we look: a bridge leaves this process as soon as it is there
        if (connection := connected(place)) is not None:
            return connection
        if has_ended:
            raise BridgeDownError(_last_words(place.log, said) + _too_few_files())
        time.sleep(_LOOK)
    _end(pid)
    raise BridgeDownError(f"the bridge did not start within {START_PATIENCE:g} s; see {place.log}")


def _has_ended(pid: int) -> bool:
    """Whether a process that we have started is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # a front lets the system bury them
        return True


def _end(pid: int) -> None:
    """End a process that we have started, and the bridge that is on its way to leave it: they are a group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has made none yet
        os.kill(pid, signal.SIGKILL)


def launch(place: Place, scope: Scope, keep: float | None, lock: int) -> tuple[int, int]:
    """Start the program of a bridge, in a session of its own; its standard error is its log.

    Args:
        place: Where it will be.
        scope: What it publishes.
        keep: Seconds that it stays without a client.
        lock: The descriptor of the lock, which the bridge holds as well until it takes connections: so nobody starts
            another one if we are killed.

    Returns:
        Its process, which it leaves once it takes connections, and how long the log was before.
    """
    for path in (place.front, place.http):  # of one that was killed: whoever holds the lock is alone with them
        _remove(path)
    log = _opened_log(place.log)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        words = command(place, scope, keep, lock)
        environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        os.set_inheritable(lock, True)
        said = os.fstat(log).st_size  # before it can say anything
        return _spawned(words, environ, [(null, 0), (null, 1), (log, 2)]), said
    finally:
        os.set_inheritable(lock, False)
        os.close(null)
        os.close(log)


def _spawned(words: list[str], environ: dict[str, str], streams: list[tuple[int, int]]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, here, there) for here, there in streams]
    heard = [signal.SIGCHLD]  # which we may ignore, and the bridge must not
    try:
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsid=True, setsigdef=heard)
    except NotImplementedError:  # an older macOS: the bridge looks for a session itself
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsigdef=heard)


def command(place: Place, scope: Scope, keep: float | None, lock: int | None = None) -> list[str]:
    """The command line of the program of a bridge."""
    words = [sys.executable, "-P", "-m", "gaia_bridge", "background", "--place", os.path.dirname(place.front)]
    words += ["--name", place.name, "--folder", scope.folder]
    if scope.config:
        words += ["--config", scope.config]
    if not scope.servers:
        words.append("--no-servers")
    if keep is not None:
        words += ["--keep", f"{keep:.10g}"]
    if lock is not None:
        words += ["--lock", str(lock)]
    return [*words, "--", *scope.agents]


def _greeting(connection: socket.socket, place: Place, most: int = LINE_BYTES) -> dict[str, Any]:
    """Read what a bridge says first, and nothing behind it.

    Args:
        connection: To the bridge.
        place: Where it is, for messages.
        most: The bytes that it may have.

    Raises:
        NoAnswerError: It says nothing.
        BridgeDownError: It says something else.
        OSError: It ended.
    """
    line = b""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    until = time.monotonic() + GREETING_PATIENCE
    while not line.endswith(b"\n"):
        if not poll.poll(max(0, until - time.monotonic()) * 1000):
            raise NoAnswerError(
                f"the bridge at {place.front} takes connections and does not answer; see {place.log}, "
                "or end it: gaia-bridge down"
            )
        # It is looked at before it is taken: what follows is no greeting, and somebody else's to read.
        seen = connection.recv(LINE_BYTES, socket.MSG_PEEK)
        if not seen:
            raise ConnectionResetError
        line += connection.recv(seen.find(b"\n") + 1 or len(seen))
        if len(line) > most:
            break
    try:
        return read_greeting(line)
    except GreetingError as error:
        raise BridgeDownError(f"what listens at {place.front} is no bridge: {error}") from None


@contextmanager
def alone(place: Place, until: float) -> Generator[int]:
    """Inside of it, nobody else starts a bridge there; gives the descriptor of the lock.

    Args:
        place: Where.
        until: When to give up, in monotonic time.

    Raises:
        BridgeDownError: Somebody else has the lock, or the file system has none.
    """
    lock = _opened(place.lock)
    try:
        while not (_locked(lock, place.lock) and _is_at(lock, place.lock)):
            if time.monotonic() > until:
                raise BridgeDownError(f"another program has been starting the bridge for long; see {place.log}")
            time.sleep(_LOOK)
            if not _is_at(lock, place.lock):  # removed with its bridge: who comes later would lock another file
                os.close(lock)
                lock = _opened(place.lock)
        yield lock
    finally:
        os.close(lock)


def _opened(lock: str) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _locked(lock: int, path: str) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        why = f"{error.strerror}; file systems of a network may have no locks"
        raise BridgeDownError(f"{path} cannot be locked: {why}: {ELSEWHERE}") from None
    return True


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
            file.seek(max(said, file.seek(0, os.SEEK_END) - _TOLD))
            lines = file.read(_TOLD).decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return f"the bridge ended as soon as it was started; see {log}"
    _, error, told = lines[-1].partition(": error: ")
    return f"{told if error else lines[-1]}; see {log}"


def _too_few_files() -> str:
    allowed = os.sysconf("SC_OPEN_MAX")
    return f"; only {allowed} open files are allowed, allow more: ulimit -n 1024" if 0 <= allowed < _FILES else ""


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
