"""Which files a launch line runs: the program, what it is given to run, and what tells a runner what to run.

Only files are found that the line names, or that a well-known runner looks for by itself. What those load in turn is
beyond any look at a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gaia_bridge.config.command_lines import launch_words
from gaia_bridge.config.variables import changes_programs
from gaia_bridge.protocol.json_types import JSON, is_object

__all__ = ["program_files", "works_in_folder"]

_MANIFESTS: Final = {
    **dict.fromkeys(("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node"), ("package.json",)),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "pipx"), ("pyproject.toml",)),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "cargo": ("Cargo.toml",),
    "deno": ("deno.json", "deno.jsonc"),
    "docker": ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    "just": ("justfile", "Justfile"),
}
"""Where runners look up what to run."""

_FETCHERS: Final = frozenset({"bunx", "node", "npx", "pipx", "pnpx", "uvx"})
"""Of these, those that run packages of a registry, or files that are named, wherever they are started."""

_IN_FOLDERS: Final = ("__main__.py", "package.json", "index.js")
"""What is run of a folder that is named."""

_CHOOSING: Final = frozenset({"--directory", "--project", "--prefix", "--cwd", "-C", "--manifest-path", "--dir"})
"""Options that name the folder that a runner works in."""

_BETWEEN: Final = re.compile(r"[\s;|&=,:'\"]+")
"""What stands between the names of files in one word: `--require=./x.js`, `a.py:B`, `sh -c './a.sh && ./b.sh'`."""


def program_files(entry: JSON, folder: Path) -> list[Path]:
    """The files that an entry's launch line runs and that lie in a folder or below, or are links there.

    The document of an API counts: it says what is sent where.

    Args:
        entry: An entry of a configuration file; its references are not filled in.
        folder: The folder, in which relative paths of the line begin.
    """
    if isinstance(document := entry.get("openapi"), str) and "://" not in document:
        path = Path(os.path.normpath(folder / os.path.expanduser(document)))
        return [path] if _lies_in(folder, path) and os.path.isfile(path) else []
    command, env, cwd = (entry.get(key) for key in ("command", "env", "cwd"))
    if not isinstance(command, str):
        return []
    base = folder / os.path.expanduser(cwd) if isinstance(cwd, str) else folder
    words = launch_words(entry)  # if it is one line, there may also be a program of that whole name
    texts = {name: text for name, text in env.items() if isinstance(text, str)} if is_object(env) else {}
    named = [command, *words, *(text for name, text in texts.items() if changes_programs(name))]
    found = (path for name in _names(named, base) for path in _run_by(base, name))
    manifests = (base / name for name in _MANIFESTS.get(_program(words[0]), ()))
    looked_up = (path for name in {command, words[0]} for path in _looked_up(name, texts.get("PATH"), base))
    candidates = [*found, *manifests, *looked_up]
    return sorted({path for path in candidates if _lies_in(folder, path) and os.path.isfile(path)})


def works_in_folder(entry: JSON, folder: Path) -> bool:
    """Whether what an entry runs depends on the folder that it is started in, beside the paths that it names.

    Args:
        entry: An entry of a configuration file.
        folder: The folder.
    """
    words = launch_words(entry)
    if not words:
        return False
    program, args = _program(words[0]), words[1:]
    if "-m" in args[:-1] and program.startswith("python"):
        module = os.path.join(folder, args[args.index("-m") + 1].replace(".", "/"))
        return os.path.isdir(module) or os.path.isfile(f"{module}.py")
    if program in _FETCHERS or not _CHOOSING.isdisjoint(word.partition("=")[0] for word in args):
        return False
    if (program == "uv" and "run" not in args) or (program == "docker" and "compose" not in args):
        return False
    return any((folder / name).is_file() for name in _MANIFESTS.get(program, ()))


def _names(words: Sequence[str], base: Path) -> Iterator[str]:
    module = False
    for word in words:
        yield word
        yield from _BETWEEN.split(word)
        if module:  # python -m NAME
            yield from (word.replace(".", "/") + end for end in (".py", "/__main__.py", "/__init__.py"))
        module = word == "-m"


def _run_by(base: Path, name: str) -> Iterator[Path]:
    if not name or "\0" in name:
        return
    path = Path(os.path.normpath(base / os.path.expanduser(name)))
    yield path
    if os.path.isdir(path):
        yield from (path / inner for inner in _IN_FOLDERS)


def _looked_up(command: str, search: str | None, base: Path) -> Iterator[Path]:
    """What a bare name leads to where the entry says itself where programs are looked for."""
    import shutil

    if search is None or os.sep in command:
        return
    folders = os.pathsep.join(str(base / part) for part in search.split(os.pathsep))
    if found := shutil.which(command, path=folders):
        yield Path(os.path.normpath(found))


def _lies_in(folder: Path, path: Path) -> bool:
    return path.is_relative_to(folder) or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _program(word: str) -> str:
    return re.split(r"[/\\]", word)[-1].lower().removesuffix(".exe").removesuffix(".cmd")
