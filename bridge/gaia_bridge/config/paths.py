"""The places of configuration files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gaia_bridge.errors import ConfigError

SERVERS_FILE: Final = "mcp_servers.json"
"""The name of the file, in the home folder's `.gaia` and in a project."""


def current_folder() -> Path:
    """Return the folder where relative paths begin.

    Raises:
        ConfigError: The folder was deleted, or may not be looked up.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError("current folder", f"{error.strerror}", "change to a folder that exists") from None


def is_current_folder(folder: Path) -> bool:
    """Return whether a folder is the current one."""
    try:
        return os.path.samefile(folder, os.curdir)
    except OSError:
        return False


def home_folder() -> Path:
    """Return the user's home folder. An empty `HOME`, as units, cron and containers have it, counts as none.

    Raises:
        RuntimeError: There is no home folder.
    """
    if os.environ.get("HOME") != "":
        return Path.home()
    import pwd  # not on Windows, where `HOME` means nothing

    try:
        folder = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        folder = ""
    if not folder:
        raise RuntimeError("HOME is empty, and this user has no home folder")
    return Path(folder)


def default_servers_path() -> Path:
    """Return the file that lists the user's servers: `~/.gaia/mcp_servers.json`.

    Raises:
        ConfigError: This user has no home folder.
    """
    return expanded(Path("~/.gaia", SERVERS_FILE))


def local_servers_path(beside: Iterable[Path] = ()) -> Path:
    """Return the file that lists the servers of a project: `mcp_servers.json` in the current folder.

    Args:
        beside: Further folders; the first one with such a file counts if the current folder has none.

    Raises:
        ConfigError: There is no current folder.
    """
    here = current_folder() / SERVERS_FILE
    places = (here, *(folder / SERVERS_FILE for folder in beside))
    return next((place for place in places if os.path.lexists(place)), here)


def default_trust_path() -> Path:
    """Return the file of the approvals: `~/.gaia/trust.json`.

    Raises:
        ConfigError: This user has no home folder.
    """
    return expanded(Path("~/.gaia/trust.json"))


def expanded(path: Path) -> Path:
    """Return the path with a leading `~` replaced.

    Raises:
        ConfigError: There is no home folder.
    """
    try:
        parts = path.parts
        return home_folder().joinpath(*parts[1:]) if parts[:1] == ("~",) else path.expanduser()
    except RuntimeError:
        raise ConfigError(str(path), "there is no home folder to find '~' in", "set HOME or name a file") from None
