"""The user's approvals of a project's servers.

A project's configuration comes with the project, so its author decides what would be started. An approval holds
for one launch line of one server in one file, exactly as written there, for the content of files filled into it, and
for the programs of the project that it runs; any change voids it. The file with the approvals lies in the home folder
and holds hashes only; nothing in a project can add to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gaia_bridge.config.expansion import MAX_SECRET, referenced_files
from gaia_bridge.config.file_editor import edit_json
from gaia_bridge.config.file_reader import JsonFile, read_bytes, read_json, writable_by_others
from gaia_bridge.config.fingerprints import PROGRAM_KEYS, digest, launch_line
from gaia_bridge.config.launching.programs import programs_of
from gaia_bridge.config.paths import default_trust_path, expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_object

_APPROVED: Final = "approved"
_FILLED_IN: Final = "filled_in"
_PROGRAMS: Final = "programs"

_CHUNK: Final = 1024 * 1024
"""Bytes of a program that are read at a time."""

_LARGEST_PROGRAM: Final = 256 * 1024 * 1024
"""Bytes of a program that is compared by content; larger ones are compared by size and time."""

WHOLE_FILES: Final = 5_000
"""Files of a folder that an approval holds as a whole. It is read before each start, and 5,000 files take half a second
on a slow disk; of a larger folder, only these are held, and the user who approves it is warned."""

_LARGEST_OF_WHOLE: Final = 64 * 1024
"""Bytes of a file in such a folder that is compared by content; most source files are smaller, and larger ones are
compared by size and time."""

_NOT_RUN: Final = frozenset({".git", ".hg", "__pycache__"})
"""Folders in it that change all the time, and hold no programs that a line could name."""

_MODULE_ENDINGS: Final = (".py", ".pyc", ".pyd", ".so")
"""Endings of files that Python imports."""

_INITIAL: Final = tuple(f"__init__{ending}" for ending in _MODULE_ENDINGS)


class TrustStore:
    """The approvals of this user. The file is read on first use: most users have no projects with servers.

    Args:
        path: The file; `~/.gaia/trust.json` if not given. It need not exist.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._approved: JSON | None = None

    @property
    def path(self) -> Path:
        """The path of the file.

        Raises:
            ConfigError: This user has no home folder.
        """
        if self._path is None:
            self._path = default_trust_path()
        return self._path

    def is_approved(self, file: Path, name: str, entry: JSON) -> bool:
        """Return whether the user approved exactly this launch line; see `approval`."""
        return self.approval(file, name, entry) is not None

    def approval(self, file: Path, name: str, entry: JSON) -> str | None:
        """Return an identifier of the approval, if the user approved exactly this launch line with these programs.

        Raises:
            ConfigError: The approvals cannot be read, have a wrong form, or other users could have written them.
        """
        key = approval_key(file, name, entry)
        approval: object = self._approvals.get(key)
        if not is_object(approval):
            return None
        now = {_FILLED_IN: _filled_in(file, entry), _PROGRAMS: _programs(file, entry)}
        return _named(key, approval) if all(approval.get(part) == value for part, value in now.items()) else None

    def holds(self, file: Path, name: str, approval: str) -> bool:
        """Return whether an approval was neither revoked nor replaced; the programs themselves may have changed.

        Raises:
            ConfigError: As for `approval`.
        """
        place = str(_resolved(file))
        return any(_is_of(place, name, kept) and _named(key, kept) == approval for key, kept in self._approvals.items())

    def approve(self, file: Path, name: str, entry: JSON) -> None:
        """Store the user's approval of a launch line. An earlier one of that server is removed.

        Raises:
            ConfigError: The approval cannot be stored.
        """
        place = str(_resolved(file))
        when = datetime.now(UTC).isoformat(timespec="seconds")
        approval = {"file": place, "server": name, "time": when}
        if (filled_in := _filled_in(file, entry)) is not None:
            approval[_FILLED_IN] = filled_in
        if (programs := _programs(file, entry)) is not None:
            approval[_PROGRAMS] = programs

        key = approval_key(file, name, entry)
        self._edit(lambda approved: {**_without(approved, place, name), key: approval})

    def revoke(self, file: Path, name: str) -> bool:
        """Remove an approval; return whether there was one.

        Raises:
            ConfigError: The approval cannot be removed.
        """
        place = str(_resolved(file))
        return self._edit(lambda approved: _without(approved, place, name))

    @property
    def _approvals(self) -> JSON:
        if self._approved is None:
            self._approved = self._read()
        return self._approved

    def _read(self) -> JSON:
        return self._checked(read_json(self.path)) if os.path.lexists(self.path) else {}

    def _checked(self, file: JsonFile) -> JSON:
        """Return the approvals; refuse them if other users could have written them."""
        if problem := writable_by_others(file.status):
            raise ConfigError(str(self.path), problem, "remove it, and approve again")
        approved = file.document.get(_APPROVED, {})
        if not is_object(approved):
            raise ConfigError(str(self.path), f"'{_APPROVED}' is no object", "remove it, and approve again")
        return approved

    def _edit(self, change: Callable[[JSON], JSON]) -> bool:
        def edited(file: JsonFile | None) -> str | None:
            before = {} if file is None else self._checked(file)
            after = change(before)
            if after == before:
                return None
            document = {} if file is None else file.document
            return json.dumps({**document, _APPROVED: after}, indent=2) + "\n"

        changed = edit_json(self.path, edited)
        self._approved = self._read()
        return changed


def approval_key(file: Path, name: str, entry: JSON) -> str:
    """Return the key of an approval: a hash of the launch line of one server in one file."""
    return digest([str(_resolved(file)), name, launch_line(entry)])


def _filled_in(file: Path, entry: JSON) -> str | None:
    """Return a hash of the files whose content decides what is started or reached; `None` if there are none.

    A file that only identifies us to the server in the launch line may change: keys are exchanged from time to time.
    """
    names = referenced_files(entry, PROGRAM_KEYS)
    return digest([[name, _content(file.parent, name)] for name in names]) if names else None


def program_names(file: Path, entry: JSON) -> str | None:
    """Return a hash of the names of the files that an entry runs, or would run if they existed, whatever their content;
    `None` if there are none. Only files in the folder of the configuration file count.
    """
    folder = _resolved(file).parent
    programs = programs_of(entry, folder)
    files = [*programs.files, *([] if programs.whole is None else whole_files(programs.whole)[0])]
    names = [[str(path) for path in files], [[str(path), _modules(path)] for path in programs.module_folders]]
    return digest(names) if any(names) else None


def _programs(file: Path, entry: JSON) -> str | None:
    """Return a hash of the project's files that the launch line runs, and of folders in which further files would run;
    `None` if there are none."""
    folder = _resolved(file).parent
    programs = programs_of(entry, folder)
    held: list[Any] = [[os.path.relpath(path, folder), _program(path, _LARGEST_PROGRAM)] for path in programs.files]
    held += [["modules", os.path.relpath(path, folder), _modules(path)] for path in programs.module_folders]
    if programs.whole is not None:
        held += [
            ["whole", os.path.relpath(path, folder), _program(path, _LARGEST_OF_WHOLE)]
            for path in whole_files(programs.whole)[0]
        ]
    return digest(held) if held else None


def whole_files(folder: Path) -> tuple[list[Path], bool]:
    """Return the files of a folder that an approval holds as a whole, and whether these are all."""
    files: list[Path] = []
    own = None
    with suppress(ConfigError):
        own = default_trust_path().parent  # left out, as each approval changes a file in it
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_RUN and Path(place, name) != own)
        files += (Path(place, name) for name in sorted(names))
        if len(files) > WHOLE_FILES:
            return files[:WHOLE_FILES], False
    return files, True


def _modules(folder: Path) -> list[str]:
    """Return the names of the modules that Python finds in a folder; their content is not held."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(_MODULE_ENDINGS) or _is_package(entry))
    return []


def _is_package(entry: os.DirEntry[str]) -> bool:
    """Return whether a folder hides a module that Python would find elsewhere: only a folder with `__init__` does."""
    return entry.name.isidentifier() and any(map(os.path.exists, (os.path.join(entry, n) for n in _INITIAL)))


def _program(path: Path, largest: int) -> str | None:
    content = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as program:  # it may be a FIFO
            status = os.fstat(program.fileno())
            if status.st_size > largest or not stat.S_ISREG(status.st_mode):
                return f"{status.st_size} {status.st_mtime_ns}"
            while chunk := program.read(_CHUNK):
                content.update(chunk)
    except OSError:
        return None
    return content.hexdigest()


def _content(folder: Path, name: str) -> str | None:
    try:
        content, _ = read_bytes(folder / expanded(Path(name)), MAX_SECRET)
    except ConfigError:
        return None
    return hashlib.sha256(content).hexdigest()


def _resolved(file: Path) -> Path:
    """Return the file's path with its folder resolved. A link in another folder is another file: relative paths of
    its entries begin there, so that they lead to other programs."""
    return file.parent.resolve() / file.name


def _named(key: str, approval: JSON) -> str:
    return digest([key, approval.get(_FILLED_IN), approval.get(_PROGRAMS)])


def _is_of(place: str, name: str, approval: Any) -> bool:
    return is_object(approval) and (approval.get("file"), approval.get("server")) == (place, name)


def _without(approved: JSON, place: str, name: str) -> JSON:
    return {key: approval for key, approval in approved.items() if not _is_of(place, name, approval)}
