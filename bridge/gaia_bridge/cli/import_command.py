"""`gaia-bridge import`: takes over the servers that an editor, or any file of one, lists."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge.cli.install import complete_editor, known_editor
from gaia_bridge.cli.servers.asked_secrets import keeper_for, sealed, secrets_option, with_asked
from gaia_bridge.cli.servers.common import config_option
from gaia_bridge.cli.servers.container_variables import with_container_variables
from gaia_bridge.cli.servers.keeping import KeptIn, keep
from gaia_bridge.cli.servers.kept_secrets import replaced, secrets_in
from gaia_bridge.cli.servers.pasted_entries import server_name
from gaia_bridge.cli.servers.variable_files import with_variable_file
from gaia_bridge.config import ServersConfig, current_folder, launch_line_text
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import home_folder
from gaia_bridge.editors.finding import editor_called, file_of
from gaia_bridge.editors.formats import EDITORS, Editor, FileKind, Scope
from gaia_bridge.editors.installing import MAX_BYTES, text_of
from gaia_bridge.editors.jsonc import EditError
from gaia_bridge.editors.reading import Found, Surroundings, servers_of_text
from gaia_bridge.errors import BridgeError, ConfigError
from gaia_bridge.sanitize.escaping import one_line, printable
from gaia_bridge.sanitize.redaction import MASK

__all__ = ["import_servers"]

_WORKSPACE_FOLDERS = frozenset({".vscode", ".cursor", ".zed", ".codex", ".gemini", ".roo", ".devcontainer"})
"""Folders of a project whose files belong to the folder above."""


class _Source(Struct, frozen=True):
    """A text with servers.

    Args:
        label: Where it comes from, for people.
        text: What it says.
        around: What its references stand for.
        folder: Where relative paths begin.
        toml: Whether it is TOML.
    """

    label: str
    text: str
    around: Surroundings
    folder: Path
    toml: bool = False


@click.command("import", short_help="Take over the servers that an editor has.")
@click.argument("source", required=False, metavar="[EDITOR|FILE|-]", shell_complete=complete_editor)
@click.option("--only", multiple=True, metavar="NAME", help="Take this server alone; repeatable.")
@secrets_option
@click.option("--local/--global", "local", default=None, help="Into ./mcp_servers.json, or ~/.gaia/mcp_servers.json.")
@click.option("--force", is_flag=True, help="Replace entries of the same name.")
@click.option("--dry-run", is_flag=True, help="Show what would be taken, and change nothing.")
@config_option
def import_servers(
    source: str | None,
    only: tuple[str, ...],
    secrets: str | None,
    local: bool | None,
    force: bool,
    dry_run: bool,
    config: Path | None,
) -> int:
    """Take over the servers that an editor has, or that any file of one lists, into the configuration.

    Comments, inputs, files of variables and references are understood as that editor means them. The bridge itself is
    left out, and so is what has a name that is taken. The servers are not tried; the editor's file stays as it is.

    Without EDITOR, it is shown what each editor has.
    """
    if source is None:
        return _show_all()
    sources = list(_sources(source))
    found = [(each, server) for each in sources for server in _servers(each)]
    unknown = set(only) - {server.name for _, server in found}
    if unknown:
        raise ConfigError(source, f"lists no server {min(unknown)!r}", f"it lists: {_names(found)}")
    if not found:
        raise ConfigError(source, "lists no servers", 'expected {"mcpServers": {NAME: {"command": ...}}}, or alike')
    taken = [
        (each, server)
        for each, server in found
        if (not only or server.name in only) and _is_taken(server, config, force)
    ]
    place = KeptIn(config, local, force, untried=True)
    if dry_run:
        for each, server in taken:
            _show(server.name, _prepared(each, server).entry, server, dry=True)
        return ExitCode.OK
    prepared = [(each, _prepared(each, server)) for each, server in taken]
    keeper = keeper_for(secrets, {server.name: server.entry for _, server in prepared}, "taken")
    return _keep_all(prepared, keeper, place)


def _keep_all(prepared: list[tuple[_Source, Found]], keeper: str, place: KeptIn) -> int:
    """Keep each server; the exit code of the first that could not be."""
    failed: BridgeError | None = None
    for each, server in prepared:
        name = server_name(server.name)
        try:
            entry = with_asked(name, sealed(name, server.entry, keeper), server.inputs, keeper)
            _show(name, entry, server)
            keep(name, entry, replace(place, folder=each.folder), False)
        except BridgeError as error:
            click.echo(f"error: {printable(one_line(str(error)), None)}", err=True)
            failed = failed or error
    return ExitCode.OK if failed is None else exit_code_of(failed)


def _show_all() -> int:
    """Show what the files of editors list."""
    from gaia_bridge.cli.servers.common import print_rows

    rows: list[tuple[str, ...]] = []
    for editor in EDITORS:
        for each in _of_editor(editor):
            try:
                names = ", ".join(server.name for server in _servers(each) if not server.is_ours)
            except ConfigError as error:
                names = f"error: {error}"
            rows.append((editor.name, names or "none", each.label))
    if not rows:
        click.echo("no editor has a file with servers", err=True)
        return ExitCode.OK
    print_rows(("EDITOR", "SERVERS", "FILE"), rows)
    click.echo("gaia-bridge import EDITOR takes them over")
    return ExitCode.OK


def _sources(source: str) -> Iterator[_Source]:
    """What a word stands for: standard input, a file, or the files of an editor.

    Raises:
        ConfigError: There is no such file.
        click.UsageError: It is neither.
    """
    if source == "-":
        folder = current_folder()
        around = Surroundings(str(home_folder()), str(folder))
        yield _Source("standard input", sys.stdin.read(), around, folder)
        return
    path = Path(source)
    if editor_called(source) is None and (path.exists() or "/" in source or path.suffix in (".json", ".toml")):
        yield _of_file(path)
        return
    editor = known_editor(source)
    sources = list(_of_editor(editor))
    if not sources:
        where = ", ".join(str(file_of(place)) for place in editor.places) or "its files cannot be read by others"
        raise ConfigError(editor.title, "has no file with servers here", where)
    yield from sources


def _of_editor(editor: Editor) -> Iterator[_Source]:
    """The files of an editor that are there."""
    for place in editor.places:
        path = file_of(place)
        if not path.exists():
            continue
        in_workspace = place.scope is Scope.WORKSPACE
        folder = current_folder() if in_workspace else home_folder()
        around = Surroundings(
            str(home_folder()),
            str(folder) if in_workspace else None,
            editor.shape_in(place),
            bare=editor.name == "gemini-cli",
            project=str(current_folder()) if editor.name == "claude-code" else None,
        )
        yield _Source(str(path), _text(path), around, folder, editor.kind is FileKind.TOML)


def _of_file(path: Path) -> _Source:
    folder = path.absolute().parent
    if folder.name in _WORKSPACE_FOLDERS:
        folder = folder.parent
    around = Surroundings(str(home_folder()), str(folder))
    return _Source(str(path), _text(path), around, folder, path.suffix == ".toml")


def _text(path: Path) -> str:
    return text_of(path, read_bytes(path, MAX_BYTES)[0])


def _servers(source: _Source) -> list[Found]:
    """The servers that a text lists.

    Raises:
        ConfigError: It is not well-formed.
    """
    try:
        return servers_of_text(source.text, source.around, toml=source.toml)
    except EditError as error:
        kind = "TOML" if source.toml else "JSON"
        raise ConfigError(source.label, f"is not valid {kind}: {error}") from None


def _names(found: list[tuple[_Source, Found]]) -> str:
    return ", ".join(one_line(server.name, 60) for _, server in found) or "none"


def _is_taken(server: Found, config: Path | None, force: bool) -> bool:
    """Whether a server is taken over; if not, that is said."""
    reason = server.problem
    if server.is_ours:
        reason = "it is this bridge itself"
    elif reason is None and not force and (name := server_name(server.name)) in ServersConfig(config).entries:
        reason = f"there is a server {name!r} already; --force replaces it"
    if reason is None:
        return True
    click.echo(printable(f"{server.name} is left out: {reason}", None), err=True)
    return False


def _show(name: str, entry: Mapping[str, object], server: Found, *, dry: bool = False) -> None:
    """Show what is taken, and what is not; secrets are masked."""
    shown = dict(entry)
    for secret in secrets_in(shown):  # arguments and addresses, too
        shown = replaced(shown, secret, MASK)
    lines = launch_line_text(shown).splitlines()
    click.echo(f"{printable(name, None)}: {lines[0]}", err=not dry)
    for line in lines[1:]:
        click.echo(f"  {line}", err=not dry)
    for note in server.notes:
        click.echo(printable(f"  note: {note}", None), err=not dry)
    for variable, about in server.inputs.items():
        if f"${{env:{variable}}}" in str(entry):
            click.echo(printable(f"  note: set {variable}, which the editor asked for: {about}", None), err=not dry)


def _prepared(source: _Source, server: Found) -> Found:
    """A server with the variables that it takes from elsewhere: from a file, or by name alone."""
    found = with_variable_file(server, source.folder)
    return replace(found, entry=with_container_variables(found.entry)[0])
