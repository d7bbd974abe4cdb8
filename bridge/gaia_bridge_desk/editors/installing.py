"""Puts the bridge into an editor's file, and removes it again: planned first, shown, and only then written.

Each change is recorded beside the backups (`~/.gaia/backups`): as long as no other program has changed the file,
removing the bridge restores exactly the former content. Otherwise, only the entry and the things that were created for
it are removed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import ModuleType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config.file_editor import edit_file
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors import jsonc, toml_tables
from gaia_bridge_desk.editors.entries import is_ours, merged
from gaia_bridge_desk.editors.installed import Installed, InstalledFiles
from gaia_bridge_desk.editors.table import Editor, FileKind

MAX_BYTES: Final = 32 * MIB
"""Bytes of an editor's file. Claude Code keeps histories in its own, which have a few MiB."""

_BOM: Final = b"\xef\xbb\xbf"
_INPUTS: Final = "inputs"
_TRUST: Final = "look into it, or choose another name with --name"


class Wanted(Struct, frozen=True):
    """The entry to put into an editor's file.

    Args:
        name: The server's name there.
        entry: The server's entry.
        asked: The input with which the editor asks the user for a value of the entry.
    """

    name: str
    entry: JSON
    asked: JSON | None = None


class FileChange(Struct, frozen=True):
    """A planned change to a file.

    Args:
        path: The file.
        before: Its content; `None` if it is not there.
        after: Its new content; `None` if it is removed.
        name: The server's name.
        record: The record of the change: stored after an installation, read before a removal.
        is_installation: Whether the server is installed, not removed.
        is_undone_by_backup: Whether the present content is the one that a removal has to restore.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    name: str
    record: Installed | None = None
    is_installation: bool = False
    is_undone_by_backup: bool = False

    @property
    def is_one(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after


def plan_install(editor: Editor, path: Path, wanted: Wanted) -> FileChange:
    """Plan the installation of the bridge in a file.

    Args:
        editor: The editor that owns the file.
        path: The file.
        wanted: The entry to put into it.

    Raises:
        ConfigError: The file cannot be read or changed, or has another server of that name.
    """
    before = _content(path)
    text = text_of(path, before)
    codec = _codec(editor)
    document = document_of(editor, path, text)
    servers = _servers(editor, path, document)
    files = InstalledFiles()
    records = files.of(path)
    old = servers.get(wanted.name)
    if old is not None and not is_ours(old) and wanted.name not in records:
        raise ConfigError(str(path), f"there is a server {wanted.name!r} already, which is not the bridge", _TRUST)
    entry = merged(old, wanted.entry)
    asked = wanted.asked if wanted.asked is not None and not _is_asked(document, wanted.asked) else None
    no_longer = records[wanted.name] if wanted.name in records and wanted.asked is None else None
    after = before
    if old != entry or asked is not None or before is None:
        try:
            if old != entry or before is None:
                text = _with_entry(codec, text, (editor.root, wanted.name), old, entry)
            if asked is not None:
                text = jsonc.append(text, (_INPUTS,), asked)
            elif no_longer is not None:
                text = _without_input(text, document, no_longer)
        except jsonc.EditError as error:
            raise _unusable(path, str(error), editor, wanted) from None
        after = (_BOM if before is not None and before.startswith(_BOM) else b"") + text.encode("utf-8")
    record = Installed(
        after=_digest(after),
        backup=None,
        new_file=before is None,
        new_root=editor.root not in document,
        new_inputs=asked is not None and _INPUTS not in document,
        asked=None if asked is None else str(asked["id"]),
        folders=_missing_folders(path),
    )
    record = _continued(record, records, wanted.name, before, wanted.asked is not None)
    is_first = wanted.name not in records and before is not None
    return FileChange(path, before, after, wanted.name, record, is_installation=True, is_undone_by_backup=is_first)


def plan_remove(editor: Editor, path: Path, name: str) -> FileChange:
    """Plan the removal of the bridge from a file.

    Args:
        editor: The editor that owns the file.
        path: The file.
        name: The server's name there.

    Raises:
        ConfigError: The file cannot be read or changed, or the server of that name is another one.
    """
    before = _content(path)
    text = text_of(path, before)
    document = document_of(editor, path, text)
    servers = _servers(editor, path, document)
    files = InstalledFiles()
    record = files.of(path).get(name)
    if before is None or name not in servers:
        return FileChange(path, before, before, name)
    if not is_ours(servers[name]) and record is None:
        raise ConfigError(str(path), f"its server {name!r} is not the bridge", "remove it by hand, if you want to")
    if record is not None and record.after == _digest(before):
        former = files.backup(record)
        if former is not None:
            return FileChange(path, before, former, name, record)
    try:
        text = _without(editor, text, document, name, record)
    except jsonc.EditError as error:
        raise ConfigError(str(path), f"cannot be changed: {error}", "take the entry out by hand") from None
    after: bytes | None = (_BOM if before.startswith(_BOM) else b"") + text.encode("utf-8")
    if record is not None and record.new_file and not document_of(editor, path, text):
        after = None
    return FileChange(path, before, after, name, record)


def write(change: FileChange, *, shared: bool) -> Path | None:
    """Carry out a change, and record it.

    Args:
        change: The planned change.
        shared: Whether others may read the file if it is a new one.

    Returns:
        The backup of the former content, if there was any.

    Raises:
        ConfigError: The file cannot be written, or has changed since the plan. It is left as it was.
    """
    files = InstalledFiles()
    backup = None if change.before is None else files.keep(change.path, change.before)
    if change.after is None:
        _delete(change)
    else:
        _replace(change, files, shared)
    record = change.record if change.is_installation else None
    if record is not None and backup is not None and change.is_undone_by_backup:
        record = replace(record, backup=backup.name)
    files.remember(change.path, change.name, record)
    return backup


def document_of(editor: Editor, path: Path, text: str) -> JSON:
    """Return the parsed document of an editor's file.

    Args:
        editor: The editor that owns the file.
        path: The file.
        text: Its text.

    Raises:
        ConfigError: The text is not valid in the editor's format.
    """
    try:
        document: JSON = _codec(editor).read(text)
    except jsonc.EditError as error:
        kind = "TOML" if editor.kind is FileKind.TOML else "JSON"
        raise ConfigError(str(path), f"is not valid {kind}: {error}", "mend it; nothing was changed") from None
    return document


def text_of(path: Path, content: bytes | None) -> str:
    """Decode the content of a file, without its byte order mark.

    Args:
        path: The file.
        content: Its content; `None` if it is not there.

    Raises:
        ConfigError: The content is not UTF-8.
    """
    try:
        return (content or b"").removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start + 1} is not UTF-8", "save the file as UTF-8") from None


def snippet(editor: Editor, wanted: Wanted) -> str:
    """Return the text that `install` would put into an empty file, to be pasted by hand.

    Args:
        editor: The editor that owns the file.
        wanted: The entry.
    """
    if editor.kind is FileKind.TOML:
        return toml_tables.written((editor.root, wanted.name), wanted.entry)
    text = jsonc.put("", (editor.root, wanted.name), wanted.entry)
    return text if wanted.asked is None else jsonc.append(text, (_INPUTS,), wanted.asked)


def _with_entry(codec: ModuleType, text: str, path: tuple[str, str], old: object, entry: JSON) -> str:
    """Return the text with an entry; where its keys stay the same, only changed values are written; comments stay."""
    if codec is not jsonc or not is_object(old) or old.keys() != entry.keys():
        changed: str = codec.put(text, path, entry)
        return changed
    for key, value in entry.items():
        if old[key] != value:
            text = jsonc.put(text, (*path, key), value)
    return text


def _codec(editor: Editor) -> ModuleType:
    return toml_tables if editor.kind is FileKind.TOML else jsonc


def _content(path: Path) -> bytes | None:
    """Read a file; return `None` if it is not there.

    Raises:
        ConfigError: The file cannot be read, or may not be written.
    """
    if not os.path.lexists(path):
        return None
    content, status = read_bytes(path, MAX_BYTES)
    if not status.st_mode & 0o200:
        raise ConfigError(str(path), "is read-only, so that nothing is changed", "allow it: chmod u+w")
    return content


def _servers(editor: Editor, path: Path, document: JSON) -> JSON:
    servers = document.get(editor.root, {})
    if not is_object(servers):
        raise ConfigError(str(path), f"its {editor.root!r} is no object of servers", "mend it; nothing was changed")
    return servers


def _is_asked(document: JSON, asked: JSON) -> bool:
    inputs = document.get(_INPUTS)
    return is_array(inputs) and any(is_object(item) and item.get("id") == asked["id"] for item in inputs)


def _unusable(path: Path, problem: str, editor: Editor, wanted: Wanted) -> ConfigError:
    name = "" if wanted.name == "gaia-bridge" else f" --name {wanted.name}"
    return ConfigError(
        str(path), f"cannot be changed: {problem}", f"paste what gaia-bridge install {editor.name}{name} --print shows"
    )


def _without(editor: Editor, text: str, document: JSON, name: str, record: Installed | None) -> str:
    codec = _codec(editor)
    text = codec.take(text, (editor.root, name))
    if record is None or codec is toml_tables:
        return text
    text = _without_input(text, document, record)
    if record.new_root and jsonc.read(text).get(editor.root) == {}:
        text = jsonc.take(text, (editor.root,))
    return text


def _without_input(text: str, document: JSON, record: Installed) -> str:
    """Return the text without the input that was added for the bridge, and without the list that was created for it."""
    inputs = document.get(_INPUTS)
    if record.asked is None or not is_array(inputs):
        return text
    numbers = [place for place, item in enumerate(inputs) if is_object(item) and item.get("id") == record.asked]
    if numbers:
        text = jsonc.take(text, (_INPUTS, numbers[0]))
    if record.new_inputs and jsonc.read(text).get(_INPUTS) == []:
        text = jsonc.take(text, (_INPUTS,))
    return text


def _continued(
    record: Installed, records: dict[str, Installed], name: str, before: bytes | None, asks: bool
) -> Installed:
    """Return a record that keeps, for a file that was written before, the facts about its original state."""
    for other in records.values():
        record = replace(
            record,
            new_file=record.new_file or other.new_file,
            new_root=record.new_root or other.new_root,
            new_inputs=record.new_inputs or other.new_inputs,
            folders=record.folders or other.folders,
        )
    old = records.get(name)
    if old is None:
        return record
    asked = record.asked or (old.asked if asks else None)
    return replace(record, backup=old.backup if old.after == _digest(before) else None, asked=asked)


def _replace(change: FileChange, files: InstalledFiles, shared: bool) -> None:
    after = change.after
    assert after is not None

    def changed(content: bytes | None, status: os.stat_result | None) -> bytes:
        if content != change.before:
            raise _changed_meanwhile(change.path)
        return after

    edit_file(change.path, changed, limit=2 * MAX_BYTES, shared=shared, lock=files.lock)


def _delete(change: FileChange) -> None:
    """Remove a file that was created for the bridge alone, and the folders that were."""
    if _content(change.path) != change.before:
        raise _changed_meanwhile(change.path)
    try:
        os.unlink(change.path)
    except OSError as error:
        raise ConfigError(str(change.path), f"cannot be removed: {error.strerror}") from None
    for folder in change.record.folders if change.record is not None else ():
        try:
            os.rmdir(folder)
        except OSError:  # others keep files in the folder
            return


def _changed_meanwhile(path: Path) -> ConfigError:
    return ConfigError(str(path), "was changed by somebody else just now", "run the command again; nothing was changed")


def _missing_folders(path: Path) -> tuple[str, ...]:
    """Return the folders that have to be created for a file, the innermost first."""
    return tuple(str(folder) for folder in path.parents if not folder.exists())


def _digest(content: bytes | None) -> str:
    return hashlib.sha256(b"" if content is None else content).hexdigest()
