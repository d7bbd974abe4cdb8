"""Connects to the bridge of a place, or starts it: only once, even if several programs try at the same time."""

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
    format_greeting,
    is_newer,
    read_greeting,
)
from gaia_bridge_daemon.front.place import ELSEWHERE

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from gaia_bridge_daemon.front.place import Place, Scope

START_PATIENCE = 60.0
"""Seconds for a bridge to start, whoever starts it: a cold machine needs some, and agents import models."""

GREETING_PATIENCE = 30.0
"""Seconds for a bridge to answer a greeting. It does so at once, unless an agent holds its event loop."""

_LOOK = 0.005
"""Seconds between two checks whether a bridge that was started takes connections."""

_LONGEST_PAUSE = 1.0
"""Seconds between two connections to a bridge that ends each of them, as one without a free descriptor does."""

_LOG_BYTES = 1_048_576
"""The longest log of a bridge, in bytes; if the log is longer when a bridge is started, it is renamed."""

_LOG_END = 2_000
"""Bytes at the end of a log in which the reason why a bridge ended is looked up."""

_FILES = 128
"""Open files that a bridge needs without many servers: if fewer are allowed, that limit is given as the reason."""

FOR_EVER = -1.0
"""Stands for seconds: the bridge stays until it is ended by hand."""

_NOT_INHERITED = ("GAIA_BRIDGE_CHILD", "GAIA_BRIDGE_AGENTS")
"""Variables that mark the children of a bridge, which are ended with it; a bridge that others share is no child."""


class BridgeDownError(Exception):
    """There is no bridge, and none can be started; the message says why."""


class NoAnswerError(BridgeDownError):
    """A bridge takes connections, and does not answer."""


def connect(
    place: Place, scope: Scope, keep: float | None, asks: dict[str, object]
) -> tuple[socket.socket, dict[str, Any]]:
    """Connect to the bridge and exchange greetings; the bridge is started if it does not run.

    A bridge of an older version is asked to end once no client waits for it, and ours takes its place.

    Args:
        place: The place of the bridge.
        scope: The scope of the bridge.
        keep: Seconds that the bridge stays without a client, where we start it; its own setting if `None`.
        asks: Further fields of our greeting.

    Returns:
        The connection, and the bridge's greeting.

    Raises:
        BridgeDownError: The bridge cannot be started, refuses us, or does not answer.
    """
    until = time.monotonic() + START_PATIENCE
    pause = _LOOK
    while True:
        connection = connected(place) or start(place, scope, keep, until)
        try:
            connection.sendall(format_greeting(do=SERVE, scope=scope.as_json(), pid=os.getpid(), **asks))
            greeting = _read_greeting(connection, place)
            if not is_newer(__version__, greeting["version"]):  # else the bridge may not even understand our request
                if greeting.get("error"):
                    raise BridgeDownError(str(greeting["error"]))
                return connection, greeting
        except OSError:  # the bridge ended meanwhile
            greeting = {}
        except BaseException:
            connection.close()
            raise
        connection.close()
        if time.monotonic() > until:
            raise BridgeDownError(f"the bridge at {place.front} ends whenever it is connected to; see {place.log}")
        if greeting:  # name this very bridge: others may have replaced it already
            restart(place, scope, greeting.get("keep", keep), until, greeting.get("pid"))
        else:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def ask(place: Place, request: str, **details: object) -> dict[str, Any] | None:
    """Ask a bridge for something other than to serve a client.

    Args:
        place: The place of the bridge.
        request: `STATUS`, `STOP` or `DRAIN`.
        details: Further fields of the greeting.

    Returns:
        The bridge's answer; `None` if none runs there.

    Raises:
        BridgeDownError: The bridge does not answer.
    """
    connection = connected(place)
    if connection is None:
        return None
    with connection:
        try:
            connection.sendall(format_greeting(do=request, **details))
            return _read_greeting(connection, place, STATUS_BYTES)
        except OSError:
            return None


def connected(place: Place) -> socket.socket | None:
    """Connect to the bridge of a place; return `None` if none listens.

    Raises:
        NoAnswerError: A bridge listens, and has taken no connection for long.
    """
    until = time.monotonic() + GREETING_PATIENCE
    while time.monotonic() < until:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(GREETING_PATIENCE)
        try:
            connection.connect(place.front)
            return connection
        except BlockingIOError:  # the queue of connections is full: the bridge is busy, and not gone
            connection.close()
            time.sleep(_LOOK)
        except OSError:
            connection.close()
            return None
    raise NoAnswerError(f"the bridge at {place.front} takes no connections; see {place.log}")


def start(place: Place, scope: Scope, keep: float | None, until: float) -> socket.socket:
    """Start a bridge, unless another program just did; return a connection to it.

    Args:
        place: The place of the bridge.
        scope: The scope of the bridge.
        keep: Seconds that the bridge stays without a client.
        until: When to give up, in monotonic time.

    Raises:
        BridgeDownError: The bridge ended again, or takes too long.
    """
    with alone(place, until) as lock:
        return connected(place) or _start(place, scope, keep, until, lock)


def restart(
    place: Place, scope: Scope, keep: float | None, until: float, pid: int | None = None
) -> dict[str, Any] | None:
    """Replace the bridge that runs by another one, or start one; fronts start none meanwhile.

    Args:
        place: The place of the bridge.
        scope: The scope of the bridge.
        keep: Seconds that the bridge stays without a client; as the one before, if `None`.
        until: When to give up, in monotonic time.
        pid: The process of the bridge to replace; if another one runs, nothing is done.

    Returns:
        The status of the bridge before; `None` if there was none.

    Raises:
        BridgeDownError: The new bridge ended again, or takes too long.
    """
    with alone(place, until) as lock:
        status = ask(place, DRAIN) if pid is None else ask(place, DRAIN, pid=pid)
        if pid is not None and status is not None and status.get("pid") != pid:
            return status
        if keep is None and status is not None:
            keep = status.get("keep")
        _start(place, scope, keep, until, lock).close()
        return status


def _start(place: Place, scope: Scope, keep: float | None, until: float, lock: int) -> socket.socket:
    pid, log_size = launch(place, scope, keep, lock)
    while time.monotonic() < until:
        has_ended = _has_ended(pid)  # before connecting: a bridge leaves this process as soon as it listens
        if (connection := connected(place)) is not None:
            return connection
        if has_ended:
            raise BridgeDownError(_reason_in_log(place.log, log_size) + _too_few_files())
        time.sleep(_LOOK)
    _kill(pid)
    raise BridgeDownError(f"the bridge did not start within {START_PATIENCE:g} s; see {place.log}")


def _has_ended(pid: int) -> bool:
    """Return whether a process that we have started is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # in a front, where SIGCHLD is ignored
        return True


def _kill(pid: int) -> None:
    """Kill a process that we have started, and the bridge that it is starting: they are one process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # the process has made no group yet
        os.kill(pid, signal.SIGKILL)


def launch(place: Place, scope: Scope, keep: float | None, lock: int) -> tuple[int, int]:
    """Start the program of a bridge, in a session of its own; its standard error is its log.

    Args:
        place: The place of the bridge.
        scope: The scope of the bridge.
        keep: Seconds that the bridge stays without a client.
        lock: The descriptor of the lock, which the bridge also holds until it takes connections, so that no other one
            is started if we are killed.

    Returns:
        The first process, which the bridge leaves once it takes connections, and the log's length before the start.
    """
    for path in (place.front, place.http):  # left by a bridge that was killed: the lock keeps all others away
        _remove(path)
    log = _open_log(place.log)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        words = command(place, scope, keep, lock)
        environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        os.set_inheritable(lock, True)
        log_size = os.fstat(log).st_size  # before the bridge can write to it
        return _spawn(words, environ, [(null, 0), (null, 1), (log, 2)]), log_size
    finally:
        os.set_inheritable(lock, False)
        os.close(null)
        os.close(log)


def _spawn(words: list[str], environ: dict[str, str], streams: list[tuple[int, int]]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, here, there) for here, there in streams]
    signals = [signal.SIGCHLD]  # ignored in fronts, but not to be ignored in the bridge
    try:
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsid=True, setsigdef=signals)
    except NotImplementedError:  # an older macOS: the bridge looks for a session itself
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsigdef=signals)


def command(place: Place, scope: Scope, keep: float | None, lock: int | None = None) -> list[str]:
    """Return the command line of a bridge's program."""
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


def _read_greeting(connection: socket.socket, place: Place, most: int = LINE_BYTES) -> dict[str, Any]:
    """Read the greeting of a bridge, and no byte after that.

    Args:
        connection: The connection to the bridge.
        place: The place of the bridge, for messages.
        most: The most bytes of the greeting.

    Raises:
        NoAnswerError: Nothing came.
        BridgeDownError: The text that came is no greeting.
        OSError: The bridge ended.
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
        # Peek before taking: the bytes after the greeting are for another reader.
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
    """Hold the lock with which a bridge is started, so that no other program starts one; yield its descriptor.

    Args:
        place: The place of the bridge.
        until: When to give up, in monotonic time.

    Raises:
        BridgeDownError: Another program has the lock, or the file system supports none.
    """
    lock = _open_lock(place.lock)
    try:
        while not (_try_lock(lock, place.lock) and _is_at(lock, place.lock)):
            if time.monotonic() > until:
                raise BridgeDownError(f"another program has been starting the bridge for long; see {place.log}")
            time.sleep(_LOOK)
            if not _is_at(lock, place.lock):  # removed with its bridge: later programs would lock another file
                os.close(lock)
                lock = _open_lock(place.lock)
        yield lock
    finally:
        os.close(lock)


def _open_lock(lock: str) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _try_lock(lock: int, path: str) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        why = f"{error.strerror}; file systems of a network may have no locks"
        raise BridgeDownError(f"{path} cannot be locked: {why}: {ELSEWHERE}") from None
    return True


def _open_log(path: str) -> int:
    try:
        if os.stat(path).st_size > _LOG_BYTES:
            os.replace(path, f"{path}.1")
    except OSError:
        pass
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _reason_in_log(log: str, begin: int) -> str:
    """Return the reason why a bridge ended, from its log."""
    try:
        with open(log, "rb") as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - _LOG_END))
            lines = file.read(_LOG_END).decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return f"the bridge ended as soon as it was started; see {log}"
    _, error, reason = lines[-1].partition(": error: ")
    return f"{reason if error else lines[-1]}; see {log}"


def _too_few_files() -> str:
    allowed = os.sysconf("SC_OPEN_MAX")
    return f"; only {allowed} open files are allowed, allow more: ulimit -n 1024" if 0 <= allowed < _FILES else ""


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
