"""The files from which servers are taken over: whose they are, and what they list and switch off."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config import current_folder
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.install import known_editor
from gaia_bridge_cli.servers.container_variables import with_container_variables
from gaia_bridge_cli.servers.variable_files import with_variable_file
from gaia_bridge_desk.editors.exclusions import exclusions_in, with_approval_noted, without_excluded
from gaia_bridge_desk.editors.finding import editor_called, file_of, place_of
from gaia_bridge_desk.editors.installing import MAX_BYTES, text_of
from gaia_bridge_desk.editors.jsonc import EditError
from gaia_bridge_desk.editors.reading import Found, Surroundings, document_of, servers_of
from gaia_bridge_desk.editors.table import EDITORS, Editor, FileKind, Place, Scope

_WORKSPACE_FOLDERS = {".devcontainer"} | {
    place.folder.removeprefix("./") for editor in EDITORS for place in editor.places if place.scope is Scope.WORKSPACE
}
"""Folders of a project whose files belong to the folder above."""


class Source(Struct, frozen=True):
    """A document with servers.

    Args:
        label: Where it comes from, for people.
        document: What it says.
        around: What its references stand for.
        folder: Where relative paths begin.
        is_own: Whether it is a file of the user's own editor; else a stranger may have written it.
        editor: Whose file it is, if it is one that an editor reads.
        path: The file.
    """

    label: str
    document: JSON
    around: Surroundings
    folder: Path
    is_own: bool = False
    editor: Editor | None = None
    path: Path | None = None


def sources_of(word: str) -> list[Source]:
    """What a word stands for: standard input, a file, or the files of an editor.

    Args:
        word: `-`, a path, or the name of an editor.

    Raises:
        ConfigError: There is no such file, or it is not well-formed.
        click.UsageError: It is neither.
    """
    if word == "-":
        folder = current_folder()
        text = sys.stdin.read()
        around = Surroundings(str(home_folder()), str(folder))
        return [Source("standard input", _document("standard input", text, toml=False), around, folder)]
    if editor_called(word) is None and (
        os.path.exists(word) or "/" in word or os.path.splitext(word)[1] in (".json", ".jsonc", ".toml")
    ):
        return [_of_file(Path(word))]
    editor = known_editor(word)
    if sources := sources_of_editor(editor):
        return sources
    where = ", ".join(str(file_of(place)) for place in editor.places) or "its files cannot be read by others"
    raise ConfigError(editor.title, "has no file with servers here", where)


def sources_of_editor(editor: Editor) -> list[Source]:
    """The files of an editor that are there, each once."""
    paths = {file_of(place): place for place in reversed(editor.places)}
    return [_of_place(editor, paths[path], path) for path in reversed(paths) if os.path.exists(path)]


def servers_listed(sources: list[Source]) -> list[tuple[Source, Found]]:
    """The servers of files, as their editors mean them: what one of the files switches off is disabled."""
    found = [(each, server) for each in sources for server in servers_of(each.document, each.around)]
    names = [server.name for _, server in found]
    project = str(current_folder())
    together = {each.label: _documents(each, sources) for each in sources}
    exclusions = {
        label: [exclusion for document in documents for exclusion in exclusions_in(document, names, project)]
        for label, documents in together.items()
    }
    listed: list[tuple[Source, Found]] = []
    for each, server in found:
        server = without_excluded(_prepared(each, server), exclusions[each.label], in_project=not each.is_own)
        if not each.is_own and each.around.project and any(other.is_own for other in sources):
            server = with_approval_noted(server, together[each.label], project)
        listed.append((each, server))
    return listed


def _documents(source: Source, sources: list[Source]) -> list[JSON]:
    """The files of the editor of a source, which count together, with its settings."""
    documents = [each.document for each in sources if each is source or (each.editor and each.editor is source.editor)]
    return [*documents, *(_settings(source.editor) if source.editor else ())]


def _of_place(editor: Editor, place: Place, path: Path) -> Source:
    is_own = place.scope is not Scope.WORKSPACE
    folder = home_folder() if is_own else current_folder()
    around = Surroundings(
        str(home_folder()),
        None if is_own else str(folder),
        editor.shape_in(place),
        beside=str(path.parent) if is_own else None,
        project=str(current_folder()) if editor.has_projects else None,
    )
    document = _document(str(path), _text(path), toml=editor.kind is FileKind.TOML)
    return Source(str(path), document, around, folder, is_own, editor, path)


def _of_file(path: Path) -> Source:
    known = place_of(path)
    if known is not None and known[2]:
        return _of_place(known[0], known[1], Path(os.path.abspath(path)))
    folder = path.absolute().parent
    if folder.name in _WORKSPACE_FOLDERS:
        folder = folder.parent
    shape = None if known is None else known[0].shape_in(known[1])
    around = Surroundings(str(home_folder()), str(folder), shape)
    return Source(str(path), _document(str(path), _text(path), toml=path.suffix == ".toml"), around, folder, path=path)


def _settings(editor: Editor) -> Iterator[JSON]:
    """The further files of an editor that say what is switched off.

    Raises:
        ConfigError: One is there and cannot be read.
    """
    for place in editor.settings:
        path = file_of(place)
        if path.is_file():
            try:
                yield document_of(_text(path))
            except EditError as error:
                raise ConfigError(str(path), f"is not valid JSON: {error}", "it says which servers are off") from None


def _text(path: Path) -> str:
    return text_of(path, read_bytes(path, MAX_BYTES)[0])


def _document(label: str, text: str, *, toml: bool) -> JSON:
    """The document that a text is.

    Raises:
        ConfigError: It is not well-formed.
    """
    try:
        return document_of(text, toml=toml)
    except EditError as error:
        raise ConfigError(label, f"is not valid {'TOML' if toml else 'JSON'}: {error}") from None


def _prepared(source: Source, server: Found) -> Found:
    """A server with the variables that it takes from elsewhere: from a file, or by name alone."""
    if server.problem is not None or server.is_ours:
        return server
    found = with_variable_file(server, source.folder, own=source.is_own)
    return replace(found, entry=with_container_variables(found.entry)[0])
