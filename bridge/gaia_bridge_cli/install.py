"""`gaia-bridge install`: puts the bridge into the file of an editor, and takes it out again."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from gaia_bridge.config import ServersConfig, current_folder
from gaia_bridge.config.documents import is_disabled
from gaia_bridge.config.paths import default_servers_path
from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.errors import BridgeError, ConfigError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import is_object
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge_cli.options import agent_option, agents_argument, no_servers_option, refuse_both
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.remembered_path import remember_search_path
from gaia_bridge_daemon.front.place import Place, PlaceError, Scope, runtime_folder
from gaia_bridge_daemon.front.program import is_agent
from gaia_bridge_desk.editors.entries import address_entry, program_entry, token_input
from gaia_bridge_desk.editors.finding import editor_called, file_of, is_here, own_program, usual_place
from gaia_bridge_desk.editors.installing import (
    FileChange,
    Wanted,
    document_of,
    plan_install,
    plan_remove,
    snippet,
    text_of,
    write,
)
from gaia_bridge_desk.editors.table import BY_HAND, EDITORS, Editor, FilePlace, FileScope
from gaia_bridge_desk.editors.vscode import SERVER_NAME, TOKEN_VARIABLE

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that no editor refuses: Codex and Claude Code accept no others."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TOKEN_INPUT = "gaia-bridge-token"

_SHIPPED = {
    "connect": "Until then it has the agents that ship, code and project: they work in the folder open in each window",
    "unix": (
        "Until then it has agents that work in the folder of a window, of which a socket tells nothing: leave out "
        "--unix, or name an agent"
    ),
    "stdio": (
        "Until then it has the agents that ship, code and project, which work in the folder where the editor starts "
        "it, and not in the home folder: without --stdio they work in the folder open in each window"
    ),
}
"""The hint for a user without servers, by the way to reach the bridge."""


class _InstallOptions(Struct, frozen=True):
    """The way in which an editor is to reach the bridge.

    Args:
        way: `connect`, `stdio`, `http` or `unix`.
        name: The bridge's name there.
        scope: The scope of the bridge.
        url: The bridge's address, if the editor does not start it.
        auth: Whether the bridge asks for a token.
        variable: The variable that holds the token, if the editor is not to ask for it.
    """

    way: str
    name: str
    scope: Scope
    url: str
    auth: bool
    variable: str | None

    @property
    def asks(self) -> bool:
        """Whether the editor is to ask the user for the token, if it can."""
        return self.auth and self.variable is None

    @property
    def token_variable(self) -> str | None:
        """The variable that holds the token otherwise."""
        return self.variable or (TOKEN_VARIABLE if self.auth else None)


def complete_editor(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the editors whose names begin with a text, for a shell."""
    return [editor.name for editor in EDITORS if editor.name.startswith(incomplete)]


def known_editor(name: str) -> Editor:
    """Return the editor of that name.

    Raises:
        click.UsageError: There is no such editor.
    """
    import difflib

    if (editor := editor_called(name)) is not None:
        return editor
    names = [editor.name for editor in EDITORS]
    close = difflib.get_close_matches(name.lower(), names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"
    raise click.UsageError(f"{one_line(name, 40)!r} is no editor that is known; {hint}")


@click.command(short_help="Put the bridge into the configuration of an editor.")
@click.argument("editor", required=False, shell_complete=complete_editor)
@agents_argument
@click.option("--user", "scope", flag_value="user", help="For all folders.  [default, where the editor has that]")
@click.option("--workspace", "scope", flag_value="workspace", help="For the current folder.")
@click.option("--remote", "scope", flag_value="remote", help="For VS Code that works on this machine from another one.")
@click.option("--stdio", "way", flag_value="stdio", help="A bridge of its own for each window.")
@click.option("--http", "way", flag_value="http", help="A bridge that you have started: gaia-bridge serve")
@click.option("--unix", "way", flag_value="unix", help="The socket of `gaia-bridge up`, without a front.")
@agent_option
@click.option("--config", metavar="PATH", help="Publish the servers of this file.  [default: ~/.gaia/mcp_servers.json]")
@no_servers_option
@click.option("--url", metavar="URL", help=f"With --http: where.  [default: http://{DEFAULT_HOST}:{DEFAULT_PORT}/mcp]")
@click.option("--auth", is_flag=True, help="With --http: it asks for a token (serve --auth).")
@click.option("--token-variable", metavar="NAME", help="The same; the token is in this variable, and nobody is asked.")
@click.option("--name", default=SERVER_NAME, show_default=True, help="What the bridge is called there.")
@click.option("--all", "everywhere", is_flag=True, help="Every editor that is installed.")
@click.option("--remove", is_flag=True, help="Take it out again.")
@click.option("--print", "only_print", is_flag=True, help="Print what would be put in, and write nothing.")
@click.option("--link", is_flag=True, help="Print links that put it in: VS Code and Cursor.")
@click.option("--yes", is_flag=True, help="Do not ask; the change is shown all the same.")
def install(
    editor: str | None,
    agents: tuple[str, ...],
    scope: str | None,
    way: str | None,
    more: tuple[str, ...],
    config: str | None,
    servers: bool,
    url: str | None,
    auth: bool,
    token_variable: str | None,
    name: str,
    everywhere: bool,
    remove: bool,
    only_print: bool,
    link: bool,
    yes: bool,
) -> int:
    """Put the bridge into the configuration of an editor.

    The editor is given `gaia-bridge connect`, by its whole path: one bridge in the background for all windows of all
    editors. It publishes AGENT (file.py[:Class], a folder, module:Class or an installed agent) and the configured
    servers. The change to the file is shown before it is written, and the old file is kept in ~/.gaia/backups.

    Without EDITOR, the editors are listed.
    """
    refuse_both(config, servers)
    editor, agents = _told_apart(editor, (*agents, *more), everywhere)
    if link and everywhere:
        raise click.UsageError("--link is for one editor: name it, and leave out --all")
    _refuse_odd(name, url, auth, token_variable, with_address=way == "http")
    wanted_scope = None if scope is None else FileScope(scope)
    if way == "http" and (agents or config or not servers):
        options = [*(["--config", config] if config else []), *([] if servers else ["--no-servers"]), *agents]
        words = shlex.join(options)
        raise click.UsageError(
            f"with --http, leave out {words} here; name it where you start the bridge: gaia-bridge serve {words}"
        )
    how = _InstallOptions(
        way or "connect", name, _published(agents, config, servers), url or _usual_url(), auth, token_variable
    )
    if editor is None and not everywhere:
        return _list_editors()
    chosen = [known_editor(editor)] if editor is not None else _editors_here(wanted_scope)
    if only_print or link:
        for each in chosen:
            (_print_links if link else _print)(each, how, usual_place(each, wanted_scope))
        return ExitCode.OK
    failed: BridgeError | None = None
    for each in chosen:
        try:
            _install(each, how, wanted_scope, remove=remove, yes=yes)
        except BridgeError as error:
            if len(chosen) == 1:
                raise
            click.echo(printable(f"error: {one_line(str(error), 2_000)}", None), err=True)
            failed = failed or error
    return ExitCode.OK if failed is None else exit_code_of(failed)


def _told_apart(editor: str | None, agents: tuple[str, ...], everywhere: bool) -> tuple[str | None, tuple[str, ...]]:
    """Return the editor, if one is named, and the agents.

    Raises:
        click.UsageError: The words are in another order, or contradict each other.
    """
    if editor is not None and is_agent(editor):
        agents = (editor, *agents)
        if not everywhere:
            raise click.UsageError(f"the editor comes first: gaia-bridge install EDITOR {shlex.join(agents)}")
        return None, agents
    if editor is not None and everywhere:
        raise click.UsageError(f"--all is every editor, and {editor} one of them: leave out one")
    return editor, agents


def _refuse_odd(name: str, url: str | None, auth: bool, token_variable: str | None, *, with_address: bool) -> None:
    """Refuse invalid options.

    Raises:
        click.UsageError: An option is not valid, or does not go with the others.
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"--name {one_line(name, 40)!r}: every editor takes 1 to 64 of A-Z a-z 0-9 _ -")
    if (url is not None or auth or token_variable is not None) and not with_address:
        raise click.UsageError("--url, --auth and --token-variable go with --http: for a bridge that you have started")
    if token_variable is not None and not _VARIABLE.fullmatch(token_variable):
        raise click.UsageError(f"--token-variable {one_line(token_variable, 40)!r}: expected the name of a variable")


def _usual_url() -> str:
    return f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/mcp"


def _published(agents: tuple[str, ...], config: str | None, servers: bool) -> Scope:
    """Return the scope of the bridge, whose agents the editor can start from every folder.

    Raises:
        AgentLoadError: An agent leads nowhere.
        click.UsageError: The file of servers does not exist.
    """
    folder = str(current_folder())
    if agents:
        from gaia_bridge.bridge.discovery import lasting_reference

        agents = tuple(map(lasting_reference, agents))
    if config is not None and not os.path.isfile(Path(folder, config)):
        raise click.UsageError(f"--config {one_line(config, 200)!r}: there is no such file")
    return Scope.of(config, agents, folder, servers)


def _editors_here(scope: FileScope | None) -> list[Editor]:
    editors = [editor for editor in EDITORS if is_here(editor) and usual_place(editor, scope) is not None]
    if not editors:
        raise ConfigError("--all", "no editor was found", "name one: gaia-bridge install EDITOR")
    return editors


def _list_editors() -> int:
    """Show the known editors."""
    from gaia_bridge_cli.servers.common import print_rows

    rows: list[tuple[str, ...]] = []
    for editor in EDITORS:
        place = usual_place(editor, None)
        where = BY_HAND if place is None else str(file_of(place))
        rows.append((editor.name, editor.title, "yes" if is_here(editor) else "", where))
    print_rows(("EDITOR", "", "FOUND", "FILE"), rows)
    click.echo("gaia-bridge install EDITOR puts the bridge into its file, gaia-bridge install --all into all found")
    return ExitCode.OK


def _install(editor: Editor, how: _InstallOptions, scope: FileScope | None, *, remove: bool, yes: bool) -> None:
    """Change the files of one editor, if the user agrees."""
    place = usual_place(editor, scope)
    if place is None:
        _by_hand(editor, how, scope, remove)
        return
    was_here = (
        is_here(editor) or place.scope is FileScope.WORKSPACE
    )  # the change makes folders by which it is recognized
    if _change(editor, how, place, remove=remove, yes=yes) and not remove:
        if not was_here:
            click.echo(f"{editor.title} was not found on this machine: the entry waits for it", err=True)
        for hint in _hints(editor, how, place):
            click.echo(hint, err=True)


def _change(editor: Editor, how: _InstallOptions, place: FilePlace, *, remove: bool, yes: bool) -> bool:
    """Change one file, if the user agrees; return whether the file was changed."""
    path = file_of(place)
    own: set[str] = set()
    note = ""
    if remove:
        change = plan_remove(editor, path, how.name)
    else:
        wanted = _wanted(editor, how, place)
        change = plan_install(editor, path, wanted)
        own = {_trimmed(line) for line in snippet(editor, wanted).splitlines()}
        note = _note_of_replaced(editor, place, change, wanted)
    if not change.is_one:
        state = "is not there" if remove else "is there already"
        click.echo(printable(f"nothing to do: {how.name} {state} in {path}", None), err=True)
        return False
    for line in _diff(change, own):
        click.echo(line)
    if note:
        click.echo(printable(note, None), err=True)
    if not yes and not _agreed(change):
        click.echo("nothing was changed", err=True)
        return False
    backup = write(change, shared=place.scope is FileScope.WORKSPACE)
    if not remove:
        remember_search_path(os.environ)  # an editor that is started from the desktop does not have this PATH
    done = "removed from" if remove else "installed in"
    kept = "" if backup is None else f"; what was there is kept as {backup}"
    click.echo(printable(f"{how.name} is {done} {editor.title}: {path}{kept}", None), err=True)
    return True


def _note_of_replaced(editor: Editor, place: FilePlace, change: FileChange, wanted: Wanted) -> str:
    """Return a note on agents that the editor has now, and that the new entry leaves out; empty if there are none."""
    from gaia_bridge.bridge.discovery.imports import short_path
    from gaia_bridge_desk.doctor.editors import EditorEntry, install_command, replaced_agents

    servers: Any = document_of(editor, change.path, text_of(change.path, change.before)).get(editor.root, {})
    if not is_object(old := servers.get(wanted.name)):
        return ""
    before, after = (EditorEntry(editor, place, change.path, wanted.name, each, True) for each in (old, wanted.entry))
    if not (gone := replaced_agents(before, after)):
        return ""
    again = install_command(after, gone)
    return f"no longer published: {', '.join(map(short_path, gone))}; to publish all of them: {again}"


def _agreed(change: FileChange) -> bool:
    """Ask the user for consent to a change.

    Raises:
        click.UsageError: There is no terminal to ask on.
    """
    if not can_ask():
        raise NobodyToAskError("nothing was changed: there is no terminal to ask on; --yes writes it without asking")
    question = "Remove it?" if change.after is None else "Write it?"
    return click.confirm(question, default=True, err=True)


def _by_hand(editor: Editor, how: _InstallOptions, scope: FileScope | None, remove: bool) -> None:
    """Print instructions for the user, where we cannot change the files.

    Raises:
        ConfigError: The editor has files, but none of this scope.
    """
    if editor.places:
        there = ", ".join(f"--{place.scope.value}" for place in editor.places)
        wanted = "" if scope is None else f"--{scope.value}"
        raise ConfigError(f"{editor.title} {wanted}".strip(), "it has no such file", f"it has: {there}")
    if remove:
        raise ConfigError(editor.title, BY_HAND, "remove it there")
    click.echo(f"{editor.title}: {BY_HAND}. {editor.then[0].upper()}{editor.then[1:]}:", err=True)
    _print(editor, how, None)


def _print(editor: Editor, how: _InstallOptions, place: FilePlace | None) -> None:
    click.echo(snippet(editor, _wanted(editor, how, place)), nl=False)


def _print_links(editor: Editor, how: _InstallOptions, place: FilePlace | None) -> None:
    """Print the links with which an editor installs the bridge itself.

    Raises:
        ConfigError: The editor has none.
    """
    from gaia_bridge_desk.bundles.links import EDITORS_WITH_LINKS, install_links

    if editor.name not in EDITORS_WITH_LINKS:
        raise ConfigError(
            f"{editor.title} --link", "it installs by no link", f"those do: {', '.join(EDITORS_WITH_LINKS)}"
        )
    wanted = _wanted(editor, how, place)
    for link in install_links(editor.name, wanted.name, wanted.entry, [wanted.asked] if wanted.asked else ()):
        click.echo(link)
    if how.way != "http":
        hint = "gaia-bridge bundle link makes links to a package, for others"
        click.echo(f"they lead to a program of this machine; {hint}", err=True)


def _wanted(editor: Editor, how: _InstallOptions, place: FilePlace | None) -> Wanted:
    """Return the entry for the editor's file.

    Raises:
        ConfigError: The editor cannot reach the bridge in this way.
    """
    shape = editor.shape_in(place)
    if how.way in ("connect", "stdio"):
        command, *begin = own_program()
        words = ["connect"] if how.way == "connect" else ["serve", "--stdio"]
        config = ["--config", how.scope.config] if how.scope.config else []
        config += [] if how.scope.servers else ["--no-servers"]
        agents = how.scope.agents
        named = list(agents) if how.way == "stdio" else [word for agent in agents for word in ("--agent", agent)]
        in_folder = place is not None and place.scope is FileScope.WORKSPACE
        cwd = shape.workspace if how.way == "stdio" and in_folder else None
        return Wanted(how.name, program_entry(shape, command, [*begin, *words, *config, *named], cwd=cwd))
    if how.way == "unix":
        return Wanted(how.name, _socket_entry(editor, how))
    asks = how.asks and editor.prompts and (place is None or place.scope is not FileScope.REMOTE)
    entry = address_entry(
        shape,
        how.url,
        token_variable=None if asks else how.token_variable,
        token_input=_TOKEN_INPUT if asks else None,
    )
    if entry is None:
        problem = "it takes no token" if shape.http is not None else "its file takes no addresses"
        hint = editor.http_by_hand or "leave out --http: it then starts gaia-bridge connect, which needs no token"
        raise ConfigError(f"{editor.title} --http", problem, hint)
    return Wanted(how.name, entry, token_input(_TOKEN_INPUT) if asks else None)


def _socket_entry(editor: Editor, how: _InstallOptions) -> dict[str, object]:
    if not editor.sockets:
        problem = "it does not reach sockets"
        raise ConfigError(f"{editor.title} --unix", problem, "leave out --unix: gaia-bridge connect reaches it instead")
    try:
        socket = Place(runtime_folder(), how.scope.name).http
    except PlaceError as error:
        raise ConfigError("--unix", str(error)) from None
    entry = address_entry(editor.shape, f"unix://{socket}#/mcp")
    assert entry is not None  # an editor that reaches sockets takes addresses
    return entry


def _lists_servers(scope: Scope, place: FilePlace) -> bool:
    """Return whether there is a server to publish; an unreadable file counts as one, as the bridge will report it."""
    path = Path(scope.config) if scope.config else None
    if path is None and place.scope is not FileScope.WORKSPACE:
        path = default_servers_path()
    try:
        return any(not is_disabled(entry) for entry in ServersConfig(path).entries.values())
    except BridgeError:
        return True


def _hints(editor: Editor, how: _InstallOptions, place: FilePlace) -> Iterator[str]:
    """Yield hints on the entry, the next step, and a note for later."""
    if place.scope is FileScope.WORKSPACE and how.way in ("connect", "stdio"):
        yield "it names a program of this machine: whoever shares the folder runs the same command on theirs"
    if how.way == "http":
        variable = how.token_variable
        yield f"it is reached while the bridge runs: gaia-bridge serve{'' if variable is None else ' --auth'}"
        if how.asks and editor.prompts and place.scope is not FileScope.REMOTE:
            yield (
                "it asks for the token, which is in ~/.gaia/bridge-token; agents outside of VS Code's own chat are "
                "lent no server that asks: for these, leave out --http, or name a --token-variable"
            )
        elif variable is not None:
            yield f"start {editor.title} with the token in {variable}; without --http, none is needed"
    if how.way == "unix":
        yield printable(
            f"it is reached while the bridge runs: {shlex.join(['gaia-bridge', 'up', *how.scope.words])}", None
        )
    if how.way != "http" and not how.scope.agents and how.scope.servers and not _lists_servers(how.scope, place):
        yield f"no server is configured yet: gaia-bridge add NAME COMMAND, or gaia-bridge import. {_SHIPPED[how.way]}"
    if "/archive-v0/" in (program := own_program()[0]):
        yield printable(f"{program} is in a cache of uv, which may remove it: use uv tool install", None)
    yield f"next: {editor.then}"
    if editor.has_agents and os.path.isfile(".mcp.json"):
        file = file_of(place).name
        yield f"{editor.title} reads .mcp.json of this folder as well as {file}: have the bridge in one of them"


def _diff(change: FileChange, own: set[str]) -> Iterator[str]:
    """Yield the change as a diff for people: secrets beside our entry are not shown.

    Args:
        change: The change.
        own: Lines of our entry, which hold no secrets.
    """
    import difflib

    old, new = (text_of(change.path, content).splitlines() for content in (change.before, change.after))
    path, none = str(change.path), "/dev/null"
    names = (path if change.before is not None else none, path if change.after is not None else none)
    redacted = Redactor()
    for line in difflib.unified_diff(old, new, names[0], names[1], lineterm=""):
        shown = line if _trimmed(line[1:]) in own else redacted(line)
        color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        yield click.style(printable(shown.replace("\t", "    "), None), fg=color)


def _trimmed(line: str) -> str:
    return line.strip().rstrip(",")
