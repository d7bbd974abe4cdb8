"""Checks the bridges in the background: whether they answer, are of this version, and publish existing files."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio

from gaia_bridge.runtime.peer_credentials import peer_process
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge.version import __version__
from gaia_bridge_daemon.front.greeting import (
    STATUS,
    STATUS_BYTES,
    GreetingError,
    format_greeting,
    is_newer,
    read_greeting,
)
from gaia_bridge_daemon.front.place import Place, Scope, is_private, places, runtime_path
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Subject, in_thread
from gaia_bridge_desk.doctor.files import GONE_AT_LOGIN, gone_at_login
from gaia_bridge_desk.doctor.sockets import is_listened_at
from gaia_bridge_desk.doctor.surroundings import Surroundings

_NONE = Kind(
    "daemon.none",
    Level.OK,
    "no bridge runs in the background",
    "one is started when an editor wants it",
)
_FINE = Kind("daemon.fine", Level.OK, "a bridge runs in the background", "editors share it, and its servers")
_MUTE = Kind(
    "daemon.mute",
    Level.ERROR,
    "a bridge in the background takes connections and does not answer",
    "editors wait for it: an agent holds its event loop, or it was stopped",
    "gaia-bridge down kills it; editors start another one",
)
_STRANGE = Kind(
    "daemon.strange",
    Level.ERROR,
    "what listens at a socket of the bridge is no bridge",
    "editors would talk to it",
    "find out what it is, and end it",
)
_OLDER = Kind(
    "daemon.older",
    Level.WARNING,
    "a bridge in the background is of an older version",
    "it is replaced by the first editor that starts a newer `gaia-bridge connect`; until then, the older one serves",
    "gaia-bridge restart",
)
_NEWER = Kind(
    "daemon.newer",
    Level.WARNING,
    "a bridge in the background is of a newer version",
    "another, newer installation started it: this one is outdated",
    "uv tool upgrade gaia-mcp-bridge, or pip install --upgrade gaia-mcp-bridge",
)
_GONE = Kind(
    "daemon.gone",
    Level.WARNING,
    "a bridge in the background publishes what is no longer there",
    "its file of servers, its agents or its folder were removed: it goes on with what it read of them, until it ends",
    "end it by its own options: gaia-bridge down --config PATH",
)


async def _check(at: Surroundings) -> list[Finding]:
    at_login = await in_thread(lambda: list(gone_at_login(at)))
    return [*await _running(at), *at_login]


async def _running(at: Surroundings) -> list[Finding]:
    answers: dict[str, list[Finding]] = {}

    async def look(place: Place) -> None:
        if await in_thread(partial(is_listened_at, place.front, at.limits.connect_timeout)):
            answers[place.name] = await _examine(place, at.limits.connect_timeout)

    async with anyio.create_task_group() as tasks:
        for place in await in_thread(partial(_places, at)):
            tasks.start_soon(look, place)
    findings = [finding for name in sorted(answers) for finding in answers[name]]
    return findings or [_NONE.finding("no bridge runs in the background; an editor starts it when it wants something")]


def _places(at: Surroundings) -> list[Place]:
    folder = runtime_path(at.environ)
    return places(folder) if is_private(folder) else []


async def _examine(place: Place, seconds: float) -> list[Finding]:
    try:
        with anyio.fail_after(seconds):
            status = await _status(place)
    except TimeoutError:
        remedy = "gaia-bridge down" if place.name == "default" else f"kill -9 {await _listener(place, seconds)}"
        return [
            _MUTE.finding(f"{place.name}: no answer within {seconds:g} s; its log is {place.log}", place.name, remedy)
        ]
    except GreetingError:
        return [_STRANGE.finding(f"{place.front}: what answers is no bridge", place.name)]
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):  # the bridge has just ended
        return []
    return list(_of_status(place, status))


async def _listener(place: Place, seconds: float) -> str:
    """Return the process that listens at a place, or a placeholder if the system does not say."""

    def find() -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            try:
                connection.connect(place.front)
            except OSError:
                return "PROCESS"
            return str(peer_process(connection) or "PROCESS")

    return await in_thread(find)


async def _status(place: Place) -> dict[str, Any]:
    """Ask a bridge for its status.

    Raises:
        GreetingError: The answer is not that of a bridge.
    """
    async with await anyio.connect_unix(place.front) as stream:
        await stream.send(format_greeting(do=STATUS))
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive()
            if len(line) > STATUS_BYTES:
                raise GreetingError(f"more than {STATUS_BYTES} bytes came")
        return read_greeting(line)


def _of_status(place: Place, status: dict[str, Any]) -> Iterator[Finding]:
    scope = status.get("scope")
    scope = scope if is_object(scope) else {}
    version, pid = status["version"], status.get("pid")
    if is_newer(__version__, version):
        message = f"{place.name}: process {pid} is version {version}, this is {__version__}"
        yield _OLDER.finding(message, place.name, _command("restart", scope))
    elif is_newer(version, __version__):
        yield _NEWER.finding(f"{place.name}: process {pid} is version {version}, this is {__version__}", place.name)
    for path in _missing(scope):
        message = f"{place.name}: process {pid} publishes {path}, which is not there"
        yield _GONE.finding(message, place.name, _command("down", scope))
    fronts = status.get("fronts")
    windows = len(fronts) if is_array(fronts) else 0
    clients = "no window" if not windows else f"{windows} window{'s' * (windows > 1)}"
    yield _FINE.finding(f"{place.name}: process {pid}, version {version}, {clients} at it", place.name)


def _missing(scope: dict[str, Any]) -> Iterator[str]:
    """Yield the files and folders of a scope that are missing."""
    agents = scope.get("agents")
    references = [str(agent).partition(":")[0] for agent in agents] if is_array(agents) else []
    for path in (scope.get("config"), scope.get("folder"), *references):
        if isinstance(path, str) and os.path.isabs(path) and not os.path.exists(path):
            yield path


def _command(name: str, scope: dict[str, Any]) -> str:
    """Return the command to type for the bridge of a scope."""
    usual: dict[str, Any] = {"config": "", "agents": [], "folder": ""}
    words = Scope.from_json(usual | scope if is_array(scope.get("agents", [])) else usual).words
    folder = scope.get("folder")
    if not isinstance(folder, str) or not folder:
        return shlex.join(["gaia-bridge", name, *words])
    if not os.path.isdir(folder):  # no command can be run there
        return "gaia-bridge down --all"
    return f"cd {shlex.quote(folder)} && {shlex.join(['gaia-bridge', name, *words])}"


DAEMONS = Subject("In the background", (_NONE, _FINE, _MUTE, _STRANGE, _OLDER, _NEWER, _GONE, GONE_AT_LOGIN), _check)
