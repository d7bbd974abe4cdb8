"""The skills in folders: what there is at one moment, with the digest of every file, and the files themselves.

No folder is ever left while its files are read: no symbolic link is followed.
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


_SCHEME: Final = "skill://"
_SAFE: Final = "!$&'()*+,;=~"
"""What may stand in every part of a URI as it is, beside letters, digits, and `_.-` (RFC 3986)."""

_ATTEMPTS: Final = 3
"""How often files are found anew that change while they are read."""


class _File(Struct, frozen=True):
    """One file of a skill."""

    folder: Path
    found: FoundFile
    digest: str


class _Problem(Exception):
    """Why a skill is left out."""


class Skills(Struct, frozen=True):
    """What is in the folders at one moment."""

    entries: tuple[JSON, ...]
    """As `skills/list` has them, in the order of their URIs."""
    files: Mapping[str, _File]
    """By their URIs."""
    left_out: tuple[tuple[str, str], ...]
    """What is not published, and why."""


class SkillFolders:
    """Skills below one or several folders. Not to be used by two threads at once.

    A folder holds skills, at any depth: `refunds/SKILL.md`, `acme/billing/refunds/SKILL.md`. One that has a `SKILL.md`
    itself is a skill.

    Args:
        folders: The folders; they need not exist yet.
        limits: How many skills and files there may be, and how large.
    """

    def __init__(self, folders: Iterable[Path], limits: AgentLimits) -> None:
        self._folders = tuple(folders)
        self._limits = limits
        self._digests: dict[FoundFile, str] = {}
        self._states: list[object] | None = None
        self._current = Skills((), {}, ())

    @property
    def current(self) -> Skills:
        """What was found last."""
        return self._current

    def read(self) -> Skills:
        """Find out what is there now. Only files that changed are read again."""
        found = self._found()
        states: list[object] = [one.state for _, one in found]
        if states != self._states:
            for _ in range(_ATTEMPTS):
                try:
                    self._current, self._states = self._compiled(found), states
                    break
                except (FileChangedError, FileNotFoundError):  # somebody is writing it
                    found = self._found()
                    states = [one.state for _, one in found]
        return self._current

    def is_changed(self) -> bool:
        """Whether something else is there now than was found last."""
        return [one.state for _, one in self._found()] != self._states

    def content(self, uri: str) -> bytes | None:
        """The bytes of a file of a skill, which fit what `current` says of it; `None` if no skill has such a file.

        Where the file has changed, `current` is made anew first.

        Raises:
            OSError: It cannot be read.
        """
        for _ in range(_ATTEMPTS):
            file = self._current.files.get(uri)
            if file is None and self.is_changed():
                file = self.read().files.get(uri)
            if file is None:
                return None
            try:
                content = read_file(file.found, file.folder)
            except (FileChangedError, FileNotFoundError):
                self.read()
                continue
            if _digest(content) == file.digest:
                return content
            self._digests.clear()
            self._states = None
            self.read()
        raise FileChangedError(f"{uri} changes while it is read; try again")

    def _found(self) -> list[tuple[Path, Found]]:
        # Unlike `Path.resolve`, this takes a link that leads to itself for a folder that is not there.
        folders = [Path(os.path.realpath(folder)) for folder in self._folders]
        return [(folder, walk(folder, self._limits.skill_folder_entries)) for folder in folders]

    def _compiled(self, found: Iterable[tuple[Path, Found]]) -> Skills:
        entries: dict[str, JSON] = {}
        files: dict[str, _File] = {}
        left_out: list[tuple[str, str]] = []
        used: dict[FoundFile, str] = {}
        for folder, below in found:
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
        self, folder: Path, below: Found, skill: tuple[str, ...], used: dict[FoundFile, str]
    ) -> tuple[JSON, dict[str, _File]]:
        """The entry of a skill, and its files by their URIs.

        Raises:
            _Problem: It is too large, or its folder has another name than itself.
            FrontmatterError: Its frontmatter is not valid.
            FileChangedError: It is being written.
        """
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
        resources = [{"uri": name, "digest": file.digest, "size": file.found.size} for name, file in files.items()]
        return {"uri": uri, "frontmatter": frontmatter, "resources": resources}, files

    def _check_size(self, files: Iterable[FoundFile]) -> None:
        sizes = [file.size for file in files]
        if len(sizes) > self._limits.skill_files:
            raise _Problem(f"it has {len(sizes):,} files; at most {self._limits.skill_files:,} are allowed: split it")
        if (total := sum(sizes)) > self._limits.skill_bytes:
            raise _Problem(f"its files have {total:,} bytes; at most {self._limits.skill_bytes:,} are allowed")


def _name_of(error: OSError, folder: Path) -> str:
    """The file that cannot be read, by its path below a folder."""
    path = Path(os.fsdecode(error.filename or ""))
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else "a file of it"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _quoted(part: str) -> str:
    return quote(part.encode(errors="surrogateescape"), safe=_SAFE)
