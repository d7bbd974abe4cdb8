"""Compares the files of editors with the programs installed: entries that lead nowhere, and editors without one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.bridge.discovery import lasting_reference
from gaia_bridge.config.expansion import texts_in
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.errors import AgentLoadError, ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge.version import __version__
from gaia_bridge_daemon.front.greeting import is_newer
from gaia_bridge_daemon.front.program import is_agent
from gaia_bridge_desk.doctor.checks import (
    Finding,
    Kind,
    Level,
    NothingDoneError,
    Repair,
    Subject,
    VersionAnswer,
    ask_version,
    editor_path,
    found_program,
    in_thread,
)
from gaia_bridge_desk.doctor.sockets import is_listened_at
from gaia_bridge_desk.doctor.surroundings import Surroundings
from gaia_bridge_desk.editors.entries import is_ours, program_entry
from gaia_bridge_desk.editors.finding import file_of, is_here, own_program
from gaia_bridge_desk.editors.installed import Installed, InstalledFiles
from gaia_bridge_desk.editors.installing import MAX_BYTES, Wanted, document_of, plan_install, text_of, write
from gaia_bridge_desk.editors.table import EDITORS, Editor, FilePlace, FileScope

_MODULE: Final = (("-m", "gaia_bridge"), ("-P", "-m", "gaia_bridge"))


class EditorEntry(Struct, frozen=True):
    """One entry of the bridge in the file of an editor.

    Args:
        editor: The editor that owns the file.
        place: The place of the file.
        path: The file.
        name: The bridge's name in the file.
        entry: The entry.
        is_installed: Whether `gaia-bridge install` wrote it.
    """

    editor: Editor
    place: FilePlace
    path: Path
    name: str
    entry: JSON
    is_installed: bool

    @property
    def words(self) -> list[str]:
        """Its command line; empty if it is an address."""
        command, args = self.entry.get("command"), self.entry.get("args")
        words: list[Any] = [*command] if is_array(command) else [command] if isinstance(command, str) else []
        return [word for word in (*words, *(args if is_array(args) else ())) if isinstance(word, str)]

    @property
    def program(self) -> list[str]:
        """The part of its command line that names the program: one word, or Python and the module."""
        words = self.words
        length = next((len(module) for module in _MODULE if tuple(words[1 : 1 + len(module)]) == module), 0)
        return words[: 1 + length]

    @property
    def arguments(self) -> list[str]:
        """The rest of its command line."""
        return self.words[len(self.program) :]

    @property
    def search_path(self) -> str:
        """The `PATH` that the entry sets for its program; else empty."""
        for key in ("env", "environment"):
            variables = self.entry.get(key)
            if is_object(variables) and isinstance(path := variables.get("PATH"), str) and "$" not in path:
                return path
        return ""

    @property
    def url(self) -> str:
        """Its address; empty if it is a program."""
        urls = (self.entry.get(key) for key in ("url", "serverUrl", "httpUrl"))
        return next((url for url in urls if isinstance(url, str)), "")

    @property
    def port(self) -> int | None:
        """The port of this machine that the entry leads to, if any."""
        try:
            parts = urlsplit(self.url)
            return parts.port if is_loopback_host(parts.hostname or "") else None
        except ValueError:
            return None

    @property
    def socket(self) -> str:
        """The socket that the entry leads to, if any."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return ""
        return parts.path if parts.scheme == "unix" else ""


class BrokenFile(Struct, frozen=True):
    """A file of an editor that cannot be read.

    Args:
        editor: The editor that owns the file.
        path: The file.
        problem: Why it cannot be read.
    """

    editor: Editor
    path: Path
    problem: str


def editor_entries(at: Surroundings) -> tuple[list[EditorEntry], list[BrokenFile]]:
    """Return the entries of the bridge in all files of editors, and the files that cannot be read.

    Args:
        at: The surroundings of the examination.
    """
    entries: list[EditorEntry] = []
    broken: list[BrokenFile] = []
    seen: set[str] = set()
    for editor, place in _places():
        try:
            path = file_of(place, at.environ, at.platform)
        except ConfigError:  # there is no home folder, or no current one, which other subjects report
            continue
        if (real := f"{editor.root} {os.path.realpath(path)}") in seen or not os.path.lexists(path):
            continue
        seen.add(real)  # several programs share a file
        try:
            servers = _servers(editor, path)
        except ConfigError as error:
            broken.append(BrokenFile(editor, path, str(error)))
        else:
            entries += _ours(editor, place, path, servers)
    return entries, broken


def _places() -> Iterator[tuple[Editor, FilePlace]]:
    for editor in EDITORS:
        for place in editor.places:
            yield editor, place


def _servers(editor: Editor, path: Path) -> JSON:
    """Read the servers of a file.

    Raises:
        ConfigError: The file cannot be read.
    """
    content, _ = read_bytes(path, MAX_BYTES)
    servers = document_of(editor, path, text_of(path, content)).get(editor.root, {})
    if not is_object(servers):
        raise ConfigError(str(path), f"its {editor.root!r} is no object of servers")
    if any("\0" in text for text in texts_in(servers)):  # no path can hold one
        raise ConfigError(str(path), "an entry has a zero byte in it, which no program can be given")
    return servers


def _ours(editor: Editor, place: FilePlace, path: Path, servers: JSON) -> Iterator[EditorEntry]:
    records = _records(path)
    for name, entry in servers.items():
        if is_object(entry) and (name in records or is_ours(entry)):
            yield EditorEntry(editor, place, path, name, entry, name in records)


def _records(path: Path) -> dict[str, Installed]:
    """Return the records of `install` about a file; none if they cannot be read, which is a finding of its own."""
    try:
        return InstalledFiles().of(path)
    except ConfigError:
        return {}


_FINE = Kind("editor.fine", Level.OK, "an editor has the bridge, and can start it", "the editor shows its servers")
_PROGRAM_GONE = Kind(
    "editor.program-gone",
    Level.ERROR,
    "the entry of an editor starts a program that is not there",
    "the editor shows the server as failed: the installation that wrote it was moved or removed",
    "gaia-bridge install EDITOR",
    is_repairable=True,
)
_NOT_FOUND = Kind(
    "editor.program-bare",
    Level.WARNING,
    "the entry of an editor names a program without its path, which an editor from the desktop does not find",
    "it works if the editor is started in a terminal, and not from a menu",
    "gaia-bridge install EDITOR writes the whole path",
    is_repairable=True,
)
_OLDER = Kind(
    "editor.older",
    Level.WARNING,
    "the entry of an editor starts an older version",
    "the editor runs that one, whatever is installed here",
    "gaia-bridge install EDITOR, which writes this one; or upgrade the other",
    is_repairable=True,
)
_OTHER = Kind(
    "editor.other",
    Level.INFO,
    "the entry of an editor starts another installation of the bridge",
    "what is changed in this one is not what the editor runs",
    "gaia-bridge install EDITOR writes this one",
)
_BROKEN_PROGRAM = Kind(
    "editor.program-broken",
    Level.ERROR,
    "the program that the entry of an editor starts does not work",
    "the editor shows the server as failed; often the Python of its environment was removed or upgraded",
    "gaia-bridge install EDITOR",
    is_repairable=True,
)
_AGENT_GONE = Kind(
    "editor.agent-gone",
    Level.ERROR,
    "the entry of an editor names an agent that is not there",
    "the bridge ends with an error when the editor starts it",
    "gaia-bridge install EDITOR PATH, with the right path",
)
_CONFIG_GONE = Kind(
    "editor.config-gone",
    Level.ERROR,
    "the entry of an editor names a file of servers that is not there",
    "the bridge ends with an error when the editor starts it",
    "gaia-bridge install EDITOR --config PATH, with the right path",
)
_SOCKET_SILENT = Kind(
    "editor.socket-silent",
    Level.WARNING,
    "an editor is given a socket at which nobody listens",
    "the editor starts no bridge by itself there, and shows the server as failed",
    "gaia-bridge up --at-login; or gaia-bridge install EDITOR, which starts one when it is needed",
)
_BROKEN = Kind(
    "editor.broken-file",
    Level.ERROR,
    "the file of an editor cannot be read",
    "the editor has none of the servers in it, and `gaia-bridge install` does not touch it",
    "mend the file where the message says; gaia-bridge keeps what it has changed in ~/.gaia/backups",
)
_INDEX = Kind(
    "editor.index-broken",
    Level.ERROR,
    "what `gaia-bridge install` remembers cannot be read",
    "`install` and `install --remove` refuse to work",
    "remove the file; entries can then be taken out by hand",
)
_ABSENT = Kind(
    "editor.absent",
    Level.INFO,
    "editors are here that do not have the bridge",
    "they do not see its servers",
    "gaia-bridge install EDITOR, or gaia-bridge install --all",
)
_NONE = Kind(
    "editor.none", Level.INFO, "no editor was found", "the bridge can be given to any of a list", "gaia-bridge install"
)


async def _check(at: Surroundings) -> list[Finding]:
    entries, broken = await in_thread(partial(editor_entries, at))
    findings = [_BROKEN.finding(file.problem, str(file.path)) for file in broken]
    try:
        InstalledFiles().of(Path("/"))
    except ConfigError as error:
        findings.append(_INDEX.finding(str(error), str(InstalledFiles().folder)))
    versions = await _versions(at, entries)
    findings += await in_thread(partial(_findings, at, entries, broken, versions))
    return findings or [_NONE.finding("no editor was found")]


def _findings(
    at: Surroundings, entries: list[EditorEntry], broken: list[BrokenFile], versions: dict[str, VersionAnswer]
) -> list[Finding]:
    """Return the findings about the entries, and about the editors that have none."""
    findings: list[Finding] = []
    for entry in entries:
        problems = [*_of_program(at, entry, versions), *_of_arguments(entry), *_of_socket(at, entry)]
        findings += problems or [
            _FINE.finding(f"{entry.editor.title}: {entry.name!r} in {entry.path}", str(entry.path))
        ]
    with_it = {entry.editor.name for entry in entries} | {file.editor.name for file in broken}
    without = [editor for editor in EDITORS if editor.places and editor.name not in with_it and is_here(editor)]
    if without:
        names = ", ".join(editor.title for editor in without)
        remedy = f"gaia-bridge install {without[0].name}" if len(without) == 1 else "gaia-bridge install --all"
        findings.append(_ABSENT.finding(f"without the bridge: {names}", "", remedy))
    return findings


async def _versions(at: Surroundings, entries: list[EditorEntry]) -> dict[str, VersionAnswer]:
    """Return the versions of other programs that editors start, by their paths."""
    versions: dict[str, VersionAnswer] = {}

    async def ask(program: list[str]) -> None:
        versions[program[0]] = await ask_version([*program, "--version"], at.limits.program_timeout, at.environ)

    programs = {entry.program[0]: entry.program for entry in entries if _may_be_asked(entry)}
    async with anyio.create_task_group() as tasks:
        for program in programs.values():
            tasks.start_soon(ask, program)
    return versions


def _may_be_asked(entry: EditorEntry) -> bool:
    """Return whether the program of an entry is another bridge whose version can be asked for. A program that the file
    of a folder names is not run: a stranger may have written that file."""
    program = entry.program
    if (
        not program
        or entry.place.scope is FileScope.WORKSPACE
        or not _is_bridge_program(program)
        or _is_this(program[0])
    ):
        return False
    return os.path.isabs(program[0]) and os.access(program[0], os.X_OK)


def _of_program(at: Surroundings, entry: EditorEntry, versions: dict[str, VersionAnswer]) -> Iterator[Finding]:
    """Yield the problems of the program that an entry starts."""
    if not entry.program:
        return
    program, where, install = entry.program[0], _where(entry), install_command(entry)
    if not os.path.isabs(program):
        path = entry.search_path or editor_path(at)
        if "$" not in program and found_program(program, path) is None:
            message = f"{where} starts {program}, which is not in {path}"
            yield _NOT_FOUND.finding(message, str(entry.path), install, _repair(entry))
        return
    if not os.access(program, os.X_OK):
        message = f"{where} starts {program}, which is not there"
        yield _PROGRAM_GONE.finding(message, str(entry.path), install, _repair(entry))
        return
    answer = versions.get(program)
    if answer is None:
        return
    version = answer.text.removeprefix("gaia-bridge ").strip()
    if answer.problem:
        message = f"{where} starts {program}: {answer.problem}"
        yield _BROKEN_PROGRAM.finding(message, str(entry.path), install, _repair(entry))
    elif is_newer(__version__, version):
        message = f"{where} starts {program}, version {version}; this is {__version__}"
        yield _OLDER.finding(message, str(entry.path), install, _repair(entry))
    else:
        yield _OTHER.finding(f"{where} starts {program}, version {version}", str(entry.path), install)


def _of_arguments(entry: EditorEntry) -> Iterator[Finding]:
    """Yield the problems of the files and agents that an entry names."""
    begin, where = f"gaia-bridge install {entry.editor.name}{_scope(entry)}", _where(entry)
    config, agents = _named(entry)
    if config and not _is_there(config):
        message = f"{where} names {config}, which is not there"
        yield _CONFIG_GONE.finding(message, str(entry.path), f"{begin} --config PATH")
    for agent in agents:
        if problem := _problem_of(agent, entry):
            yield _AGENT_GONE.finding(f"{where} names {problem}", str(entry.path), f"{begin} PATH")


def _problem_of(agent: str, entry: EditorEntry) -> str:
    """Return the problem of an agent that an entry names, which begins with its name; empty if it has none.

    An editor may start its program in any folder: a module of one folder is not there in another one. Modules of
    another installation are not known here.
    """
    path = _file(agent)
    if path.endswith(".py") or os.sep in path:
        return "" if _is_there(path) else f"{path}, which is not there"
    if "$" in agent or not entry.program or not _is_this(entry.program[0]):
        return ""
    try:
        lasting_reference(agent, root=Path.cwd() if entry.place.scope is FileScope.WORKSPACE else Path("/"))
    except AgentLoadError as error:
        return f"{agent!r}: {error.problem}"
    return ""


def _named(entry: EditorEntry) -> tuple[str, list[str]]:
    """Return the file of servers and the agents that the command line of an entry names."""
    config, agents = "", list[str]()
    rest = iter(entry.arguments[1:])
    for word in rest:
        if word == "--config":
            config = next(rest, "")
        elif word == "--agent":
            agents.append(next(rest, ""))
        elif not word.startswith("-") and (entry.arguments[0] == "serve" or is_agent(word)):
            agents.append(word)
    return config, agents


def _of_socket(at: Surroundings, entry: EditorEntry) -> Iterator[Finding]:
    if entry.socket and not is_listened_at(entry.socket, at.limits.connect_timeout):
        message = f"{_where(entry)} leads to {entry.socket}, where nobody listens"
        yield _SOCKET_SILENT.finding(message, str(entry.path))


def _file(agent: str) -> str:
    return agent.partition(":")[0]


def _is_there(path: str) -> bool:
    """Return whether a path exists; a path that the editor fills in, or a relative one, counts as existing."""
    return "$" in path or not os.path.isabs(path) or os.path.exists(path)


def _is_this(program: str) -> bool:
    return os.path.realpath(program) == os.path.realpath(own_program()[0])


def _is_bridge_program(program: list[str]) -> bool:
    return len(program) > 1 or os.path.basename(program[0]) == "gaia-bridge"


def _where(entry: EditorEntry) -> str:
    return f"{entry.editor.title}: {entry.name!r} in {entry.path}"


def _scope(entry: EditorEntry) -> str:
    """Return the options that name the file and the entry for `install`."""
    scope = "" if entry.place is entry.editor.places[0] else f" --{entry.place.scope.value}"
    return scope if entry.name == "gaia-bridge" else f"{scope} --name {shlex.quote(entry.name)}"


def install_command(entry: EditorEntry, also: Sequence[str] = ()) -> str:
    """Return the command that writes an entry anew, with its configuration and agents, as far as they exist.

    Args:
        entry: The entry.
        also: Agents to publish before those of the entry.
    """
    config, agents = _named(entry)
    config = config if _is_there(config) else ""
    words = ["--stdio"] if entry.arguments[:1] == ["serve"] else []
    words += [word for word in entry.arguments if word == "--no-servers"]
    words += ["--config", config] if config else []
    words += [*also, *(agent for agent in agents if not _problem_of(agent, entry))]
    options = f" {shlex.join(words)}" if words else ""
    return f"gaia-bridge install {entry.editor.name}{_scope(entry)}{options}"


def replaced_agents(old: EditorEntry, new: EditorEntry) -> list[str]:
    """Return the agents that exist, and that an entry publishes and the one in its place does not.

    Args:
        old: The entry that is replaced.
        new: The entry in its place.
    """
    files = {_file(agent) for agent in _named(new)[1]}
    return [agent for agent in _named(old)[1] if _file(agent) not in files and not _problem_of(agent, old)]


def _repair(entry: EditorEntry) -> Repair | None:
    """Return a repair that makes an entry of ours start this program; entries of others are not touched."""
    if not entry.is_installed or not _is_bridge_program(entry.program):
        return None
    program = " ".join(own_program())
    text = f"have {entry.name!r} in {entry.path} start {program} (what is there now is kept in ~/.gaia/backups)"
    return Repair(text, partial(_rewrite, entry))


def _rewrite(entry: EditorEntry) -> None:
    """Write this program into an entry; its other keys stay.

    Raises:
        NothingDoneError: The file is another by now, or cannot be written.
    """
    shape = entry.editor.shape_in(entry.place)
    if shape.cwd is not None and isinstance(cwd := entry.entry.get(shape.cwd), str):
        shape = replace(shape, stdio={**shape.stdio, shape.cwd: cwd})
    command, *begin = own_program()
    wanted = Wanted(entry.name, program_entry(shape, command, [*begin, *entry.arguments]))
    try:
        change = plan_install(entry.editor, entry.path, wanted)
        if not change.is_one:
            raise NothingDoneError("it starts this program already")
        write(change, shared=entry.place.scope is FileScope.WORKSPACE)
    except ConfigError as error:
        raise NothingDoneError(str(error)) from None


EDITOR_FILES = Subject(
    "Editors",
    (
        *(_FINE, _PROGRAM_GONE, _NOT_FOUND, _OLDER, _OTHER, _BROKEN_PROGRAM, _AGENT_GONE, _CONFIG_GONE),
        *(_SOCKET_SILENT, _BROKEN, _INDEX, _ABSENT, _NONE),
    ),
    _check,
)
