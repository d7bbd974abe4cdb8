"""What to tell a user about an exception that came out of an agent's code: one line, and the place in their file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb

from msgspec import Struct

__all__ = ["describe_fault", "short_path"]

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_OWN_PACKAGES = ("gaia", "gaia_bridge")


def short_path(path: Path | str) -> str:
    """A path as the user would write it: relative where it lies below the current folder."""
    whole = Path(path)
    try:
        return str(whole.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(whole)


def describe_fault(doing: str, error: BaseException) -> tuple[str, str]:
    """Say what went wrong in code that is not ours.

    Args:
        doing: What was being done: `importing it`.
        error: What came out of it, with its traceback.

    Returns:
        The problem, with `file:line` of the innermost line that the agent's author can change, and a hint, which may
        be empty.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"syntax error in {short_path(error.filename)}:{error.lineno or 1}: {error.msg}", ""
    where = _where(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        problem = f"{doing} failed{where}: it needs the module {error.name!r}, which is not installed"
        hint = f"install it beside gaia-bridge, in {sys.prefix}"
        if error.name.partition(".")[0] == "fastmcp":
            hint += "; or, if this is an MCP server, publish it as a program: gaia-bridge add NAME -- PYTHON FILE"
        return problem, hint
    hint = ""
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        hint = 'what starts a program belongs under `if __name__ == "__main__":`'
    text = _text(error)
    return f"{doing} raised {type(error).__name__}{where}" + (f": {text}" if text else ""), hint


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


class _Frame(Struct, frozen=True):
    file: str
    line: int
    package: str


def _where(error: BaseException) -> str:
    """` at file:line` of the innermost frame that belongs to the agent, judged by where the code lies."""
    frames = list(_frames(error))
    for accept in (_is_project, _is_foreign):
        for frame in reversed(frames):
            if accept(frame):
                return f" at {short_path(frame.file)}:{frame.line}"
    return ""


def _frames(error: BaseException) -> Iterator[_Frame]:
    for frame, line in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        yield _Frame(frame.f_code.co_filename, line, package)


def _is_installed(frame: _Frame) -> bool:
    return any(folder in frame.file for folder in _PACKAGE_FOLDERS)


def _is_foreign(frame: _Frame) -> bool:
    import sysconfig

    is_stdlib = frame.file.startswith(sysconfig.get_path("stdlib")) and not _is_installed(frame)
    return not frame.file.startswith("<") and not is_stdlib and frame.package != "gaia_bridge"


def _is_project(frame: _Frame) -> bool:
    return _is_foreign(frame) and not _is_installed(frame) and frame.package not in _OWN_PACKAGES
