"""What was written into files of editors, and what was there before: `~/.gaia/backups`."""

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
"""Backups of one file; of more, the oldest are removed, but none that is needed to undo something."""


class Installed(Struct, frozen=True, omit_defaults=True):
    """What was done to a file for one server.

    Args:
        after: What the file held then, as a digest.
        backup: The name of the file with what it held before; `None` where others have changed it in between.
        new_file: Whether it was made.
        new_root: Whether the key of the servers was.
        new_inputs: Whether the list of inputs was.
        asked: The input that was added.
        folders: Those that were made, the innermost first.
    """

    after: str
    backup: str | None = None
    new_file: bool = False
    new_root: bool = False
    new_inputs: bool = False
    asked: str | None = None
    folders: tuple[str, ...] = ()


class InstalledFiles:
    """The backups, and what is remembered of each file.

    Attributes:
        folder: Where they are.

    Raises:
        ConfigError: This user has no home folder.
    """

    def __init__(self) -> None:
        self.folder = expanded(_FOLDER)

    @property
    def lock(self) -> Path:
        """What is locked while a file of an editor is written; beside that, it would lie in people's projects.

        Raises:
            ConfigError: Its folder cannot be made.
        """
        self._make()
        return self.folder / ".lock"

    def of(self, path: Path) -> dict[str, Installed]:
        """What is remembered of a file, by the name of the server.

        Args:
            path: The file.
        """
        index = self.folder / _INDEX
        if not index.exists():
            return {}
        servers = read_json(index).document.get(_key(path))
        found: dict[str, Installed] = {}
        for name, record in servers.items() if is_object(servers) else ():
            try:
                found[name] = msgspec.convert(record, Installed)
            except msgspec.ValidationError as error:
                raise ConfigError(str(index), f"cannot be used: {error}", "remove it") from None
        return found

    def has_any(self) -> bool:
        """Whether the bridge is in the file of any editor, as far as we put it there."""
        index = self.folder / _INDEX
        return index.exists() and bool(read_json(index).document)

    def remember(self, path: Path, name: str, record: Installed | None) -> None:
        """Remember what was done to a file, or nothing any more.

        Args:
            path: The file.
            name: The server.
            record: What was done.

        Raises:
            ConfigError: It cannot be written.
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
            content: What it holds.

        Returns:
            The backup: of content that was kept already, the one that there is.

        Raises:
            ConfigError: It cannot be written.
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
        """What was there before, if it is kept.

        Args:
            record: What was done.
        """
        if record.backup is None:
            return None
        path = self.folder / os.path.basename(record.backup)
        return read_bytes(path, path.stat().st_size)[0] if path.exists() else None

    def _make(self) -> None:
        """Make the folder, which the lock is in.

        Raises:
            ConfigError: It cannot be made.
        """
        try:
            make_private_folder(self.folder)
        except OSError as error:
            raise ConfigError(str(self.folder), f"cannot be made: {error.strerror}", "nothing was changed") from None

    def _backups(self, begin: str) -> list[Path]:
        """The backups of a file, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if path.name.startswith(f"{begin}.bak-")]
        numbered = [path for path in found if path.name.rpartition("-")[2].isdecimal()]
        return sorted(numbered, key=lambda path: int(path.name.rpartition("-")[2]))


def _key(path: Path) -> str:
    """A file by its own name, whatever links lead to it."""
    return os.path.realpath(path)
