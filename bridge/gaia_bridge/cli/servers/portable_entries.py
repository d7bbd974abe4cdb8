"""Makes an entry that was typed in one folder mean the same in every other: an editor starts the bridge elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from gaia_bridge.protocol.json_types import JSON, is_array

__all__ = ["portable"]

_PYTHON: Final = re.compile(r"python[\d.]*")
"""A program that is another one, without the same packages, where another environment is active."""

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

    def whole(word: object) -> object:
        if not isinstance(word, str) or os.path.isabs(word):
            return word
        if not (_RELATIVE.fullmatch(word) or (folder / word).is_file()):
            return word
        path = os.path.normpath(folder / word)
        changed.append(f"{word} is kept as {path}")
        return path

    made = dict(entry)
    document = entry.get("openapi")
    if isinstance(document, str) and "://" not in document and not document.startswith(("~", "$", "/")):
        made["openapi"] = os.path.normpath(folder / document)
        changed.append(f"{document} is kept as {made['openapi']}")
    command, args = entry.get("command"), entry.get("args")
    if isinstance(command, str) and _PYTHON.fullmatch(command) and (found := shutil.which(command)) is not None:
        made["command"] = os.path.abspath(found)
        changed.append(f"{command} is kept as {made['command']}")
    if isinstance(cwd := entry.get("cwd"), str):
        if not cwd.startswith(("~", "$")) and not os.path.isabs(cwd):
            made["cwd"] = os.path.normpath(folder / cwd)
            changed.append(f"{cwd} is kept as {made['cwd']}")
        return made, changed
    if isinstance(command, str) and os.sep in command:
        made["command"] = whole(command)
    if is_array(args):
        made["args"] = [whole(word) for word in args]
    return made, changed
