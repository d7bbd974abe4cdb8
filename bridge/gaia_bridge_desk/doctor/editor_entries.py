"""What the files of editors say of the bridge: read, and taken apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from gaia_bridge.config.expansion import texts_in
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.doctor.surroundings import Surroundings
from gaia_bridge_desk.editors.entries import is_ours
from gaia_bridge_desk.editors.finding import file_of
from gaia_bridge_desk.editors.formats import EDITORS, Editor, Place
from gaia_bridge_desk.editors.installed import Installed, InstalledFiles
from gaia_bridge_desk.editors.installing import MAX_BYTES, document_of, text_of

__all__ = ["BrokenFile", "EditorEntry", "editor_entries"]

_MODULE: Final = (("-m", "gaia_bridge"), ("-P", "-m", "gaia_bridge"))


class EditorEntry(Struct, frozen=True):
    """One entry of the bridge in the file of an editor.

    Args:
        editor: Whose file.
        place: Which of them.
        path: The file.
        name: What the bridge is called in it.
        entry: The entry.
        by_us: Whether `gaia-bridge install` wrote it.
    """

    editor: Editor
    place: Place
    path: Path
    name: str
    entry: JSON
    by_us: bool

    @property
    def words(self) -> list[str]:
        """Its command line; empty if it is an address."""
        command, args = self.entry.get("command"), self.entry.get("args")
        words: list[Any] = [*command] if is_array(command) else [command] if isinstance(command, str) else []
        return [word for word in (*words, *(args if is_array(args) else ())) if isinstance(word, str)]

    @property
    def program(self) -> list[str]:
        """The part of its command line that is the program: one word, or Python and the module."""
        words = self.words
        length = next((len(module) for module in _MODULE if tuple(words[1 : 1 + len(module)]) == module), 0)
        return words[: 1 + length]

    @property
    def arguments(self) -> list[str]:
        """The rest of its command line."""
        return self.words[len(self.program) :]

    @property
    def search_path(self) -> str:
        """Where its program looks for others, if it says so itself; else empty."""
        for key in ("env", "environment"):
            variables = self.entry.get(key)
            if is_object(variables) and isinstance(path := variables.get("PATH"), str) and "$" not in path:
                return path
        return ""

    @property
    def url(self) -> str:
        """Its address; empty if it is a program."""
        found = (self.entry.get(key) for key in ("url", "serverUrl", "httpUrl"))
        return next((url for url in found if isinstance(url, str)), "")

    @property
    def port(self) -> int | None:
        """The port of this machine that it leads to, if it does."""
        try:
            parts = urlsplit(self.url)
            return parts.port if is_loopback_host(parts.hostname or "") else None
        except ValueError:
            return None

    @property
    def socket(self) -> str:
        """The socket that it leads to, if it does."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return ""
        return parts.path if parts.scheme == "unix" else ""


class BrokenFile(Struct, frozen=True):
    """A file of an editor that cannot be read.

    Args:
        editor: Whose file.
        path: The file.
        problem: Why not.
    """

    editor: Editor
    path: Path
    problem: str


def editor_entries(at: Surroundings) -> tuple[list[EditorEntry], list[BrokenFile]]:
    """The entries of the bridge in all files of editors, and the files that cannot be read.

    Args:
        at: Where.
    """
    entries: list[EditorEntry] = []
    broken: list[BrokenFile] = []
    seen: set[str] = set()
    for editor, place in _places():
        try:
            path = file_of(place, at.environ, at.platform)
        except ConfigError:  # there is no home folder, or no current one, which other subjects tell
            continue
        if (real := f"{editor.root} {os.path.realpath(path)}") in seen or not os.path.lexists(path):
            continue
        seen.add(real)  # several programs share a file
        try:
            servers = _servers(editor, path)
        except ConfigError as error:
            broken.append(BrokenFile(editor, path, str(error)))
        else:
            entries += _ours(editor, place, path, servers)
    return entries, broken


def _places() -> Iterator[tuple[Editor, Place]]:
    for editor in EDITORS:
        for place in editor.places:
            yield editor, place


def _servers(editor: Editor, path: Path) -> JSON:
    """The servers of a file.

    Raises:
        ConfigError: It cannot be read.
    """
    content, _ = read_bytes(path, MAX_BYTES)
    servers = document_of(editor, path, text_of(path, content)).get(editor.root, {})
    if not is_object(servers):
        raise ConfigError(str(path), f"its {editor.root!r} is no object of servers")
    if any("\0" in text for text in texts_in(servers)):  # which the system takes in no path
        raise ConfigError(str(path), "an entry has a zero byte in it, which no program can be given")
    return servers


def _ours(editor: Editor, place: Place, path: Path, servers: JSON) -> Iterator[EditorEntry]:
    known = _remembered(path)
    for name, entry in servers.items():
        if is_object(entry) and (name in known or is_ours(entry)):
            yield EditorEntry(editor, place, path, name, entry, name in known)


def _remembered(path: Path) -> dict[str, Installed]:
    """What `install` remembers of a file; nothing, if that cannot be read, which is a finding of its own."""
    try:
        return InstalledFiles().of(path)
    except ConfigError:
        return {}
