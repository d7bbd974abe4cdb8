"""The folder that a configured program is started in, where its entry names none.

What a program loads from the folder that it is started in (`python -m`, `npx`, `uv`, a relative path) is the work of
whoever wrote that folder. A project's own file speaks for its folder, and is approved together with it. A server of the
user is started wherever the user happens to be, also in a folder that a stranger wrote, or that a client of an agent
writes in: so each such server has an empty folder of its own, `~/.gaia/servers/NAME`, which keeps what it writes there.
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
"""Where nobody but the administrator writes; for who has no home folder."""

RELATIVE: Final = re.compile(r"\.{1,2}(/.*)?")
"""A word that can be nothing but a path that begins in the current folder."""

_SCRIPT: Final = re.compile(r"[\w.-][\w./ -]*\.(?:py|pyz|[cm]?js|[cm]?ts|sh|jar|rb|php|pl|lua)")
"""A word that is the path of a script; it begins in the current folder as well."""

_CURRENT: Final = re.compile(r"\$\{(?:env:)?(?:PWD|INIT_CWD)\b")


def own_folder(name: str) -> str:
    """The folder of its own that a server of the user is started in. It need not be there.

    Args:
        name: The server.
    """
    try:
        return str(expanded(_OWN_FOLDERS) / file_name(name))
    except ConfigError:
        return _NOWHERE


def made_folder(folder: str | None) -> str | None:
    """A folder to start a program in; if it is one of ours, it is made, private.

    Args:
        folder: What the entry says.

    Returns:
        The same, or one that surely is there.
    """
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
    """An entry of the user's own file, started in a folder of its own if it names none.

    Args:
        name: The server.
        entry: Its entry; what is no object is returned as it is.
    """
    if not is_object(entry) or entry.get("command") is None or entry.get("cwd"):
        return entry
    return {**entry, "cwd": own_folder(name)}


def needs_current_folder(entry: object) -> bool:
    """Whether an entry says that its program is started in the folder where we are, or from there.

    Args:
        entry: An entry of the user's own file.
    """
    if not is_object(entry) or not isinstance(cwd := entry.get("cwd"), str) or not cwd or entry.get("command") is None:
        return False
    return _CURRENT.match(cwd) is not None or not (os.path.isabs(cwd) or cwd.startswith(("~", "$")))


def relative_words(entry: object) -> Iterator[str]:
    """The words of a launch line that are paths which begin in the folder that it is started in.

    Args:
        entry: An entry of a configuration file.
    """
    for number, word in enumerate(launch_words(entry) if is_object(entry) else ()):
        text = word.rpartition("=")[2] if word.startswith("-") else word
        if RELATIVE.fullmatch(text) or (not word.startswith("-") and _SCRIPT.fullmatch(text) and "://" not in text):
            if not os.path.isabs(text):
                yield text
        elif number == 0 and os.sep in text and not os.path.isabs(text) and not text.startswith(("~", "$")):
            yield text


def folder_warning(placed: JSON) -> str:
    """What to know of an entry that was given a folder of its own; empty if it names nothing there.

    Args:
        placed: What `in_own_folder` returned.
    """
    word = next(relative_words(placed), None)
    if word is None:
        return ""
    return f"{word!r} begins in {placed.get('cwd')}, a folder of its own; say which folder is meant, as its 'cwd'"


def lies_in_workspace(file: Path) -> bool:
    """Whether a configuration file lies, or is linked, below the current folder, and not among our own files: then its
    entries speak of the current folder, and agents that work there may be able to write it.

    Args:
        file: The file.
    """
    try:
        folder, own = current_folder().resolve(), default_servers_path().parent
    except ConfigError:
        return False
    places = (file.parent.resolve() / file.name, file.resolve())
    return any(place.is_relative_to(folder) and not place.is_relative_to(own.resolve()) for place in places)
