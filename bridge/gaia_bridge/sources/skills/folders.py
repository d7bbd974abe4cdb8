"""The skills in folders: their entries at one moment, with the digest of every file, and the files themselves.

Reading never leaves a folder: no symbolic link is followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from gaia_bridge.protocol.skills import SKILL_FILE
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.skills.frontmatter import FrontmatterError, read_frontmatter
from gaia_bridge.text.json_types import JSON

_DEPTH: Final = 16
_IGNORED: Final = frozenset({"__pycache__", "Thumbs.db", "desktop.ini", "node_modules"})
"""Names that programs leave behind, beside all hidden ones."""
_ENDINGS: Final = ("~", ".pyc", ".swp", ".tmp")
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe would be waited for
)


class FileChangedError(OSError):
    """A file was changed since it was found."""


class FoundFile(Struct, frozen=True):
    """A file at one moment."""

    path: Path
    size: int
    signature: tuple[int, ...]
    """A value that differs after every change of the file."""


class FolderFiles(Struct, frozen=True):
    """The files below a folder at one moment."""

    files: Mapping[tuple[str, ...], FoundFile]
    """The files by their names from the folder on, in order."""
    left_out: tuple[tuple[str, str], ...] = ()
    """The paths below the folder that are left out, each with the reason."""

    @property
    def state(self) -> object:
        """A value that differs after every change of something below the folder."""
        return {parts: file.signature for parts, file in self.files.items()}, self.left_out


def walk(folder: Path, most: int) -> FolderFiles:
    """Find all files below a folder, except hidden ones and those left behind by programs.

    Args:
        folder: The folder; the result is empty if it does not exist.
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
                return FolderFiles(dict(sorted(files.items())), tuple(left_out))
            reason = _looked_at(place / name, (*parts, name), files, waiting)
            if reason:
                left_out.append(("/".join((*parts, name)), reason))
    return FolderFiles(dict(sorted(files.items())), tuple(left_out))


def _looked_at(
    path: Path, parts: tuple[str, ...], files: dict[tuple[str, ...], FoundFile], waiting: list[tuple[str, ...]]
) -> str:
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
    """Return the bytes of a file that was found below a folder.

    Args:
        folder: The folder, resolved.

    Raises:
        FileChangedError: The file was changed or replaced, or is no longer below that folder.
        OSError: The file cannot be read.
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


_SCHEME: Final = "skill://"
_SAFE: Final = "!$&'()*+,;=~"
"""Characters that may stand unencoded in every part of a URI, beside letters, digits, and `_.-` (RFC 3986)."""
_ATTEMPTS: Final = 3
"""Attempts to find and read files that change meanwhile."""


class _File(Struct, frozen=True):
    """One file of a skill."""

    folder: Path
    entry: FoundFile
    digest: str


class _Problem(Exception):
    """The reason why a skill is left out."""


class Skills(Struct, frozen=True):
    """The skills in the folders at one moment."""

    entries: tuple[JSON, ...]
    """The entries for `skills/list`, in the order of their URIs."""
    files: Mapping[str, _File]
    left_out: tuple[tuple[str, str], ...]
    """The skills and files that are not published, each with the reason."""


class SkillFolders:
    """Skills below one or several folders. Not to be used by two threads at once.

    A folder holds skills, at any depth: `refunds/SKILL.md`, `acme/billing/refunds/SKILL.md`. A folder with a `SKILL.md`
    of its own is a skill.

    Args:
        folders: The folders; they need not exist yet.
    """

    def __init__(self, folders: Iterable[Path], limits: AgentLimits) -> None:
        self._folders = tuple(folders)
        self._limits = limits
        self._digests: dict[FoundFile, str] = {}
        self._states: list[object] | None = None
        self.current = Skills((), {}, ())
        """The result of the last reading."""

    def read(self) -> Skills:
        """Read the folders again, and return the skills. Only files that changed are read again."""
        walked = self._walked()
        states: list[object] = [one.state for _, one in walked]
        if states != self._states:
            for _ in range(_ATTEMPTS):
                try:
                    self.current, self._states = self._compiled(walked), states
                    break
                except (FileChangedError, FileNotFoundError):  # another process is writing the file
                    walked = self._walked()
                    states = [one.state for _, one in walked]
        return self.current

    def is_changed(self) -> bool:
        """Return whether the folders differ from the last reading."""
        return [one.state for _, one in self._walked()] != self._states

    def content(self, uri: str) -> bytes | None:
        """Return the bytes of a file of a skill, as described by `current`; `None` if no skill has such a file.

        If the file has changed, `current` is renewed first.

        Raises:
            OSError: The file cannot be read.
        """
        for _ in range(_ATTEMPTS):
            file = self.current.files.get(uri)
            if file is None and self.is_changed():
                file = self.read().files.get(uri)
            if file is None:
                return None
            try:
                content = read_file(file.entry, file.folder)
            except (FileChangedError, FileNotFoundError):
                self.read()
                continue
            if _digest(content) == file.digest:
                return content
            self._digests.clear()
            self._states = None
            self.read()
        raise FileChangedError(f"{uri} changes while it is read; try again")

    def _walked(self) -> list[tuple[Path, FolderFiles]]:
        # Unlike `Path.resolve`, this treats a link that leads to itself as a missing folder.
        folders = [Path(os.path.realpath(folder)) for folder in self._folders]
        return [(folder, walk(folder, self._limits.skill_folder_entries)) for folder in folders]

    def _compiled(self, walked: Iterable[tuple[Path, FolderFiles]]) -> Skills:
        entries: dict[str, JSON] = {}
        files: dict[str, _File] = {}
        left_out: list[tuple[str, str]] = []
        used: dict[FoundFile, str] = {}
        for folder, below in walked:
            left_out += [(f"{folder.name}/{path}", reason) for path, reason in below.left_out]
            skills = [parts[:-1] for parts in below.files if parts[-1] == SKILL_FILE]
            for skill in skills:
                try:
                    entry, own = self._skill(folder, below, skill, used)
                    if entry["uri"] in entries:
                        raise _Problem("another folder has a skill at the same path")
                    if len(entries) >= self._limits.skills:
                        raise _Problem(f"at most {self._limits.skills:,} skills are published")
                except (_Problem, FrontmatterError) as error:
                    left_out.append(("/".join((folder.name, *skill)), str(error)))
                    continue
                except (FileChangedError, FileNotFoundError):
                    raise
                except OSError as error:
                    reason = f"{_name_of(error, folder)} cannot be read: {error.strerror}"
                    left_out.append(("/".join((folder.name, *skill)), reason))
                    continue
                entries[entry["uri"]] = entry
                files |= own
        self._digests = used
        return Skills(tuple(entries[uri] for uri in sorted(entries)), files, tuple(left_out))

    def _skill(
        self, folder: Path, below: FolderFiles, skill: tuple[str, ...], used: dict[FoundFile, str]
    ) -> tuple[JSON, dict[str, _File]]:
        """Return the entry of a skill, and its files by their URIs."""
        own = {parts: file for parts, file in below.files.items() if parts[: len(skill)] == skill}
        self._check_size(own.values())
        path = skill or (folder.name,)
        contents = read_file(below.files[*skill, SKILL_FILE], folder)
        frontmatter = read_frontmatter(contents, self._limits.skill_frontmatter_bytes)
        if frontmatter["name"] != path[-1]:
            raise _Problem(f"its name is {frontmatter['name']!r}, and its folder's {path[-1]!r}; make them the same")
        files: dict[str, _File] = {}
        for parts, file in own.items():
            uri = _SCHEME + "/".join(map(_quoted, (*path, *parts[len(skill) :])))
            digest = used[file] = self._digests.get(file) or used.get(file) or _digest(read_file(file, folder))
            files[uri] = _File(folder, file, digest)
        uri = _SCHEME + "/".join(map(_quoted, (*path, SKILL_FILE)))
        resources = [{"uri": name, "digest": file.digest, "size": file.entry.size} for name, file in files.items()]
        return {"uri": uri, "frontmatter": frontmatter, "resources": resources}, files

    def _check_size(self, files: Iterable[FoundFile]) -> None:
        sizes = [file.size for file in files]
        if len(sizes) > self._limits.skill_files:
            raise _Problem(f"it has {len(sizes):,} files; at most {self._limits.skill_files:,} are allowed: split it")
        if (total := sum(sizes)) > self._limits.skill_bytes:
            raise _Problem(f"its files have {total:,} bytes; at most {self._limits.skill_bytes:,} are allowed")


def _name_of(error: OSError, folder: Path) -> str:
    """Return the file that cannot be read, by its path below a folder."""
    path = Path(os.fsdecode(error.filename or ""))
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else "a file of it"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _quoted(part: str) -> str:
    return quote(part.encode(errors="surrogateescape"), safe=_SAFE)
