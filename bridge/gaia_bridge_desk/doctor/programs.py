"""Checks the programs that servers are started with: whether they exist, work, and are found by an editor, too.

Also reports which Python and which `gaia-bridge` this is, and whether editors and shells start the same one.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

import anyio

from gaia_bridge.config.launching.child_environment import PARTS_OF
from gaia_bridge.version import __version__
from gaia_bridge_desk.doctor.checks import (
    Finding,
    Kind,
    Level,
    Subject,
    VersionAnswer,
    ask_version,
    editor_path,
    found_program,
    in_thread,
    is_missing,
    looked_up,
    search_path,
    servers_path,
)
from gaia_bridge_desk.doctor.editors import editor_entries
from gaia_bridge_desk.doctor.surroundings import State, Surroundings
from gaia_bridge_desk.editors.finding import own_program

_THIS = Kind(
    "python.this",
    Level.OK,
    "which Python runs, and which program editors are given",
    "`gaia-bridge install` writes this program into the files of editors",
)
_OTHER_FIRST = Kind(
    "python.other-first",
    Level.WARNING,
    "another `gaia-bridge` comes first on the PATH",
    "what you type is not what runs here, and not what this one writes into the files of editors",
    "use one of them: remove the other, or put the folder of this one first on the PATH",
)
_OTHERS = Kind(
    "python.others",
    Level.INFO,
    "further installations are on the PATH",
    "a script or an editor that names `gaia-bridge` alone may start one of them",
)
_NOT_ON_PATH = Kind(
    "python.not-on-path",
    Level.INFO,
    "no `gaia-bridge` is on the PATH",
    "commands that are shown here have to be typed with the whole path; editors are given that anyway",
    "add its folder to the PATH, or: uv tool install gaia-mcp-bridge",
)
_PASSING = Kind(
    "python.passing",
    Level.WARNING,
    "the program lies in a cache of uv",
    "uv may remove it, and editors that were given it then start nothing",
    "uv tool install gaia-mcp-bridge, and then gaia-bridge install EDITOR",
)
_NO_SCRIPT = Kind(
    "python.no-script",
    Level.INFO,
    "there is no `gaia-bridge` beside the interpreter",
    "editors are given `python -m gaia_bridge` instead, which works as well",
    "pip install --force-reinstall gaia-mcp-bridge makes it",
)


async def _check_python(at: Surroundings) -> list[Finding]:
    own = own_program()
    where = f"Python {platform.python_version()} in {sys.prefix}"
    kind = "an environment of its own" if sys.prefix != sys.base_prefix else "no virtual environment"
    findings = [
        _THIS.finding(f"gaia-bridge {__version__}, {where} ({kind}); editors are given {' '.join(own)}", own[0])
    ]
    if "/archive-v0/" in own[0]:
        findings.append(_PASSING.finding(f"{own[0]} is in a cache of uv", own[0]))
    if len(own) > 1:
        findings.append(_NO_SCRIPT.finding(f"{sys.executable} has no gaia-bridge beside it", sys.executable))
    programs = await in_thread(partial(_on_path, at))
    if not programs:
        return [*findings, _NOT_ON_PATH.finding("no gaia-bridge is found on the PATH", own[0])]
    others = _others(programs, own)
    if not others:
        return findings
    if others[0] != programs[0]:
        return [*findings, _OTHERS.finding(f"also on the PATH: {', '.join(others)}", others[0])]
    answer = await ask_version([others[0], "--version"], at.limits.program_timeout, at.environ)
    version = answer.problem or answer.text.removeprefix("gaia-bridge ")
    remedy = f"put {_folder(own[0])} first on the PATH, or remove the other"
    message = f"the shell starts {others[0]} ({version}), not {own[0]}"
    return [*findings, _OTHER_FIRST.finding(message, others[0], remedy)]


def _on_path(at: Surroundings) -> list[str]:
    """Return every `gaia-bridge` of the PATH, in its order."""
    folders = dict.fromkeys(search_path(at).split(os.pathsep))
    paths = (path for folder in folders if (path := found_program("gaia-bridge", folder)) is not None)
    return list({os.path.realpath(path): path for path in reversed(list(paths))}.values())[::-1]


def _others(programs: list[str], own: list[str]) -> list[str]:
    """Return the programs that are not this one."""
    ours = {os.path.realpath(own[0]), os.path.realpath(os.path.join(_folder(sys.executable), "gaia-bridge"))}
    return [path for path in programs if os.path.realpath(path) not in ours]


def _folder(path: str) -> str:
    return os.path.dirname(path)


PYTHON = Subject("Python", (_THIS, _OTHER_FIRST, _OTHERS, _NOT_ON_PATH, _PASSING, _NO_SCRIPT), _check_python)


_WORKS = Kind(
    "program.works", Level.OK, "a program that servers are started with works", "servers can be started with it"
)
_MISSING = Kind(
    "program.missing",
    Level.ERROR,
    "a program that a server is started with is not there",
    "the server cannot be started",
    "install it, or write its whole path as the `command` of the server",
)
_ABSENT = Kind(
    "program.absent",
    Level.INFO,
    "a usual program is not installed, and no server needs it yet",
    "servers that are started with it cannot be added",
    "install it when you need it",
)
_BROKEN = Kind(
    "program.broken",
    Level.ERROR,
    "a program that a server is started with does not work",
    "the server cannot be started",
    "run the program with --version in a terminal, and install it anew",
)
_BROKEN_UNUSED = Kind(
    "program.broken-unused",
    Level.INFO,
    "a usual program does not work, and no server needs it yet",
    "servers that are started with it would not start",
    "run the program with --version in a terminal, and install it anew",
)
_NODE_OLD = Kind(
    "program.node-old",
    Level.WARNING,
    "Node.js is older than 18",
    "most servers in JavaScript need 18 or newer, and end at once with a syntax error in older ones",
    "install a newer one: https://nodejs.org/",
)
_HIDDEN = Kind(
    "path.hidden",
    Level.WARNING,
    "a program that a server is started with is found by the shell, and not by an editor from the desktop",
    "an editor that is started from a menu has a short PATH, unless it asks your shell, as VS Code does: "
    "the server works in the terminal and not there",
    "write the whole path of the program as the `command` of the server",
)
_DIFFERS = Kind(
    "path.differs",
    Level.WARNING,
    "an editor from the desktop finds another program of that name than the shell",
    "the server may work in the terminal and not in the editor: the other one is often older",
    "write the whole path of the program as the `command` of the server",
)
_PATHS = Kind(
    "path.editor",
    Level.OK,
    "which PATH an editor has, and what it finds there",
    "an editor that is started from a menu does not read the files of your shell; VS Code asks the shell, most do not",
)

_SOURCES: Final = {name: PARTS_OF[name] for name in ("npx", "node", "uvx", "docker")}
"""The usual programs, and their sources."""

_ASKED: Final = {"docker": ("version", "--format", "{{.Client.Version}}, its daemon {{.Server.Version}}")}
"""The arguments that ask a program for its version, where they are not `--version`."""

_OLDEST_NODE: Final = 18


async def _check(at: Surroundings) -> list[Finding]:
    needed = _needed(at)
    usual = await in_thread(partial(_usual, at))
    there = {name: path for name, path in usual.items() if path is not None}
    answers = dict[str, VersionAnswer]()

    async def ask(name: str, path: str) -> None:
        words = [path, *_ASKED.get(name, ("--version",))]
        answers[name] = await ask_version(words, at.limits.program_timeout, at.environ)

    async with anyio.create_task_group() as tasks:
        for name, path in there.items():
            tasks.start_soon(ask, name, path)
    findings: list[Finding] = []
    for name in _SOURCES:
        findings += _findings(name, usual[name], answers.get(name), sorted(needed.get(name, ())))
    return findings + await in_thread(lambda: [*_other_commands(at, needed), *_hidden(at, needed)])


def _usual(at: Surroundings) -> dict[str, str | None]:
    """Return the paths of the usual programs."""
    return {name: found_program(name, servers_path(search_path(at))) for name in _SOURCES}


def _needed(at: Surroundings) -> dict[str, set[str]]:
    """Return the servers by the programs that start them, which are looked up on the PATH or by their paths."""
    needed: dict[str, set[str]] = {}
    for name, command in _commands(at):
        needed.setdefault(command, set()).add(name)
    return needed


def _commands(at: Surroundings) -> Iterator[tuple[str, str]]:
    for entry in at.wanted:
        if entry.state is State.USABLE and (command := looked_up(entry.spec)):
            yield entry.name, command


def _findings(name: str, path: str | None, answer: VersionAnswer | None, servers: list[str]) -> list[Finding]:
    if path is None:
        if servers:
            return [
                _MISSING.finding(
                    f"{name} is not found on the PATH; needed by {', '.join(servers)}", name, _advice(name)
                )
            ]
        return [_ABSENT.finding(f"{name} is not installed", name, f"when you need it: {_SOURCES[name]}")]
    assert answer is not None
    if answer.problem:
        kind = _BROKEN if servers else _BROKEN_UNUSED
        wanted = f"; needed by {', '.join(servers)}" if servers else ""
        if name == "docker":
            start = "start Docker Desktop, or: sudo systemctl start docker"
            message = f"{path}: Docker's daemon does not answer{wanted or '; no server needs it'}"
            return [kind.finding(message, path, start if servers else f"when you need it: {start}")]
        return [kind.finding(f"{path} does not work: {answer.problem}{wanted}", path, f"{shlex.quote(path)} --version")]
    number = re.match(r"v?(\d+)\.", answer.text)
    if name == "node" and number is not None and int(number[1]) < _OLDEST_NODE:
        return [_NODE_OLD.finding(f"{path} is {answer.text}", path)]
    return [_WORKS.finding(f"{name} {answer.text.removeprefix(name).strip()}: {path}", path)]


def _other_commands(at: Surroundings, needed: dict[str, set[str]]) -> Iterator[Finding]:
    """Yield a finding for each other program of servers that is missing."""
    for command, servers in needed.items():
        if command not in _SOURCES and is_missing(command, at):
            name = os.path.basename(command)
            where = "is not there, or cannot be run" if os.sep in command else "is not found on the PATH"
            yield _MISSING.finding(f"{command} {where}; needed by {', '.join(sorted(servers))}", command, _advice(name))


def _hidden(at: Surroundings, needed: dict[str, set[str]]) -> Iterator[Finding]:
    """Yield findings about programs that an editor does not find although the shell does, or finds elsewhere."""
    own, looked_in = servers_path(search_path(at)), {path: servers_path(path) for path in _paths_of_editors(at)}
    hidden: list[str] = []
    seen: list[str] = []
    for name in dict.fromkeys([*_SOURCES, *needed]):
        path = found_program(name, own)
        if path is None or os.sep in name:
            continue
        elsewhere = {short: found_program(name, path) for short, path in looked_in.items()}
        missing = next((short for short, other in elsewhere.items() if other is None), None)
        (seen if missing is None else hidden).append(name)
        servers = ", ".join(sorted(needed.get(name, ())))
        remedy = f'write it into the entry of {servers}: "command": "{path}"'
        others = [other for other in elsewhere.values() if other and os.path.realpath(other) != os.path.realpath(path)]
        if servers and missing is not None:
            yield _HIDDEN.finding(f"{name} is {path}, which is not in {missing}", path, remedy)
        elif servers and others:
            yield _DIFFERS.finding(f"{name} is {path} for the shell, and {others[0]} for an editor", path, remedy)
    clauses = [f"an editor from the desktop looks in {' and '.join(looked_in)}"]
    clauses += [f"it finds {', '.join(seen)}"] if seen else []
    clauses += [f"it does not find {', '.join(hidden)}, which the shell does"] if hidden else []
    yield _PATHS.finding("; ".join(clauses))


def _paths_of_editors(at: Surroundings) -> list[str]:
    """Return the `PATH`s of the bridges that editors start."""
    entries = [entry for entry in editor_entries(at)[0] if entry.words]
    return list(dict.fromkeys(entry.search_path or editor_path(at) for entry in entries)) or [editor_path(at)]


def _advice(name: str) -> str:
    source = _SOURCES.get(name)
    return _MISSING.remedy if source is None else f"install {source}"


PROGRAMS = Subject(
    "Programs", (_WORKS, _MISSING, _ABSENT, _BROKEN, _BROKEN_UNUSED, _NODE_OLD, _PATHS, _HIDDEN, _DIFFERS), _check
)
