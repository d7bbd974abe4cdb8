"""The folder that a configured program is started in, where its entry names none.

The files that a program loads from the folder that it is started in (`python -m`, `npx`, `uv`, a relative path)
come from the author of that folder. A project's own file configures its folder, and is approved together with it.
A server of the user starts wherever the user happens to be, also in a folder that a stranger wrote, or that a client
of an agent writes in: so each such server has an empty folder of its own, `~/.gaia/servers/NAME`, for its own files.
A relative `cwd` in the user's file asks for the current folder, and needs an approval in each of them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.paths import current_folder, default_servers_path, expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import file_name
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

_OWN_FOLDERS: Final = Path("~/.gaia/servers")
_NOWHERE: Final = os.path.abspath(os.sep)
"""A folder in which only the administrator writes; for a user without a home folder."""

RELATIVE: Final = re.compile(r"\.{1,2}(/.*)?")
"""A word that can only be a path that begins in the current folder."""

_SCRIPT: Final = re.compile(r"[\w.-][\w./ -]*\.(?:py|pyz|[cm]?js|[cm]?ts|sh|jar|rb|php|pl|lua)")
"""A word that is the path of a script; such a path begins in the current folder as well."""

_CURRENT: Final = re.compile(r"\$\{(?:env:)?(?:PWD|INIT_CWD)\b")


def own_folder(name: str) -> str:
    """Return the folder in which a server of the user is started. It need not exist."""
    try:
        return str(expanded(_OWN_FOLDERS) / file_name(name))
    except ConfigError:
        return _NOWHERE


def made_folder(folder: str | None) -> str | None:
    """Return a folder to start a program in, created and private if it is one of ours; another one if that fails."""
    if folder is None or not os.path.isabs(folder) or os.path.isdir(folder):
        return folder
    try:
        if Path(folder).parent == expanded(_OWN_FOLDERS):
            make_private_folder(Path(folder))
    except (ConfigError, OSError) as error:
        logger.warning("%s cannot be made (%s): the server is started in %s", folder, error, _NOWHERE)
        return _NOWHERE
    return folder


def in_own_folder(name: str, entry: Any) -> Any:
    """Return an entry of the user's own file, with a folder of its own as `cwd` if it names none."""
    if not is_object(entry) or entry.get("command") is None or entry.get("cwd") not in (None, ""):
        return entry
    return {**entry, "cwd": own_folder(name)}


def needs_current_folder(entry: object) -> bool:
    """Return whether an entry asks for a program started in the current folder, or in one relative to it."""
    if not is_object(entry) or not isinstance(cwd := entry.get("cwd"), str) or not cwd or entry.get("command") is None:
        return False
    return _CURRENT.match(cwd) is not None or not (os.path.isabs(cwd) or cwd.startswith(("~", "$")))


def relative_words(entry: object) -> Iterator[str]:
    """Yield the words of a launch line that are paths relative to the folder that it is started in."""
    for number, word in enumerate(launch_words(entry) if is_object(entry) else ()):
        text = word.rpartition("=")[2] if word.startswith("-") else word
        if RELATIVE.fullmatch(text) or (not word.startswith("-") and _SCRIPT.fullmatch(text) and "://" not in text):
            if not os.path.isabs(text):
                yield text
        elif number == 0 and os.sep in text and not os.path.isabs(text) and not text.startswith(("~", "$")):
            yield text


def folder_warning(placed: JSON) -> str:
    """Return the warning for an entry with a folder of its own; empty if no word of its line begins there."""
    word = next(relative_words(placed), None)
    if word is None:
        return ""
    return f"{word!r} begins in {placed.get('cwd')}, a folder of its own; say which folder is meant, as its 'cwd'"


def lies_in_workspace(file: Path) -> bool:
    """Return whether a configuration file lies, or is linked, below the current folder, and not among our own files:
    then its entries are about the current folder, and agents that work there may be able to write it.
    """
    try:
        folder, own = current_folder().resolve(), default_servers_path().parent
    except ConfigError:
        return False
    places = (file.parent.resolve() / file.name, file.resolve())
    return any(place.is_relative_to(folder) and not place.is_relative_to(own.resolve()) for place in places)
