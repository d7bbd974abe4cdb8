"""The identity of the bridge that a front belongs to, and its place: a socket in a folder of the user's own."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import zlib

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_FOLDER = "gaia-bridge"

_SOCKET_PATH = 100
"""The longest path of a socket, in bytes: the system takes 103 (macOS) or 107 (Linux)."""

_SHORT = "/tmp"
"""The parent of the sockets' folder where the usual path would be too long, or is not known."""

_ENDING = ".sock"

_SHIPPED = ("code", "project")
"""As `gaia_bridge.constants` has them: agents that work in the folder of each window, wherever the bridge runs."""

_SERVERS_FILE = "mcp_servers.json"
"""As `gaia_bridge.config.paths` has it, which takes longer to import."""


ELSEWHERE = "have XDG_RUNTIME_DIR name a folder of your own (chmod 700) that can be written"

_REMEDIES = {
    errno.EROFS: f"its disk can only be read: {ELSEWHERE}",
    errno.ENOSPC: f"make room on its disk, or {ELSEWHERE}",
    errno.EDQUOT: f"make room on its disk, or {ELSEWHERE}",
    errno.EMFILE: "allow this program more open files: ulimit -n 1024",
    errno.ENFILE: "the system has too many open files: end some programs",
    errno.EACCES: f"give yourself the right to write there, or {ELSEWHERE}",
    errno.EPERM: f"give yourself the right to write there, or {ELSEWHERE}",
    errno.ENAMETOOLONG: "have XDG_RUNTIME_DIR name a folder of your own (chmod 700) with a shorter path",
    errno.ENOTDIR: f"remove the file that stands where a folder is needed, or {ELSEWHERE}",
    errno.EEXIST: f"remove the file that stands where a folder is needed, or {ELSEWHERE}",
}
"""Remedies for errors of the system, by their numbers."""


class PlaceError(Exception):
    """There is no folder that only this user can write to; the message says why."""


class Scope:
    """The offer of a bridge in the background: all clients that want the same scope share one bridge.

    Args:
        config: The absolute path of a file of servers; empty for the user's own.
        agents: References of agents, files among them by their absolute paths.
        folder: The absolute path of the folder that it runs in; empty where nothing depends on it.
        servers: Whether it publishes configured servers, too.
    """

    def __init__(self, config: str = "", agents: Sequence[str] = (), folder: str = "", servers: bool = True) -> None:
        self.config = config
        self.agents = tuple(agents)
        self.folder = folder
        self.servers = servers

    @classmethod
    def of(cls, config: str | None, agents: Sequence[str], folder: str, servers: bool = True) -> Scope:
        """Return the scope of a command line.

        Args:
            config: The path of a file of servers, if one is named.
            agents: References of agents.
            folder: The current folder.
            servers: Whether configured servers are wanted.

        The scope depends on the folder if an agent is named that is no file and does not ship with us, or if the folder
        lists servers of its own.
        """
        references = [_absolute(agent, folder) for agent in agents]
        local = servers and config is None and os.path.isfile(os.path.join(folder, _SERVERS_FILE))
        local = local and os.path.realpath(folder) != os.path.realpath(os.path.expanduser("~/.gaia"))
        here = local or not all(_is_file(agent) or agent in _SHIPPED for agent in references)
        file = "" if config is None else os.path.normpath(os.path.join(folder, os.path.expanduser(config)))
        return cls(file, references, folder if here else "", servers)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Scope:
        """Return the scope in a bridge's answer."""
        return cls(fields["config"], fields["agents"], fields["folder"], fields.get("servers", True))

    @property
    def words(self) -> list[str]:
        """Return the arguments that name the scope on a command line, in its folder."""
        config = ["--config", self.config] if self.config else []
        return [*config, *([] if self.servers else ["--no-servers"]), *self.agents]

    @property
    def name(self) -> str:
        """A name for the scope, as a part of a file's name: `default`, or the beginning of a path, and a check sum."""
        if not (self.config or self.agents or self.folder) and self.servers:
            return "default"
        label = os.path.basename(self.folder or self.config or "".join(self.agents[:1]).partition(":")[0])
        word = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in label)[:20].strip("-")
        parts = (self.config, self.folder, *self.agents, *(() if self.servers else ("--no-servers",)))
        number = zlib.crc32("\0".join(parts).encode(errors="surrogateescape"))
        return f"{word or 'bridge'}-{number:08x}"

    def as_json(self) -> dict[str, object]:
        """Return the scope as JSON for another program."""
        fields: dict[str, object] = {"config": self.config, "agents": list(self.agents), "folder": self.folder}
        return fields if self.servers else {**fields, "servers": False}  # older bridges do not have this key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self.as_json() == other.as_json()

    __hash__ = None  # type: ignore[assignment] # no scope is kept in a set


class Place:
    """The files of one bridge in the background.

    Args:
        folder: The user's own folder of all such files.
        name: The name of this bridge.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        self.front = os.path.join(folder, f"{name}.front{_ENDING}")
        """The socket for fronts: a greeting, then the messages of stdio."""
        self.http = os.path.join(folder, f"{name}{_ENDING}")
        """The socket that speaks HTTP, for clients that take `unix:///...`."""
        self.lock = os.path.join(folder, f"{name}.lock")
        """The lock, held by the process that starts the bridge."""
        self.log = os.path.join(folder, f"{name}.log")


def runtime_path(environ: Mapping[str, str] | None = None) -> str:
    """Return the path of the sockets' folder: in the user's runtime folder, or `~/.gaia/run` where there is none.

    Args:
        environ: The environment; that of this process if not given.
    """
    environ = os.environ if environ is None else environ
    configured, name = environ.get("XDG_RUNTIME_DIR"), _FOLDER + _of_another_home()
    runtime = configured or f"/run/user/{os.getuid()}"  # also in shells without the variable
    if os.path.isabs(runtime) and is_private(runtime):
        folder = os.path.join(runtime, _FOLDER if configured else name)
    else:
        folder = os.path.join(os.path.expanduser("~"), ".gaia", "run")
    if not os.path.isabs(folder) or len(os.fsencode(folder)) + _longest_name() > _SOCKET_PATH:
        folder = f"{_SHORT}/{name}-{os.getuid()}"
    return folder


def runtime_folder(environ: Mapping[str, str] | None = None) -> str:
    """Return the path of the sockets' folder, as `runtime_path` does, after creating it.

    Args:
        environ: The environment; that of this process if not given.

    Raises:
        PlaceError: The folder cannot be created, or others can write to it.
    """
    folder = runtime_path(environ)
    try:
        for each in (os.path.dirname(folder), folder):  # `makedirs` has its mode for the last one alone
            os.makedirs(each, mode=0o700, exist_ok=True)
    except OSError as error:
        why = f"{error.strerror}{remedy(error)}"
        raise PlaceError(f"{folder}: the folder of the bridge's sockets cannot be made: {why}") from None
    if not is_private(folder):
        raise PlaceError(f"{folder}: {_why_not_private(folder)}")
    return folder


def remedy(error: OSError) -> str:
    """Return the remedy for a system error in the folder of the sockets, as the end of a sentence; may be empty."""
    text = _REMEDIES.get(error.errno or 0)
    return f"; {text}" if text else ""


def _why_not_private(folder: str) -> str:
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode):
        return f"it is a link; expected a folder that only you can open: remove it, or {ELSEWHERE}"
    if about.st_uid != os.getuid():
        return f"it belongs to user {about.st_uid}; expected a folder of your own: {ELSEWHERE}"
    return "others may write to it; expected a folder that only you can open: chmod 700 it, or remove it"


def is_private(folder: str) -> bool:
    """Return whether a folder is this user's own, and closed to all others."""
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def current_folder() -> str:
    """Return the current folder of this process; the user's home folder, if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.path.expanduser("~")


def places(folder: str) -> list[Place]:
    """Return the places of the bridges that have, or had, a socket in a folder."""
    ending = f".front{_ENDING}"
    return [Place(folder, name.removesuffix(ending)) for name in sorted(os.listdir(folder)) if name.endswith(ending)]


def _of_another_home() -> str:
    """Return a suffix for bridges of another `HOME` than the user's own: they have another configuration."""
    home = os.path.realpath(os.path.expanduser("~"))
    try:
        is_own = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir) == home
    except KeyError:  # the user has no entry in the system's database
        is_own = False
    return "" if is_own else f"-{zlib.crc32(os.fsencode(home)):08x}"


def _longest_name() -> int:
    return len("/") + 20 + len("-00000000.front") + len(_ENDING)


def _absolute(agent: str, folder: str) -> str:
    """Return the reference of an agent, with the absolute path of its file if it has one."""
    if agent in _SHIPPED:  # whatever files the folder has
        return agent
    path, colon, name = agent.partition(":")
    whole = os.path.join(folder, os.path.expanduser(path))
    return f"{os.path.normpath(whole)}{colon}{name}" if path and os.path.exists(whole) else agent


def _is_file(agent: str) -> bool:
    return os.path.isabs(agent.partition(":")[0])
