"""Stores the `PATH` of a terminal for bridges that are started without one, as by an editor of the desktop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gaia_bridge.config.file_editor import edit_file
from gaia_bridge.config.launching.search_path import REMEMBERED, absolute_folders
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError


def remember_search_path(environ: Mapping[str, str]) -> bool:
    """Store the `PATH` of a terminal for bridges that are started without one.

    The folder of an active virtual environment is left out: its programs are for the one who activated it.

    Args:
        environ: The environment of a command that somebody typed.

    Returns:
        Whether the stored `PATH` changed.
    """
    active = active_folders(environ)
    folders = [folder for folder in absolute_folders(environ.get("PATH", "")) if folder not in active]
    with suppress(ConfigError):  # without a home folder, there are the usual folders
        content = f"{os.pathsep.join(folders)}\n".encode(errors="surrogateescape")
        path = expanded(Path(REMEMBERED))
        return edit_file(path, lambda before, _status: None if _says_as_much(before, folders) else content)
    return False


def active_folders(environ: Mapping[str, str]) -> set[str]:
    """Return the folders of programs that only an active virtual environment puts on the `PATH`.

    Args:
        environ: The environment of a command that somebody typed.
    """
    return {os.path.join(environ[name], "bin") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)}


def _says_as_much(before: bytes | None, folders: list[str]) -> bool:
    """Return whether the stored `PATH` has all of these folders: the same, or that of a terminal with more."""
    stored = [] if before is None else absolute_folders(before.decode(errors="surrogateescape").rstrip("\n"))
    return stored == folders or set(folders) < set(stored)
