"""Records changes to files of editors, and keeps their former contents: `~/.gaia/backups`."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from gaia_bridge.config.documents import to_text
from gaia_bridge.config.file_editor import edit_file, edit_json, make_private_folder
from gaia_bridge.config.file_reader import JsonFile, read_bytes, read_json
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_object

_FOLDER: Final = Path("~/.gaia/backups")
_INDEX: Final = "installed.json"
_KEPT: Final = 20
"""Backups kept of one file; the oldest beyond that are removed, except those needed to undo a change."""


class Installed(Struct, frozen=True, omit_defaults=True):
    """The record of a change to a file for one server.

    Args:
        after: A digest of the file's content after the change.
        backup: The name of the file with the former content; `None` where others have changed the file in between.
        new_file: Whether the file was created.
        new_root: Whether the key of the servers was created.
        new_inputs: Whether the list of inputs was created.
        asked: The name of the input that was added.
        folders: The folders that were created, the innermost first.
    """

    after: str
    backup: str | None = None
    new_file: bool = False
    new_root: bool = False
    new_inputs: bool = False
    asked: str | None = None
    folders: tuple[str, ...] = ()


class InstalledFiles:
    """The backups, and the records of each file.

    Attributes:
        folder: The folder of the backups.

    Raises:
        ConfigError: This user has no home folder.
    """

    def __init__(self) -> None:
        self.folder = expanded(_FOLDER)

    @property
    def lock(self) -> Path:
        """The file to lock while an editor's file is written; a lock beside that file would lie in people's projects.

        Raises:
            ConfigError: Its folder cannot be made.
        """
        self._make_folder()
        return self.folder / ".lock"

    def of(self, path: Path) -> dict[str, Installed]:
        """Return the records of a file, by the name of the server.

        Args:
            path: The file.
        """
        index = self.folder / _INDEX
        if not index.exists():
            return {}
        servers = read_json(index).document.get(_key(path))
        records: dict[str, Installed] = {}
        for name, record in servers.items() if is_object(servers) else ():
            try:
                records[name] = msgspec.convert(record, Installed)
            except msgspec.ValidationError as error:
                raise ConfigError(str(index), f"cannot be used: {error}", "remove it") from None
        return records

    def has_any(self) -> bool:
        """Return whether `install` has put the bridge into the file of any editor."""
        index = self.folder / _INDEX
        return index.exists() and bool(read_json(index).document)

    def remember(self, path: Path, name: str, record: Installed | None) -> None:
        """Store the record of a change to a file, or remove it.

        Args:
            path: The file.
            name: The server.
            record: The record; `None` removes the old one.

        Raises:
            ConfigError: The record cannot be written.
        """

        def changed(file: JsonFile | None) -> str:
            document: JSON = {} if file is None else dict(file.document)
            servers: Any = document.get(_key(path))
            servers = {key: item for key, item in (servers if is_object(servers) else {}).items() if key != name}
            if record is not None:
                servers[name] = msgspec.to_builtins(record)
            document.pop(_key(path), None)
            return to_text({**document, _key(path): servers} if servers else document)

        edit_json(self.folder / _INDEX, changed)

    def keep(self, path: Path, content: bytes) -> Path:
        """Write a backup of a file.

        Args:
            path: The file.
            content: The file's content.

        Returns:
            The backup; if the newest one has the same content, that one.

        Raises:
            ConfigError: The backup cannot be written.
        """
        begin = f"{zlib.crc32(_key(path).encode(errors='surrogateescape')):08x}-{path.name}"
        old = self._backups(begin)
        if old and old[-1].stat().st_size == len(content) and read_bytes(old[-1], len(content))[0] == content:
            return old[-1]
        number = 1 + (int(old[-1].name.rpartition("-")[2]) if old else 0)
        made = self.folder / f"{begin}.bak-{number}"
        edit_file(made, lambda _content, _status: content, limit=len(content), lock=self.lock)
        needed = {record.backup for record in self.of(path).values()}
        for outdated in old[: max(0, len(old) + 1 - _KEPT)]:
            if outdated.name not in needed:
                outdated.unlink(missing_ok=True)
        return made

    def backup(self, record: Installed) -> bytes | None:
        """Return the former content of a file, if it is kept.

        Args:
            record: The record of the change.
        """
        if record.backup is None:
            return None
        path = self.folder / os.path.basename(record.backup)
        return read_bytes(path, path.stat().st_size)[0] if path.exists() else None

    def _make_folder(self) -> None:
        """Create the folder of the lock.

        Raises:
            ConfigError: The folder cannot be created.
        """
        try:
            make_private_folder(self.folder)
        except OSError as error:
            raise ConfigError(str(self.folder), f"cannot be made: {error.strerror}", "nothing was changed") from None

    def _backups(self, begin: str) -> list[Path]:
        """Return the backups of a file, the oldest first."""
        if not self.folder.is_dir():
            return []
        paths = [path for path in self.folder.iterdir() if path.name.startswith(f"{begin}.bak-")]
        numbered = [path for path in paths if path.name.rpartition("-")[2].isdecimal()]
        return sorted(numbered, key=lambda path: int(path.name.rpartition("-")[2]))


def _key(path: Path) -> str:
    """Return the real path of a file, whatever links lead to it."""
    return os.path.realpath(path)
