"""Which Python and which `gaia-bridge` this is, and whether editors and shells start the same one."""

from __future__ import annotations

import os
import platform
import sys
from functools import partial

from gaia_bridge.version import __version__
from gaia_bridge_desk.doctor.checks import Subject, found_program, in_thread, search_path, what_it_says
from gaia_bridge_desk.doctor.findings import Finding, Kind, Level
from gaia_bridge_desk.doctor.surroundings import Surroundings
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


async def _check(at: Surroundings) -> list[Finding]:
    own = own_program()
    where = f"Python {platform.python_version()} in {sys.prefix}"
    kind = "an environment of its own" if sys.prefix != sys.base_prefix else "no virtual environment"
    found = [_THIS.found(f"gaia-bridge {__version__}, {where} ({kind}); editors are given {' '.join(own)}", own[0])]
    if "/archive-v0/" in own[0]:
        found.append(_PASSING.found(f"{own[0]} is in a cache of uv", own[0]))
    if len(own) > 1:
        found.append(_NO_SCRIPT.found(f"{sys.executable} has no gaia-bridge beside it", sys.executable))
    programs = await in_thread(partial(_on_path, at))
    if not programs:
        return [*found, _NOT_ON_PATH.found("no gaia-bridge is found on the PATH", own[0])]
    others = _others(programs, own)
    if not others:
        return found
    if others[0] != programs[0]:
        return [*found, _OTHERS.found(f"also on the PATH: {', '.join(others)}", others[0])]
    said = await what_it_says([others[0], "--version"], at.limits.program_timeout, at.environ)
    version = said.problem or said.text.removeprefix("gaia-bridge ")
    remedy = f"put {_folder(own[0])} first on the PATH, or remove the other"
    message = f"the shell starts {others[0]} ({version}), not {own[0]}"
    return [*found, _OTHER_FIRST.found(message, others[0], remedy)]


def _on_path(at: Surroundings) -> list[str]:
    """Every `gaia-bridge` of the PATH, in its order."""
    folders = dict.fromkeys(search_path(at).split(os.pathsep))
    found = (path for folder in folders if (path := found_program("gaia-bridge", folder)) is not None)
    return list({os.path.realpath(path): path for path in reversed(list(found))}.values())[::-1]


def _others(programs: list[str], own: list[str]) -> list[str]:
    """Those that are not this one."""
    ours = {os.path.realpath(own[0]), os.path.realpath(os.path.join(_folder(sys.executable), "gaia-bridge"))}
    return [path for path in programs if os.path.realpath(path) not in ours]


def _folder(path: str) -> str:
    return os.path.dirname(path)


PYTHON = Subject("Python", (_THIS, _OTHER_FIRST, _OTHERS, _NOT_ON_PATH, _PASSING, _NO_SCRIPT), _check)
