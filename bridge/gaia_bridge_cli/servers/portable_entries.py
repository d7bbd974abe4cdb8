"""Makes an entry that was typed in one folder mean the same in every other: an editor starts the bridge elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from gaia_bridge.config.launching.programs import works_in_folder
from gaia_bridge.config.launching.search_path import active_folders
from gaia_bridge.text.json_types import JSON, is_array

_PYTHON: Final = re.compile(r"python[\d.]*")
"""A program that is another one, without the same packages, where another environment is active."""

_WITH_FOLDER: Final = re.compile(r"-C|--(?:[a-z-]*-)?(?:cwd|dir|directory|folder|path|prefix|project|root)")
"""Options that are followed by a folder."""

_RELATIVE: Final = re.compile(r"\.{1,2}(/.*)?")
"""A word that can be nothing but a path; any other is one if there is such a file."""


def portable(entry: JSON, folder: Path) -> tuple[JSON, list[str]]:
    """The entry with the paths that begin in a folder written whole.

    Args:
        entry: What was typed. With a `cwd`, its words begin there, and are left alone.
        folder: Where it was typed.

    Returns:
        The entry, and what was changed, for people.
    """
    changed: list[str] = []
    made = {**entry, **_document(entry, folder, changed), **_interpreter(entry, changed)}
    command, args = made.get("command"), entry.get("args")
    if isinstance(cwd := entry.get("cwd"), str):
        if not cwd.startswith(("~", "$")) and not os.path.isabs(cwd):
            made["cwd"] = os.path.normpath(folder / cwd)
            changed.append(f"{cwd} is kept as {made['cwd']}")
        return made, changed
    if isinstance(command, str) and os.sep in command:
        made["command"] = _whole(command, None, folder, changed)
    if is_array(args):
        before = [None, *args]
        made["args"] = [_whole(word, before[number], folder, changed) for number, word in enumerate(args)]
    if works_in_folder(entry, folder):
        made["cwd"] = str(folder)
        changed.append(f"it is started in {folder}")
    return made, changed


def _document(entry: JSON, folder: Path, changed: list[str]) -> JSON:
    """The document of an API, if it is a file."""
    document = entry.get("openapi")
    if not isinstance(document, str) or "://" in document or document.startswith(("~", "$", "/")):
        return {}
    path = os.path.normpath(folder / document)
    changed.append(f"{document} is kept as {path}")
    return {"openapi": path}


def _interpreter(entry: JSON, changed: list[str]) -> JSON:
    """The Python or the program of the environment that is active, if the entry leaves open which one."""
    command = entry.get("command")
    if not isinstance(command, str) or os.sep in command or (found := shutil.which(command)) is None:
        return {}
    path = os.path.abspath(found)
    if not _PYTHON.fullmatch(command) and os.path.dirname(path) not in active_folders(os.environ):
        return {}
    changed.append(f"{command} is kept as {path}")
    return {"command": path}


def _whole(word: object, before: object, folder: Path, changed: list[str]) -> object:
    """A word with the path in it written whole, if there is one."""
    if not isinstance(word, str):
        return word
    option, _, text = word.rpartition("=") if word.startswith("-") else ("", "", word)
    if not text or os.path.isabs(text) or text.startswith(("~", "$")):
        return word
    if not (_RELATIVE.fullmatch(text) or os.path.isfile(folder / text) or _is_folder(text, option or before, folder)):
        return word
    path = os.path.normpath(folder / text)
    changed.append(f"{text} is kept as {path}")
    return f"{option}={path}" if option else path


def _is_folder(text: str, option: object, folder: Path) -> bool:
    """Whether a word names a folder, because an option before it wants one: else it may be the name of anything."""
    return isinstance(option, str) and _WITH_FOLDER.fullmatch(option) is not None and os.path.isdir(folder / text)
