"""Finds the files below a folder and reads them, without ever leaving it: no symbolic link is followed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final

from msgspec import Struct

from gaia_bridge.protocol.skills import SKILL_FILE

_DEPTH: Final = 16
"""Folders inside of each other."""

_IGNORED: Final = frozenset({"__pycache__", "Thumbs.db", "desktop.ini", "node_modules"})
"""What programs leave behind, beside all that is hidden."""

_ENDINGS: Final = ("~", ".pyc", ".swp", ".tmp")

_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe would be waited for
)


class FileChangedError(OSError):
    """A file is no longer what it was when it was found."""


class FoundFile(Struct, frozen=True):
    """A file at one moment."""

    path: Path
    size: int
    signature: tuple[int, ...]
    """Another one after every change of the file."""


class Found(Struct, frozen=True):
    """What is below a folder at one moment."""

    files: Mapping[tuple[str, ...], FoundFile]
    """By their names from the folder on, in order."""
    left_out: tuple[tuple[str, str], ...] = ()
    """What is not looked at, by its path below the folder, and the reason."""

    @property
    def state(self) -> object:
        """Another one after every change of something below the folder."""
        return {parts: file.signature for parts, file in self.files.items()}, self.left_out


def walk(folder: Path, most: int) -> Found:
    """Find all files below a folder, but for what is hidden or left behind by programs.

    Args:
        folder: The folder; nothing is below it if there is none.
        most: Files and folders to look at.
    """
    files: dict[tuple[str, ...], FoundFile] = {}
    left_out: list[tuple[str, str]] = []
    waiting: list[tuple[str, ...]] = [()]
    seen = 0
    while waiting:
        parts = waiting.pop()
        place = folder.joinpath(*parts)
        try:
            names = sorted(name for name in os.listdir(place) if not _is_ignored(name))
        except OSError as error:
            if parts:
                left_out.append(("/".join(parts), f"it cannot be read: {error.strerror}"))
            continue
        for name in names:
            seen += 1
            if seen > most:
                left_out.append(("/".join(parts) or ".", f"at most {most:,} files and folders are looked at"))
                return Found(dict(sorted(files.items())), tuple(left_out))
            reason = _looked_at(place / name, (*parts, name), files, waiting)
            if reason:
                left_out.append(("/".join((*parts, name)), reason))
    return Found(dict(sorted(files.items())), tuple(left_out))


def _looked_at(
    path: Path, parts: tuple[str, ...], files: dict[tuple[str, ...], FoundFile], waiting: list[tuple[str, ...]]
) -> str:
    """Note a file or folder; returns why it is left out, if so."""
    try:
        about = os.lstat(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if S_ISLNK(about.st_mode):
        return "it is a symbolic link, and none is followed: put the files themselves there"
    if S_ISDIR(about.st_mode):
        if len(parts) >= _DEPTH:
            return f"it lies deeper than {_DEPTH} folders"
        waiting.append(parts)
        return ""
    if not S_ISREG(about.st_mode):
        return "it is no file"
    if path.name != SKILL_FILE and path.name.lower() == SKILL_FILE.lower():
        return f"a skill begins with {SKILL_FILE}: give it that name"
    files[parts] = FoundFile(path, about.st_size, _signature(about))
    return ""


def read_file(file: FoundFile, folder: Path) -> bytes:
    """The bytes of a file that was found below a folder.

    Args:
        file: The file.
        folder: The folder, resolved.

    Raises:
        FileChangedError: It is another file now, of another size, or no longer below that folder.
        OSError: It cannot be read.
    """
    if os.path.realpath(file.path) != str(file.path) or not file.path.is_relative_to(folder):
        raise FileChangedError(f"{file.path} leads elsewhere now")
    descriptor = os.open(file.path, _FLAGS)
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        if not S_ISREG(about.st_mode) or _signature(about) != file.signature:
            raise FileChangedError(f"{file.path} has changed")
        content = stream.read(file.size + 1)
        after = os.fstat(descriptor)
    if len(content) != file.size or _signature(after) != file.signature:
        raise FileChangedError(f"{file.path} changes while it is read")
    return content


def _is_ignored(name: str) -> bool:
    leads_away = not {".", ".."}.isdisjoint(name.split("\\"))  # on the systems of some clients
    return leads_away or name.startswith(".") or name in _IGNORED or name.endswith(_ENDINGS)


def _signature(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
