"""Imports the file that a reference names, not another module of its name, and describes its exceptions in one line."""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import linecache
import pkgutil
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final

from msgspec import Struct

from gaia_bridge.constants import BRIDGE_PACKAGES, OWN_PACKAGES
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.likeness import did_you_mean

_NOT_IMPORTED = re.compile("cannot import name '(?P<name>[^']+)' from '(?P<module>[^']+)'")
_FOR_AUTHORS: Final = ("gaia.agents.base", "gaia.mcp", "gaia_bridge", "gaia")
"""The packages whose names authors of agents import."""
_AS_PROGRAM: Final = "publish it as a program: gaia-bridge add NAME -- PYTHON FILE"
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def short_path(path: Path | str) -> str:
    """Return a path as the user would write it: relative where it lies below the current folder."""
    whole = Path(path)
    try:
        return str(whole.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(whole)


def describe_fault(doing: str, error: BaseException) -> tuple[str, str]:
    """Describe an error in code that is not ours.

    Args:
        doing: The step that failed: `importing it`.
        error: The exception.

    Returns:
        The problem, with `file:line` of the innermost line that the agent's author can change, and a hint, which may
        be empty.
    """
    if isinstance(error, SyntaxError) and error.filename:
        line = (error.text or "").strip()
        where = f"{short_path(error.filename)}:{error.lineno or 1}"
        return f"syntax error in {where}: {error.msg}" + (f": {line}" if line else ""), ""
    if isinstance(error, ConfigError):  # which says itself what to mend
        return f"{error.place}: {error.problem}", error.hint
    frames = list(_frames(error))
    where = _where(frames)
    if isinstance(error, ModuleNotFoundError) and error.name:
        reason, hint = _missing_module(error.name, frames)
        return f"{doing} failed{where}: it needs the module {error.name!r}, which {reason}", hint
    name, existing, module = _missing_name(error)
    hint = _hint_at_place(name, module) or did_you_mean(name, existing)
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        hint = 'what starts a program belongs under `if __name__ == "__main__":`'
    text = _text(error)
    if isinstance(error, ImportError) and (match := _NOT_IMPORTED.match(text)):
        text = match[0]  # without the file of the module, which is mostly a library's
    if text and not where and isinstance(error, TypeError) and _is_refusal(frames):
        return text, hint
    return f"{doing} raised {type(error).__name__}{where}" + (f": {text}" if text else ""), hint


def _missing_module(name: str, frames: Sequence[_Frame]) -> tuple[str, str]:
    """Return why there is no module of that name, and the remedy."""
    parent = name.rpartition(".")[0]
    package = sys.modules.get(parent)
    # A package without a file is a namespace, to which other distributions add modules.
    if package is not None and getattr(package, "__file__", None) is not None:
        line = linecache.getline(frames[-1].file, frames[-1].line) if frames else ""
        imported = re.search(rf"from\s+{re.escape(name)}\s+import\s+\(?\s*(\w+)", line)
        hint = _hint_at_place(imported[1], parent) if imported else ""
        if name == "mcp.server.fastmcp":  # a module of mcp 2 that only says that it is gone
            return "mcp 2 does not have", f"its FastMCP is mcp.server.mcpserver.MCPServer there; or {_AS_PROGRAM}"
        modules = [f"{parent}.{each.name}" for each in pkgutil.iter_modules(getattr(package, "__path__", ()))]
        is_ours = parent.partition(".")[0] in OWN_PACKAGES
        return f"{parent!r} does not have", hint or did_you_mean(name, _FOR_AUTHORS if is_ours else modules)
    hint = f"install it beside gaia-bridge, in {sys.prefix}"
    if name.partition(".")[0] == "fastmcp":
        hint += f"; or, if this is an MCP server, {_AS_PROGRAM}"
    return "is not installed", hint


def _missing_name(error: BaseException) -> tuple[str, Iterable[str], str]:
    """Return the missing name that an error is about, the names that exist, and the module that should have it."""
    if isinstance(error, ImportError) and (match := _NOT_IMPORTED.match(_text(error))):
        return match["name"], _names_of(sys.modules.get(match["module"])), match["module"]
    if isinstance(error, NameError) and isinstance(error.name, str) and error.__traceback__ is not None:
        frame = deque(walk_tb(error.__traceback__), 1)[0][0]
        return error.name, (*frame.f_locals, *frame.f_globals, *dir(builtins)), ""
    if isinstance(error, AttributeError) and isinstance(error.name, str) and isinstance(error.obj, ModuleType):
        return error.name, _names_of(error.obj), error.obj.__name__
    return "", (), ""


def _names_of(module: ModuleType | None) -> Iterable[str]:
    """Return the names in a module, with the public ones that it imports when they are used."""
    return (*getattr(module, "__all__", ()), *dir(module))


def _hint_at_place(name: str, module: str) -> str:
    """Return a hint at the package for authors that has a name which one of our modules lacks; empty if none has."""
    if module.partition(".")[0] not in OWN_PACKAGES:
        return ""
    for place in _FOR_AUTHORS:
        with suppress(ImportError):  # amd-gaia's package of that name, without something that it needs
            if name in getattr(importlib.import_module(place), "__all__", ()):
                return f"write: from {place} import {name}"
    return ""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


class _Frame(Struct, frozen=True):
    file: str
    line: int
    package: str


def _where(frames: Sequence[_Frame]) -> str:
    """Return ` at file:line` of the innermost frame that belongs to the agent, judged by where the code lies."""
    # Our own refusals name the function that they are about: a line of ours is no place to look at.
    for accept in (_is_project,) if _is_refusal(frames) else (_is_project, _is_foreign):
        for frame in reversed(frames):
            if accept(frame):
                return f" at {short_path(frame.file)}:{frame.line}"
    return ""


def _is_refusal(frames: Sequence[_Frame]) -> bool:
    return bool(frames) and frames[-1].package in BRIDGE_PACKAGES


def _frames(error: BaseException) -> Iterator[_Frame]:
    for frame, line in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        yield _Frame(frame.f_code.co_filename, line, package)


def _is_installed(frame: _Frame) -> bool:
    return any(folder in frame.file for folder in _PACKAGE_FOLDERS)


def _is_foreign(frame: _Frame) -> bool:
    import sysconfig

    is_stdlib = frame.file.startswith(sysconfig.get_path("stdlib")) and not _is_installed(frame)
    return not frame.file.startswith("<") and not is_stdlib and frame.package not in BRIDGE_PACKAGES


def _is_project(frame: _Frame) -> bool:
    return _is_foreign(frame) and not _is_installed(frame) and frame.package not in OWN_PACKAGES


def put_first_on_path(folder: Path) -> None:
    """Let modules of `folder` be found before all others."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def split_package(file: Path) -> tuple[Path, str]:
    """Return the folder that a file, given absolutely, is imported from, and its module name there.

    Returns:
        The folder that holds the outermost package around it (or the file), and the dotted name below that folder.
    """
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) > 1 and file.stem == "__init__":
        parts.pop()
    return folder, ".".join(parts)


def import_single_file(file: Path) -> ModuleType:
    """Import a file under its own name, or under one with a suffix where that would hide another module.

    Raises:
        BaseException: Whatever the file raises.
    """
    name = file.stem.replace(".", "_")
    if _is_taken(name, file):
        name = f"{name}_{hashlib.sha256(bytes(file)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"Python has no loader for {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if sys.modules.get(name) is module:  # else it was given up, and has been imported anew
            del sys.modules[name]
        raise
    return module


def is_about(error: ModuleNotFoundError, name: str) -> bool:
    """Return whether the missing module is `name`, or its package, and not one that it imports."""
    return error.name is not None and f"{name}.".startswith(f"{error.name}.")


def _is_taken(name: str, file: Path) -> bool:
    module = sys.modules.get(name)
    if module is None:
        return name in sys.stdlib_module_names
    return getattr(module, "__file__", None) != str(file)
