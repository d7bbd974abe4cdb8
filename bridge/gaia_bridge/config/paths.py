"""Where configuration files are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gaia_bridge.errors import ConfigError

SERVERS_FILE: Final = "mcp_servers.json"
"""What the file is called, in the home folder's `.gaia` and in a project."""


def current_folder() -> Path:
    """Where relative paths begin.

    Raises:
        ConfigError: It was deleted, or may not be looked up.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError("current folder", f"{error.strerror}", "change to a folder that exists") from None


def is_current_folder(folder: Path) -> bool:
    """Whether relative paths begin there."""
    try:
        return os.path.samefile(folder, os.curdir)
    except OSError:
        return False


def home_folder() -> Path:
    """The user's home folder. An empty `HOME`, as units, cron and containers have it, says no more than none.

    Raises:
        RuntimeError: There is none.
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
    """Where the user's servers are listed: `~/.gaia/mcp_servers.json`.

    Raises:
        ConfigError: This user has no home folder.
    """
    return expanded(Path("~/.gaia", SERVERS_FILE))


def local_servers_path(beside: Iterable[Path] = ()) -> Path:
    """Where the servers of a project are listed: `mcp_servers.json` in the current folder.

    Args:
        beside: Further folders, of which the first counts that has such a file, where the current one has none.

    Raises:
        ConfigError: There is no current folder.
    """
    here = current_folder() / SERVERS_FILE
    places = (here, *(folder / SERVERS_FILE for folder in beside))
    return next((place for place in places if os.path.lexists(place)), here)


def default_trust_path() -> Path:
    """Where approvals are remembered: `~/.gaia/trust.json`.

    Raises:
        ConfigError: This user has no home folder.
    """
    return expanded(Path("~/.gaia/trust.json"))


def expanded(path: Path) -> Path:
    """The path with a leading `~` replaced.

    Raises:
        ConfigError: There is no home folder.
    """
    try:
        parts = path.parts
        return home_folder().joinpath(*parts[1:]) if parts[:1] == ("~",) else path.expanduser()
    except RuntimeError:
        raise ConfigError(str(path), "there is no home folder to find '~' in", "set HOME or name a file") from None
