"""The files of a project that a launch line runs: the program, its scripts, and the files that direct a runner.

Every word of the line counts as a name, and every folder of the project that a word names as one that the program
may change to: so `uv --directory sub run server.py`, `env -C sub ...` and `sh -c "cd sub && ..."` need no rule of their
own. Where a line can run a program that none of its words names (`sh -c "$X"`, `python -c CODE`), an approval holds
the whole folder. The files that programs load in turn cannot be seen in the line, except the modules that Python
would find beside a script before all others.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.launching.launchers import program_name
from gaia_bridge.config.launching.variables import changes_programs
from gaia_bridge.text.json_types import JSON, is_object

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "npx", "npm"})
"""Programs that take a line for a shell, after `-c` or `--call`."""

_LINE: Final = re.compile(r"-[A-Za-z]*c.*|--call(?:=.*)?|--command(?:=.*)?", re.DOTALL)

_OTHER_SHELLS: Final = frozenset({"cmd", "powershell", "pwsh"})
"""Shells whose lines are not parsed."""

_FILLED_IN: Final = re.compile(r"[$`*?\[{~!]")
"""Characters that a shell replaces by other words."""

_SEEKERS: Final = frozenset({"eval", "find", "fd", "xargs", "parallel", "entr", "watchexec"})
"""Programs that run the files that they find."""

_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_OTHER: Final = re.compile(r"(?:node|nodejs|deno|bun|perl|ruby|php|lua|rscript|osascript)[\d.]*")

_PYTHON_CODE: Final = re.compile(r"-[bBdEhiIOPqRsSuvx]*c.*", re.DOTALL)
_OTHER_CODE: Final = re.compile(r"-(?!r\W)[A-Za-z0-9]?[eErRp].*|--(?:eval|print|run)\b.*|eval", re.DOTALL)
"""Options that are followed by code, or have it glued to them; `-r ./x.js` names a file."""

_WITH_VALUE: Final = re.compile(r"-[XWCIr]|--[a-z-]+")
"""Options whose next word may be their value."""


def reason_for_whole_folder(words: Sequence[str]) -> str:
    """Return why a line can run more than its words, of which a line for a shell is one, name; empty if it cannot."""
    for number, word in enumerate(words):
        if reason := _reason(word, words[number + 1 :]) or _of_line(word):
            return reason
    return ""


def _reason(word: str, rest: Sequence[str]) -> str:
    """Return the reason why a program can run more than the words after it name."""
    program = program_name(word)
    if program in _SEEKERS:
        return f"{program} runs what it finds"
    if program in _OTHER_SHELLS:
        return f"{program} runs a line that is not looked into"
    if program in _SHELLS and any(map(_LINE.fullmatch, rest)) and any(map(_FILLED_IN.search, rest)):
        return f"{program} fills in parts of its line"
    for interpreter, code in ((_PYTHON, _PYTHON_CODE), (_OTHER, _OTHER_CODE)):
        if interpreter.fullmatch(program) and any(map(code.fullmatch, _options(rest))):
            return f"{program} runs code that stands in the line"
    return ""


def _of_line(word: str) -> str:
    """Return the reason for a line inside of one word, for a shell or for a program that splits it."""
    if not re.search(r"[\s;|&()<>]", word):
        return ""
    try:
        inner = list(shlex.shlex(word, posix=True, punctuation_chars=True))
    except ValueError:
        inner = word.split()
    return reason_for_whole_folder(inner) if inner != [word] else ""


def _options(words: Sequence[str]) -> list[str]:
    """Return the words before the first that is neither an option nor its value; `eval` counts as an option."""
    options = list[str]()
    for before, word in pairwise(["", *words]):
        if not word.startswith("-") and word != "eval" and not _WITH_VALUE.fullmatch(before):
            break
        options.append(word)
    return options


MANIFESTS: Final = {
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node"), ("package.json",)),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "pipx"), ("pyproject.toml",)),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("just",), ("justfile", "Justfile", ".justfile")),
    "cargo": ("Cargo.toml",),
    "deno": ("deno.json", "deno.jsonc"),
    "docker": ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    "go": ("go.mod",),
}
"""The files in which runners look up the program to run."""

_IN_FOLDERS: Final = ("__main__.py", "package.json", "index.js")
"""The files that are run when a folder is named."""

_BETWEEN: Final = re.compile(r"[\s;|&=,:'\"()<>`]+")
"""The separators of file names inside one word: `--require=./x.js`, `a.py:B`, `sh -c './a.sh && ./b.sh'`."""

_GLUED: Final = range(2, 6)
"""The lengths of a one-dash option with its value attached: `-Csub`, `-m` in `-Bmsub.server`."""

_ENDINGS: Final = ("", ".py", ".js", ".mjs", ".cjs", ".ts")
"""The endings that programs add to a name."""

_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""A Python module: `sub.server`."""

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")

_MOST_FOLDERS: Final = 32
"""Folders that the words of one line may name; a line that names more is not examined further."""


class Programs(Struct, frozen=True):
    """The parts of a project that an approval holds, beside the launch line."""

    files: tuple[Path, ...] = ()
    """The files that the line runs."""
    module_folders: tuple[Path, ...] = ()
    """Folders in which Python looks for modules first, so that a new one there would be run."""
    whole: Path | None = None
    """The folder whose every file is held, if the line can run a program that it does not name."""
    reason: str = ""
    """The reason for `whole`."""


def programs_of(entry: JSON, folder: Path) -> Programs:
    """Return the files of a folder that an entry's launch line runs: those in it or below, and links there.

    The document of an API counts: it decides which requests are sent where.

    Args:
        entry: An entry of a configuration file; its references are not filled in.
        folder: The folder, in which relative paths of the line begin.
    """
    if isinstance(document := entry.get("openapi"), str) and "://" not in document:
        path = Path(os.path.normpath(folder / os.path.expanduser(document)))
        return Programs((path,) if _lies_in(folder, path) and os.path.isfile(path) else ())
    command, env, cwd = (entry.get(key) for key in ("command", "env", "cwd"))
    if not isinstance(command, str):
        return Programs()
    texts = {name: text for name, text in env.items() if isinstance(text, str)} if is_object(env) else {}
    variables = {**os.environ, **texts}
    base = folder / os.path.expanduser(_filled(cwd, variables)) if isinstance(cwd, str) else folder
    words = [_filled(word, variables) for word in launch_words(entry)]
    deciding = [_filled(text, variables) for name, text in texts.items() if changes_programs(name)]
    names = dict.fromkeys(_names([_filled(command, variables), *words, *deciding]))
    bases, are_all = _bases(names, base, folder)
    reason = reason_for_whole_folder(words) or ("" if are_all else f"it names more than {_MOST_FOLDERS} folders")
    candidates = {path for inner in bases for path in _candidates(names, inner, words)}
    candidates.update(path for name in {command, words[0]} for path in _looked_up(name, texts.get("PATH"), base))
    files = sorted(path for path in candidates if os.path.isfile(path) and _lies_in(folder, path))
    modules = {path.parent for path in files if path.suffix == ".py"}
    if any(program_name(word).startswith(("python", "pypy")) for word in words):
        modules.update(bases)
    modules = {path for path in modules if _lies_in(folder, path)}
    whole = (base if _lies_in(folder, base) else folder) if reason else None
    return Programs(tuple(files), tuple(sorted(modules)), whole, reason)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables of a text; other references stay, and so do those to variables that are not set."""
    return _REFERENCE.sub(lambda match: variables.get(match["name"]) or match["default"] or match[0], text)


def _names(words: Sequence[str]) -> Iterator[str]:
    """Yield every text that may be the name of a file, of a folder or of a module."""
    for word in words:
        pieces = [word, *_BETWEEN.split(word), *_shell_words(word)]
        for piece in pieces:
            yield piece
            if re.match(r"-[^-]", piece):
                yield from (piece[length:] for length in _GLUED if piece[length:])


def _shell_words(word: str) -> Sequence[str]:
    """Return the words of a line inside of a word: a quoted name may have blanks."""
    try:
        return shlex.split(word) if re.search(r"\s", word) else ()
    except ValueError:
        return ()


def _bases(names: Mapping[str, object], base: Path, folder: Path) -> tuple[list[Path], bool]:
    """Return the folders in which a program may look for the names in its line, and whether these are all."""
    bases = [base]
    for inner in bases:  # which grows meanwhile: `cd a && cd b`
        for name in names:
            path = _path(inner, name)
            if path is not None and path not in bases and os.path.isdir(path) and _lies_in(folder, path):
                if len(bases) == _MOST_FOLDERS:
                    return bases, False
                bases.append(path)
    return bases, True


def _path(base: Path, name: str) -> Path | None:
    return Path(os.path.normpath(base / os.path.expanduser(name))) if name and "\0" not in name else None


def _candidates(names: Mapping[str, object], base: Path, words: Sequence[str]) -> Iterator[Path]:
    """Yield the files below a folder that may be run."""
    for program in set(map(program_name, words)) & MANIFESTS.keys():
        yield from (base / manifest for manifest in MANIFESTS[program])
    for name in names:
        if (path := _path(base, name)) is None:
            continue
        if path.name:
            yield from (path.with_name(path.name + ending) for ending in _ENDINGS)
        yield from (path / inner for inner in _IN_FOLDERS)
        yield from _installed(base, name)
        if _MODULE.fullmatch(name):
            yield from _of_module(base, name)


def _of_module(base: Path, name: str) -> Iterator[Path]:
    """Yield the files that run when a Python module is imported or run, including its packages."""
    place = base
    for part in name.split("."):
        place /= part
        yield from (place / "__init__.py", place.with_name(f"{part}.py"))
    yield place / "__main__.py"


def _installed(base: Path, name: str) -> Iterator[Path]:
    """Yield the files of a project that `npx NAME` and the like run before they fetch anything."""
    package = name[:1] + name[1:].partition("@")[0]
    yield from (base / "node_modules" / ".bin" / package, base / "node_modules" / package / "package.json")


def _looked_up(command: str, search: str | None, base: Path) -> Iterator[Path]:
    """Yield the file that a bare name leads to, if the entry sets the `PATH` itself."""
    import shutil

    if search is None or os.sep in command:
        return
    folders = os.pathsep.join(str(base / part) for part in search.split(os.pathsep))
    if program := shutil.which(command, path=folders):
        yield Path(os.path.normpath(program))


def _lies_in(folder: Path, path: Path) -> bool:
    return path.is_relative_to(folder) or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
