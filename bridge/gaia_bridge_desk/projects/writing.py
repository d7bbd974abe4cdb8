"""Writes new files: all of them or none, and never over what is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write a new folder. It has its name when everything is written, so that nobody finds half of it.

    Args:
        folder: Where; the folder that it is to be in is there.
        files: Path in it to text.

    Raises:
        ConfigError: It is there already, or cannot be written.
    """
    place = printable(str(folder))
    if os.path.lexists(folder):
        raise ConfigError(place, "it is there already; expected the name of a new folder", "choose another name")
    if not folder.parent.is_dir():
        problem = f"there is no folder {printable(str(folder.parent))}; expected a name, or a path in a folder"
        raise ConfigError(place, problem, "make that folder first, or choose another")
    hidden = folder.with_name(f".new-project-{os.getpid()}")
    try:
        hidden.mkdir()
    except OSError as error:
        raise _unwritable(place, error) from None
    try:
        for name, text in files.items():
            file = hidden / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        hidden.rename(folder)
    except BaseException as error:
        import shutil

        shutil.rmtree(hidden, ignore_errors=True)
        if isinstance(error, OSError):
            raise _unwritable(place, error) from None
        raise


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write new files into a folder.

    Args:
        folder: Where; it is there.
        files: Path in it to text.

    Raises:
        ConfigError: One of them is there already, or cannot be written.
    """
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = folder / name
            with file.open("x", encoding="utf-8") as opened:
                written.append(file)
                opened.write(text)
    except BaseException as error:
        for file in written:
            with suppress(OSError):
                file.unlink()
        if isinstance(error, FileExistsError):
            problem = "it is there already, and is left as it is; expected a new file"
            hint = "choose another name, or another file: --file FILE"
            raise ConfigError(printable(str(error.filename)), problem, hint) from None
        if isinstance(error, OSError):
            raise _unwritable(printable(str(error.filename or folder)), error) from None
        raise


def _unwritable(place: str, error: OSError) -> ConfigError:
    return ConfigError(place, f"cannot be written: {error.strerror}", "nothing was written; choose another place")
