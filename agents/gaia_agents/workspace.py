"""One folder and nothing outside of it: which files it has, reading them, creating them.

A path is first resolved with all its links and must then lie under the root; after that the file is opened folder by
folder without following links, so that nothing can be exchanged between the look and the leap.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gaia_agents.files import FileTooLargeError, NotARegularFileError, folder_of, read_below, write_regular
from gaia_agents.git import Git
from gaia_agents.ignore import IgnoreRules
from gaia_agents.protection import is_secret, plain, reason_not_to_write
from gaia_agents.repository import Repository, find_repository, read_small
from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import ConfigError, ToolError

__all__ = ["WORKSPACE_VARIABLE", "PathError", "Workspace", "WorkspaceFile", "home_in", "open_workspace"]

MAX_PATH = 4_096
"""Characters of a path: Linux's own limit."""
_UNSAYABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Characters that no path from outside may contain: control characters, and bytes that are no UTF-8 (PEP 383)."""
MAX_PARTS = 100
"""Folders on the way to a file: more than any project has; each is looked at, and those above it with it."""
WORKSPACE_VARIABLE = "GAIA_WORKSPACE"
"""Names the folder that the shipped agents work on, instead of the current one."""


class PathError(ToolError):
    """A path that leads to nothing this workspace may touch."""


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A regular file that is not ignored."""

    path: str
    """Relative to the root, with `/`."""
    size: int
    modified_ns: int


def open_workspace(root: Path | str | None, own_files: Callable[[], Collection[Path]] = tuple) -> Workspace:
    """Open the workspace at `root`, or at the folder that `GAIA_WORKSPACE` names, or at the current one.

    Args:
        root: The folder.
        own_files: Tells what the bridge itself loads.

    Raises:
        ConfigError: It is no folder; or it is where the user's home folder is, and nobody named it.
    """
    named = root if root is not None else os.environ.get(WORKSPACE_VARIABLE) or None
    folder = Path(os.path.realpath(Path.cwd() if named is None else Path(named).expanduser()))
    if not folder.is_dir():
        raise ConfigError("the folder to work on", f"{str(named)!r} is not a folder", "name one that is there")
    if named is None and (home := home_in(folder)):
        what = "is" if home == folder else "holds"
        problem = f"{str(folder)!r} {what} your home folder, with all that is private in it"
        hint = f"start in the folder of a project, or name a folder: {WORKSPACE_VARIABLE}=FOLDER"
        raise ConfigError("the current folder", problem, hint)
    git = Git(folder)
    return Workspace(folder, git.user_excludes(), lambda: {*own_files(), *git.own_files()})


class Workspace:
    """The files below a folder that git would not ignore; `.git` is never among them.

    Args:
        root: The folder, absolute and without links; `open_workspace` sees to that.
        user_excludes: What the user's own git ignores everywhere.
        own_files: Tells the files, and folders, that decide what the bridge or git starts.
    """

    def __init__(self, root: Path, user_excludes: str = "", own_files: Callable[[], Collection[Path]] = tuple) -> None:
        self.root = root
        self._own_files = own_files
        self._user_rules = IgnoreRules(user_excludes.split("\n"))

    def locate(self, path: str) -> str:
        """Turn a path from outside into the path of the same place relative to the root, links resolved.

        The place need not exist. The root itself is "".

        Raises:
            PathError: It is no path, or leads out of the root, into `.git`, or to something ignored.
        """
        if not path or len(path) > MAX_PATH or _UNSAYABLE.search(path):
            raise PathError(
                f"{path[:200]!r} is not a path; expected one like 'src/main.py', relative to the root folder"
            )
        if path.count("/") > MAX_PARTS:
            raise PathError(f"a path with more than {MAX_PARTS} folders; expected one like 'src/main.py'")
        if ".." in PurePosixPath(path).parts:
            raise PathError(f"{path!r} contains '..'; give a path below the root folder, without '..'")
        real = Path(os.path.realpath(self.root / path))
        if not real.is_relative_to(self.root):
            raise PathError(f"{path!r} leads out of the root folder; only files below it can be used")
        parts = real.relative_to(self.root).parts
        if not all(_is_own_name(self.root.joinpath(*parts[:depth]), part) for depth, part in enumerate(parts)):
            raise PathError(f"{path!r} is written otherwise in its folder; give it exactly so")
        if any(_is_git(part) for part in parts):
            raise PathError(f"{path!r} belongs to git; use git for it")
        if is_secret(real.parts):
            raise PathError(f"{path!r} is where keys and passwords are kept; no agent reads or writes there")
        if self._ignored(parts, os.path.isdir(real)):
            raise PathError(f"{path!r} is ignored by git (.gitignore); only files that git would keep can be used")
        return "/".join(parts)

    def read(self, path: str, limit: int) -> bytes:
        """Read a file.

        Args:
            path: Any path below the root.
            limit: Bytes that it may have.

        Raises:
            PathError: There is no such file to read.
            ToolError: It is too large.
        """
        place = self.locate(path)
        try:
            return read_below(str(self.root), place, limit)
        except FileTooLargeError as error:
            raise ToolError(f"{path!r} has {error}; search it with search-code instead") from None
        except NotARegularFileError:
            raise PathError(f"{path!r} is not a regular file; expected a file with text") from None
        except OSError as error:
            raise _path_error(path, error, "expected an existing file, relative to the root folder") from None

    def write(self, path: str, data: bytes, *, overwrite: bool) -> tuple[str, bool]:
        """Write a file in one step: others see the old content or the new, never a part. Makes missing folders.

        Args:
            path: Any path below the root.
            data: The whole content.
            overwrite: Whether an existing file may be replaced.

        Returns:
            The path from the root, and whether the file is new.

        Raises:
            PathError: The place cannot be written.
            ToolError: A file is there already, and `overwrite` is not set.
        """
        place = self.locate(path)
        if not place:
            raise PathError(f"{path!r} is the root folder; expected the path of a file")
        if reason := reason_not_to_write(self.root, place, self._own_files()):
            raise PathError(f"{path!r} {reason}; change it yourself")
        try:
            with folder_of(str(self.root), place, create=True) as folder:
                return place, write_regular(folder, PurePosixPath(place).name, data, overwrite=overwrite)
        except FileExistsError:
            raise ToolError(f"{path!r} exists already; set overwrite to true to replace it") from None
        except OSError as error:
            raise _path_error(path, error, "the file was not written") from None

    def files(self, under: str = "", check: Callable[[], None] = lambda: None) -> Iterator[WorkspaceFile]:
        """Yield all files that are not ignored, sorted by path within each folder, without following links.

        Args:
            under: A folder or a single file to start at; the root by default.
            check: Called for every entry; raises to end the walk.

        Raises:
            PathError: There is no such place.
        """
        place = self.locate(under) if under else ""
        start = self.root / place
        try:
            status = os.lstat(start)
        except OSError as error:
            raise _path_error(under, error, "expected an existing file or folder") from None
        parts = tuple(PurePosixPath(place).parts)
        if stat.S_ISREG(status.st_mode):
            yield WorkspaceFile(place, status.st_size, status.st_mtime_ns)
            return
        if not stat.S_ISDIR(status.st_mode):
            raise PathError(f"{under!r} is not a regular file or folder")
        _, top_parts, rules = self._rules_above(parts)
        waiting = [(parts, rules)]
        while waiting:
            parts, rules = waiting.pop()
            folders: list[tuple[tuple[str, ...], IgnoreRules]] = []
            for entry in self._entries(parts):
                check()
                inner = (*parts, entry.name)
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_secret(inner[-3:]) or rules.ignores((*top_parts, *inner), is_folder):
                    continue
                if is_folder:
                    folders.append((inner, self._rules_in(inner, len(top_parts), rules)))
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):  # gone since the listing
                        file_status = entry.stat(follow_symlinks=False)
                        yield WorkspaceFile("/".join(inner), file_status.st_size, file_status.st_mtime_ns)
            waiting.extend(reversed(folders))

    def _entries(self, parts: tuple[str, ...]) -> list[os.DirEntry[str]]:
        """List a folder without `.git` and names that no client could send back; empty if unreadable."""
        try:
            with os.scandir(self.root.joinpath(*parts)) as listing:
                entries = [entry for entry in listing if _is_sayable(entry.name)]
        except OSError:
            return []
        return sorted(entries, key=lambda entry: entry.name)

    def _ignored(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        ignored, _, _ = self._rules_above(parts, is_folder)
        return ignored

    def _rules_above(self, parts: tuple[str, ...], is_folder: bool = True) -> tuple[bool, tuple[str, ...], IgnoreRules]:
        """Go down from the root to `parts`: whether something on the way is ignored, and the rules that hold there.

        Returns:
            Whether it is ignored, the path from the topmost folder of the repository to the root, and the rules in
            the folder `parts`.
        """
        repository = find_repository(self.root) or Repository(self.root, self.root, self.root)
        top_parts = self.root.relative_to(repository.top).parts
        excluded = read_small(repository.common_dir / "info" / "exclude")
        rules = IgnoreRules(excluded.split("\n"), above=self._user_rules)
        folder = repository.top
        for depth, part in enumerate(("", *top_parts)):
            folder = folder / part
            rules = _with_gitignore(folder, depth, rules)
        for depth in range(1, len(parts) + 1):
            last = depth == len(parts)
            if rules.ignores((*top_parts, *parts[:depth]), is_folder if last else True):
                return True, top_parts, rules
            rules = self._rules_in(parts[:depth], len(top_parts), rules)
        return False, top_parts, rules

    def _rules_in(self, parts: tuple[str, ...], offset: int, above: IgnoreRules) -> IgnoreRules:
        return _with_gitignore(self.root.joinpath(*parts), offset + len(parts), above)


def _with_gitignore(folder: Path, depth: int, above: IgnoreRules) -> IgnoreRules:
    """Return the rules in `folder`; those of the folder above if it has none of its own."""
    text = read_small(folder / ".gitignore")
    return IgnoreRules(text.split("\n"), depth, above) if text else above


def _is_own_name(folder: Path, name: str) -> bool:
    """Whether an entry, if there is one, is called just so: where case does not count, `.ENV` would open `.env`."""
    try:
        return name in os.listdir(folder) or not os.path.lexists(folder / name)
    except OSError:
        return not os.path.lexists(folder / name)


def home_in(folder: Path) -> Path | None:
    """Return the user's home folder if it is this folder or below it."""
    try:
        home = Path(os.path.realpath(home_folder()))
    except RuntimeError:
        return None
    return home if home.is_relative_to(folder) else None


def _is_git(name: str) -> bool:
    return plain(name) == ".git"


def _is_sayable(name: str) -> bool:
    return not _is_git(name) and not _UNSAYABLE.search(name)


def _path_error(path: str, error: OSError, expectation: str) -> PathError:
    return PathError(f"{path!r}: {error.strerror or error}; {expectation}")
