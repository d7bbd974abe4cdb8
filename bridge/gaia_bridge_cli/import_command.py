"""`gaia-bridge import`: takes over the servers that are listed, and not switched off, in files of editors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config import ServersConfig, current_folder
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import BridgeError, ConfigError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import MASK
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge_cli.install import complete_editor, known_editor
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.asked_secrets import keeper_for, sealed, secrets_option, with_asked
from gaia_bridge_cli.servers.common import config_option, print_rows
from gaia_bridge_cli.servers.keeping import KeptIn, keep
from gaia_bridge_cli.servers.kept_secrets import replaced, secrets_in
from gaia_bridge_cli.servers.list_commands import address_of
from gaia_bridge_cli.servers.outside_variables import with_container_variables, with_variable_file
from gaia_bridge_cli.servers.typed_entries import server_name
from gaia_bridge_desk.editors.exclusions import exclusions_in, with_approval_noted, without_excluded
from gaia_bridge_desk.editors.finding import editor_called, file_of, place_of
from gaia_bridge_desk.editors.installing import MAX_BYTES, text_of
from gaia_bridge_desk.editors.jsonc import EditError
from gaia_bridge_desk.editors.reading import Found, ReferenceValues, document_of, servers_of
from gaia_bridge_desk.editors.table import EDITORS, Editor, FileKind, FilePlace, FileScope
from gaia_bridge_desk.review.foreign_entries import doubts
from gaia_bridge_desk.review.launch_lines import launch_line_text

_WORKSPACE_FOLDERS = {".devcontainer"} | {
    place.folder.removeprefix("./")
    for editor in EDITORS
    for place in editor.places
    if place.scope is FileScope.WORKSPACE
}
"""Folders of a project whose files belong to the folder above."""


class SourceDocument(Struct, frozen=True):
    """A document with servers.

    Args:
        label: Its origin, for people.
        document: The parsed document.
        around: The values that its references stand for.
        folder: The folder in which relative paths begin.
        is_own: Whether it is a file of the user's own editor; else a stranger may have written it.
        editor: The editor that reads the file, if one does.
        path: The file.
    """

    label: str
    document: JSON
    around: ReferenceValues
    folder: Path
    is_own: bool = False
    editor: Editor | None = None
    path: Path | None = None


def sources_of(word: str) -> list[SourceDocument]:
    """Return the documents that a word names: standard input, a file, or the files of an editor.

    Args:
        word: `-`, a path, or the name of an editor.

    Raises:
        ConfigError: There is no such file, or it is not well-formed.
        click.UsageError: The word is no file and no editor.
    """
    if word == "-":
        folder = current_folder()
        text = sys.stdin.read()
        around = ReferenceValues(str(home_folder()), str(folder))
        return [SourceDocument("standard input", _document("standard input", text, toml=False), around, folder)]
    if editor_called(word) is None and (
        os.path.exists(word) or "/" in word or os.path.splitext(word)[1] in (".json", ".jsonc", ".toml")
    ):
        return [_of_file(Path(word))]
    editor = known_editor(word)
    if sources := sources_of_editor(editor):
        return sources
    where = ", ".join(str(file_of(place)) for place in editor.places) or "its files cannot be read by others"
    raise ConfigError(editor.title, "has no file with servers here", where)


def sources_of_editor(editor: Editor) -> list[SourceDocument]:
    """Return the existing files of an editor, each once."""
    paths = {file_of(place): place for place in reversed(editor.places)}
    return [_of_place(editor, paths[path], path) for path in reversed(paths) if os.path.exists(path)]


def servers_listed(sources: list[SourceDocument]) -> list[tuple[SourceDocument, Found]]:
    """Return the servers of files as their editors use them: one that any of the files switches off is disabled."""
    servers = [(each, server) for each in sources for server in servers_of(each.document, each.around)]
    names = [server.name for _, server in servers]
    project = str(current_folder())
    together = {each.label: _documents(each, sources) for each in sources}
    exclusions = {
        label: [exclusion for document in documents for exclusion in exclusions_in(document, names, project)]
        for label, documents in together.items()
    }
    listed: list[tuple[SourceDocument, Found]] = []
    for each, server in servers:
        server = without_excluded(_prepared(each, server), exclusions[each.label], in_project=not each.is_own)
        if not each.is_own and each.around.project and any(other.is_own for other in sources):
            server = with_approval_noted(server, together[each.label], project)
        listed.append((each, server))
    return listed


def _documents(source: SourceDocument, sources: list[SourceDocument]) -> list[JSON]:
    """Return all documents of the editor of a source, which apply together, with its settings."""
    documents = [each.document for each in sources if each is source or (each.editor and each.editor is source.editor)]
    return [*documents, *(_settings(source.editor) if source.editor else ())]


def _of_place(editor: Editor, place: FilePlace, path: Path) -> SourceDocument:
    is_own = place.scope is not FileScope.WORKSPACE
    folder = home_folder() if is_own else current_folder()
    around = ReferenceValues(
        str(home_folder()),
        None if is_own else str(folder),
        editor.shape_in(place),
        beside=str(path.parent) if is_own else None,
        project=str(current_folder()) if editor.has_projects else None,
    )
    document = _document(str(path), _text(path), toml=editor.kind is FileKind.TOML)
    return SourceDocument(str(path), document, around, folder, is_own, editor, path)


def _of_file(path: Path) -> SourceDocument:
    place = place_of(path)
    if place is not None and place[2]:
        return _of_place(place[0], place[1], Path(os.path.abspath(path)))
    folder = path.absolute().parent
    if folder.name in _WORKSPACE_FOLDERS:
        folder = folder.parent
    shape = None if place is None else place[0].shape_in(place[1])
    around = ReferenceValues(str(home_folder()), str(folder), shape)
    return SourceDocument(
        str(path), _document(str(path), _text(path), toml=path.suffix == ".toml"), around, folder, path=path
    )


def _settings(editor: Editor) -> Iterator[JSON]:
    """Yield the further files of an editor, which switch servers off.

    Raises:
        ConfigError: One of them exists and cannot be read.
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
    """Parse a document.

    Raises:
        ConfigError: The text is not well-formed.
    """
    try:
        return document_of(text, toml=toml)
    except EditError as error:
        raise ConfigError(label, f"is not valid {'TOML' if toml else 'JSON'}: {error}") from None


def _prepared(source: SourceDocument, server: Found) -> Found:
    """Return a server with the variables that it takes from a file, or from the environment by name."""
    if server.problem is not None or server.is_ours:
        return server
    complete = with_variable_file(server, source.folder, own=source.is_own)
    return replace(complete, entry=with_container_variables(complete.entry)[0])


Taken = list[tuple[SourceDocument, Found]]

_SHOWN = 60
"""Characters of an address or a command line in the table; the whole is shown below the table where it matters."""


@click.command("import", short_help="Take over the servers that an editor has.")
@click.argument("source", required=False, metavar="[EDITOR|FILE|-]", shell_complete=complete_editor)
@click.option("--only", multiple=True, metavar="NAME", help="Take this server alone; repeatable.")
@click.option(
    "--project-file",
    "named",
    multiple=True,
    metavar="FILE",
    help="Take the servers of this file of a project without a question for each; repeatable.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask; what is taken is shown all the same.")
@click.option("--no-connect", is_flag=True, help="Do not try whether they work.")
@secrets_option
@click.option("--local/--global", "local", default=None, help="Into ./mcp_servers.json, or ~/.gaia/mcp_servers.json.")
@click.option("--force", is_flag=True, help="Replace entries of the same name.")
@click.option("--dry-run", is_flag=True, help="Show what would be taken, and change nothing.")
@config_option
def import_servers(
    source: str | None,
    only: tuple[str, ...],
    named: tuple[str, ...],
    yes: bool,
    no_connect: bool,
    secrets: str | None,
    local: bool | None,
    force: bool,
    dry_run: bool,
    config: Path | None,
) -> int:
    """Take over the servers that an editor has, or that any file of one lists, into the configuration.

    Comments, inputs, files of variables and references are read as by that editor, and servers that it has switched off
    stay off. The servers are shown first, and taken after a question: those of your own files at once, and each one of
    a project's file, a file that you name or a pasted text by itself, as a stranger may have written it. Then each is
    tried. The bridge itself is left out, and so are servers whose name is taken. The editor's file stays as it is.

    Without EDITOR, the servers of each editor are shown.
    """
    if source is None:
        return _show_all()
    sources = sources_of(source)
    _refuse_strange(named, sources)
    listed = servers_listed(sources)
    unknown = set(only) - {server.name for _, server in listed}
    if unknown:
        raise ConfigError(source, f"lists no server {min(unknown)!r}", f"it lists: {_names(listed)}")
    if not listed:
        raise ConfigError(source, "lists no servers", 'expected {"mcpServers": {NAME: {"command": ...}}}, or alike')
    wanted = [(each, server) for each, server in listed if not only or server.name in only]
    taken = _without_left_out(wanted, config, force)
    if taken:
        print_rows(("NAME", "SERVER", "FILE", "STATE"), [_row(each, server) for each, server in taken])
    if dry_run:
        for _, server in taken:
            _show(server, server.entry, whole=True, dry=True)
        return ExitCode.OK
    names_itself = {os.path.abspath(path) for path in (*named, *([source] if yes else ()))}
    agreed = _agreed(taken, names_itself, yes=yes or not taken)
    if taken and not agreed:
        click.echo("nothing was taken", err=True)
    keeper = keeper_for(secrets, {server.name: server.entry for _, server in agreed}, "taken")
    kept, code = _keep_all(agreed, keeper, KeptIn(config, local, force, untried=True))
    if kept and not no_connect:
        _try(ServersConfig(config), kept)
    return code


def _refuse_strange(named: tuple[str, ...], sources: list[SourceDocument]) -> None:
    """Refuse a `--project-file` that is not among the files that are read.

    Raises:
        ConfigError: There is one; the message names the files that are read.
    """
    paths = {os.path.abspath(each.path): each.label for each in sources if each.path is not None}
    if strange := [path for path in named if os.path.abspath(path) not in paths]:
        raise ConfigError("--project-file", f"{strange[0]} is not read", f"read are: {', '.join(paths.values())}")


def _agreed(taken: Taken, named: set[str], *, yes: bool) -> Taken:
    """Return the servers that the user wants: all or none of the user's own files, and each agreed one of other files.

    Args:
        taken: The servers.
        named: The paths of others' files that the user has named for this.
        yes: Whether to take the user's own servers without a question.

    Raises:
        NobodyToAskError: A question is needed, and there is no terminal.
    """
    own = [(each, server) for each, server in taken if each.is_own]
    others = [(each, server) for each, server in taken if not each.is_own]
    unnamed = {each.label for each, _ in others if not _is_named(each, named, yes=yes)}
    asks = can_ask()
    nothing = not (own and yes) and all(each.label in unnamed for each, _ in others)
    if not asks and taken and nothing:
        for _, server in taken:
            _show(server, server.entry, whole=True)
        hint = "" if not unnamed else f"; of {', '.join(sorted(unnamed))}, {_how_to_name(others)}"
        raise NobodyToAskError(
            printable(f"nothing was taken: there is no terminal to ask on; --yes takes what is shown{hint}", None)
        )
    for _, server in own:
        _show(server, server.entry, whole=False)
    agreed = own if yes or (own and click.confirm(_question(own), default=True, err=True)) else []
    for each, server in others:
        _show(server, server.entry, whole=True)
        question = f"{printable(each.label)} may be by somebody else. Take {printable(server.name)}?"
        if each.label not in unnamed or (asks and click.confirm(question, default=False, err=True)):
            agreed.append((each, server))
        else:
            reason = "" if asks else f": {_how_to_name(others)}"
            click.echo(printable(f"{server.name} of {each.label} is left out{reason}", None), err=True)
    return agreed


def _is_named(source: SourceDocument, named: set[str], *, yes: bool) -> bool:
    return yes if source.path is None else os.path.abspath(source.path) in named


def _how_to_name(others: Taken) -> str:
    if any(each.path is None for each, _ in others):
        return "which may be by somebody else, say --yes as well"
    return "which may be by somebody else, --project-file FILE takes the servers without a question"


def _question(own: Taken) -> str:
    count = len(own)
    return f"Take {'this server' if count == 1 else f'these {count} servers'} of your own files?"


def _keep_all(agreed: Taken, keeper: str, place: KeptIn) -> tuple[list[str], int]:
    """Keep each server.

    Returns:
        The servers that were kept and are not disabled, and the exit code of the first failure.
    """
    failed: BridgeError | None = None
    kept: list[str] = []
    for each, server in agreed:
        name = server_name(server.name)
        try:
            entry = with_asked(name, sealed(name, server.entry, keeper), server.inputs, keeper)
            keep(name, entry, replace(place, folder=each.folder), False)
        except BridgeError as error:
            click.echo(f"error: {printable(one_line(str(error)), None)}", err=True)
            failed = failed or error
            continue
        for variable, about in server.inputs.items():
            if f"${{env:{variable}}}" in str(entry):
                click.echo(printable(f"note: set {variable}, which the editor asked for: {about}", None), err=True)
        if entry.get("disabled") is not True:
            kept.append(name)
    return kept, ExitCode.OK if failed is None else exit_code_of(failed)


def _try(servers: ServersConfig, kept: list[str]) -> None:
    """Report which servers work; one that does not is kept all the same, as it may work later."""
    with imported_for_good():
        from gaia_bridge_cli.servers.trying import tried

    rows: list[tuple[str, ...]] = list(tried(servers, kept).items())
    print_rows(("NAME", "TRIED"), rows)


def _show_all() -> int:
    """Show the servers that the files of editors list."""
    rows: list[tuple[str, ...]] = []
    for editor in EDITORS:
        try:
            for each in sources_of_editor(editor):
                names = [server.name for _, server in servers_listed([each]) if not server.is_ours]
                rows.append((editor.name, ", ".join(names) or "none", each.label))
        except ConfigError as error:
            rows.append((editor.name, f"error: {error}", ""))
    if not rows:
        click.echo("no editor has a file with servers", err=True)
        return ExitCode.OK
    print_rows(("EDITOR", "SERVERS", "FILE"), rows)
    click.echo("gaia-bridge import EDITOR takes them over")
    return ExitCode.OK


def _names(servers: Taken) -> str:
    return ", ".join(one_line(server.name, 60) for _, server in servers) or "none"


def _without_left_out(servers: Taken, config: Path | None, force: bool) -> Taken:
    """Return the servers that can be taken over; for each other one, the reason is printed."""
    taken: Taken = []
    names = set(ServersConfig(config).entries) if not force else set[str]()
    labels: dict[str, str] = {}
    for each, server in servers:
        name = server_name(server.name)
        reason = server.problem
        if server.is_ours:
            reason = "it is this bridge itself"
        elif reason is None and name in names:
            reason = f"there is a server {name!r} already; --force replaces it"
        elif reason is None and name in labels:
            reason = f"{labels[name]} lists a server of that name, which is taken"
        if reason is None:
            labels[name] = each.label
            taken.append((each, server))
        else:
            click.echo(printable(f"{server.name} is left out: {reason}", None), err=True)
    return taken


def _row(source: SourceDocument, server: Found) -> tuple[str, ...]:
    state = "disabled" if server.entry.get("disabled") is True else "active"
    return server.name, one_line(address_of(server.entry), _SHOWN), source.label, state


def _show(server: Found, entry: JSON, *, whole: bool, dry: bool = False) -> None:
    """Show a server's launch line, the parts that cannot be taken over, and warnings; secrets are masked."""
    shown = dict(entry)
    for secret in secrets_in(shown):  # arguments and addresses, too
        shown = replaced(shown, secret, MASK)
    lines = launch_line_text(shown).splitlines() if whole else []
    notes = [*(f"note: {note}" for note in server.notes), *(f"warning: {doubt}" for doubt in doubts(shown))]
    if lines or notes:
        click.echo(printable(f"{server.name}: {lines[0] if lines else ''}".rstrip(), None), err=not dry)
    for line in (*lines[1:], *notes):
        click.echo(printable(f"  {line}", None), err=not dry)
