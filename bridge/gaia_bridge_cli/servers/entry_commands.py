"""`gaia-bridge add`, `remove`, `enable`, `disable`: the entries of the configuration."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import is_source_name
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge_cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.asked_secrets import keeper_for, secrets_option, with_asked
from gaia_bridge_cli.servers.common import complete_server, config_option, configured, entry_of_server, json_option
from gaia_bridge_cli.servers.keeping import KeptIn, done, keep, note_secrets
from gaia_bridge_cli.servers.outside_variables import with_container_variables
from gaia_bridge_cli.servers.registry.options import RegistryOptions, reference_in, registry_options
from gaia_bridge_cli.servers.typed_entries import PasteError, Typed, is_pasted, pasted_entries, typed_entry

if TYPE_CHECKING:
    from gaia_bridge_desk.editors.reading import Found

_NAME_AND_PROGRAM = 2
_OURS_ALONE = frozenset({"--inherit-env", "--no-connect", "--secrets", "--startup-timeout"})
"""Options that hardly any other program has: written after a program, they are meant for us."""


class _WithCommandLine(click.Command):
    """A command whose last argument is a command line with options of its own.

    Options before the command are ours, and those after a complete one: a text with blanks, JSON, or a URL. The words
    after a single word are ours if all of them are known here, to the end of the line. All others are the program's.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `--` in front of the words that are the program's."""
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        } | dict.fromkeys(ctx.help_option_names, False)
        place, words = 0, 0
        while place < len(args) and args[place] != "--":
            option, equals, _ = args[place].partition("=")
            if option in takes_value:
                place += 1 + (takes_value[option] and not equals)
                continue
            words += 1
            if words == _NAME_AND_PROGRAM:
                if not _is_complete(args[place]) and not _are_options(args[place + 1 :], takes_value):
                    args = [*args[:place], "--", *args[place:]]
                    break
            elif words > _NAME_AND_PROGRAM:
                args = [*args[:place], "--", *args[place:]]
                break
            place += 1
        return super().parse_args(ctx, args)


def _is_complete(word: str) -> bool:
    """Return whether no word of a program can follow."""
    return bool(re.search(r"\s|^[A-Za-z][A-Za-z0-9+.-]*://", word)) or is_pasted(word)


def _are_options(words: list[str], takes_value: Mapping[str, bool]) -> bool:
    """Return whether all words, or those before `--`, are long options of ours: many programs have an `-e`."""
    words = words[: words.index("--")] if "--" in words else words
    place = 0
    while place < len(words):
        option, equals, _ = words[place].partition("=")
        if not option.startswith("--") or option not in takes_value:
            return words[place] == "-h" and len(words) == 1
        place += 1 + (takes_value[option] and not equals)
    return place == len(words)


@click.command(cls=_WithCommandLine, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...|URL|JSON")
@registry_options
@click.option(
    "--env",
    "-e",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable that the program sees; without VALUE, it refers to yours; repeatable.",
)
@click.option("--header", "-H", multiple=True, metavar="NAME:VALUE", help="A header of each request; repeatable.")
@click.option("--sse", is_flag=True, help="URL speaks HTTP+SSE (MCP 2024-11-05).")
@click.option("--transport", "-t", type=click.Choice(["stdio", "http", "sse"]), help="As other programs have it.")
@click.option("--openapi", metavar="URL|FILE", help="An HTTP API by its OpenAPI document; COMMAND is its URL, if any.")
@click.option("--cwd", metavar="FOLDER", help="Where the program is started.")
@click.option("--inherit-env", is_flag=True, help="The program sees all of your variables.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="For one request, and for the start where that is more than it has anyway.",
)
@click.option(
    "--startup-timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="For the start, which may have to download much.  [default: 30]",
)
@secrets_option
@click.option("--local/--global", "local", default=None, help="Into ./mcp_servers.json, or ~/.gaia/mcp_servers.json.")
@click.option("--no-connect", is_flag=True, help="Save it without trying it.")
@click.option("--force", is_flag=True, help="Replace the entry of that name.")
@config_option
@json_option
def add(
    name: str,
    command: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    sse: bool,
    transport: str | None,
    openapi: str | None,
    cwd: str | None,
    inherit_env: bool,
    timeout: float | None,
    startup_timeout: float | None,
    secrets: str | None,
    local: bool | None,
    no_connect: bool,
    force: bool,
    config: Path | None,
    as_json: bool,
    from_registry: RegistryOptions,
) -> int:
    """Try a server, and keep it in the configuration if it works.

    COMMAND is one text, as in a terminal, or several words; nothing in it is given to a shell. Variables may stand
    before it: FOO=bar npx -y some-server. Options stand before COMMAND, or after it if nothing else does; words
    after --, or unknown here, belong to the program. Values may be references: --env 'TOKEN=${env:MY_TOKEN}'

    JSON from the documentation of a server is taken as it is, in place of NAME and COMMAND, or of COMMAND alone, or,
    for -, from standard input. registry:NAME[@VERSION] is a server of the public registry, which `search` finds: you
    are asked for the values that it needs, and it is shown before it is added.
    """
    if name.startswith("-") and name != "-":
        raise click.UsageError(
            f"no such option: {name.partition('=')[0]}; a URL is recognised by itself, and --sse is for HTTP+SSE"
        )
    typed = Typed(env, header, sse or transport == "sse", openapi, cwd, inherit_env, timeout, startup_timeout)
    place = KeptIn(config, local, force, no_connect)
    if (listed := reference_in(name, command)) is not None:
        return _add_listed(*listed, from_registry, typed, secrets, place, as_json)
    pasted = openapi is None and (is_pasted(name) or (len(command) == 1 and is_pasted(command[0])))
    if from_registry.used and (not pasted or from_registry.used != ["--yes"]):
        first = "; the name comes first: gaia-bridge add NAME COMMAND" if from_registry.used[0] == "--name" else ""
        what = "registry:NAME or JSON" if from_registry.used[0] == "--yes" else "registry:NAME"
        raise click.UsageError(f"{from_registry.used[0]} goes with {what} alone{first}")
    if pasted:
        if typed.says_how or (is_pasted(name) and command):
            raise click.UsageError("what is pasted says all of that itself: leave out what comes beside it")
        servers = _pasted(*command, name=name)
    else:
        servers = {name: _typed(name, command, typed)}
    if pasted and not (servers := _agreed(servers, yes=from_registry.yes)):
        return ExitCode.CONFIG
    keeper = keeper_for(secrets, {each: server.entry for each, server in servers.items()}, "added")
    return _keep_all(servers, typed, replace(place, keeper=keeper), as_json, shown=pasted)


def _typed(name: str, command: tuple[str, ...], typed: Typed) -> Found:
    """Return the entry that was typed, with the variables that it refers to and that are not set."""
    from gaia_bridge_desk.editors.reading import Found

    if not command and typed.openapi is None:
        if os.path.isfile(name):
            words = f"gaia-bridge import {shlex.quote(name)}"
            raise click.UsageError(printable(f"{name} is a file; {words} takes over the servers that it lists", None))
        if not is_source_name(name):
            raise click.UsageError(f"NAME is missing: gaia-bridge add NAME {shlex.quote(name)}")
        raise click.UsageError("Missing argument 'COMMAND...|URL|JSON'.")
    if behind := [word for word in command[1:] if word in _OURS_ALONE]:
        click.echo(f"note: {behind[0]} is the program's where it stands; options of `add` stand before NAME", err=True)
    entry, named = with_container_variables(typed_entry(name, command, typed))
    referred = [*(word for word in typed.env if "=" not in word), *named]
    return Found(name, entry, inputs={variable: variable for variable in referred if variable not in os.environ})


def _add_listed(
    reference: str,
    called: str | None,
    options: RegistryOptions,
    typed: Typed,
    secrets: str | None,
    place: KeptIn,
    as_json: bool,
) -> int:
    """Add a server that the public registry lists."""
    from gaia_bridge_cli.collection import imported_for_good

    if typed.openapi or typed.sse:
        raise click.UsageError("--openapi and --sse do not go with registry:, which says itself what it is")
    with imported_for_good():
        from gaia_bridge_cli.servers.registry.adding import Beside, add_from_registry

    also = typed.further({"cwd": typed.cwd} if typed.cwd else {})
    beside = Beside(typed.variables(), typed.headers(), also, secrets)
    return add_from_registry(reference, called, options, beside, place, as_json)


def _pasted(command: str | None = None, *, name: str) -> dict[str, Found]:
    """Return the servers that were pasted, with the variables of the files that they name."""
    from gaia_bridge.config.paths import current_folder, home_folder
    from gaia_bridge_cli.servers.outside_variables import with_variable_file
    from gaia_bridge_desk.editors.reading import ReferenceValues

    text, folder = command or name, current_folder()
    around = ReferenceValues(str(home_folder()), str(folder))
    try:
        servers = pasted_entries(sys.stdin.read() if text == "-" else text, around, name if command else None)
    except PasteError as error:
        raise click.UsageError(str(error)) from None
    made: dict[str, Found] = {}
    for each, server in servers.items():
        server = with_variable_file(server, folder)
        entry, named = with_container_variables(server.entry)
        inputs = {key: about for key, about in server.inputs.items() if key not in os.environ}
        asked = inputs | {variable: variable for variable in named if variable not in os.environ}
        made[each] = replace(server, entry=entry, inputs=asked)
    return made


def _agreed(servers: Mapping[str, Found], *, yes: bool) -> dict[str, Found]:
    """Show servers that a stranger wrote, and ask about each that gets data of the user, or changes the code that its
    program runs; return those that are wanted.

    Raises:
        NobodyToAskError: A question is needed, and there is no terminal.
    """
    from gaia_bridge_desk.review.foreign_entries import questions
    from gaia_bridge_desk.review.launch_lines import launch_line_text

    agreed: dict[str, Found] = {}
    for number, (name, server) in enumerate(servers.items()):
        click.echo(("\n" if number else "") + f"{printable(name)}: {launch_line_text(server.entry)}", err=True)
        asked = questions(server.entry) if server.problem is None else []
        for line in (*(f"note: {note}" for note in server.notes), *(f"warning: {doubt}" for doubt in asked)):
            click.echo(printable(line, None), err=True)
        if asked and not yes:
            if not can_ask():
                raise NobodyToAskError("nothing was added: there is no terminal to ask on; --yes adds what is shown")
            if not click.confirm("Add it?", default=False, err=True):
                click.echo(printable(f"{name} was not added", None), err=True)
                continue
        agreed[name] = server
    return agreed


def _keep_all(servers: Mapping[str, Found], typed: Typed, place: KeptIn, as_json: bool, *, shown: bool) -> int:
    """Keep each server that works.

    Returns:
        The exit code of the first failure.
    """
    from gaia_bridge.errors import BridgeError

    failed: BridgeError | None = None
    for name, server in servers.items():
        try:
            if server.problem is not None:
                raise ConfigError(f"server {name!r}", server.problem)
            entry = with_asked(name, server.entry, server.inputs, place.keeper)
            keep(name, typed.further(entry) if shown else entry, place, as_json)
        except BridgeError as error:
            if len(servers) == 1:
                raise
            click.echo(f"error: {printable(one_line(str(error)), None)}", err=True)
            failed = failed or error
    return ExitCode.OK if failed is None else exit_code_of(failed)


@click.command()
@click.argument("name", shell_complete=complete_server)
@config_option
@json_option
def remove(name: str, config: Path | None, as_json: bool) -> int:
    """Take a server out of the configuration."""
    servers = configured(config)
    owner, entry = entry_of_server(servers, name)
    paths = servers.remove(name, of=owner.kind)
    if (other := servers.owner(name)) is not None:
        click.echo(printable(f"note: {other.path} lists {name} too, and that entry counts from now on"), err=True)
    code = done("removed", name, paths, as_json)
    note_secrets(entry)
    return code


@click.command()
@click.argument("name", shell_complete=complete_server)
@config_option
@json_option
def enable(name: str, config: Path | None, as_json: bool) -> int:
    """Use a server again that was disabled."""
    return _set_disabled(name, config, False, as_json)


@click.command()
@click.argument("name", shell_complete=complete_server)
@config_option
@json_option
def disable(name: str, config: Path | None, as_json: bool) -> int:
    """Keep a server in the configuration, and do not use it."""
    return _set_disabled(name, config, True, as_json)


def _set_disabled(name: str, config: Path | None, disabled: bool, as_json: bool) -> int:
    servers = configured(config)
    entry_of_server(servers, name)
    path = servers.set_disabled(name, disabled)
    return done("disabled" if disabled else "enabled", name, [path], as_json)
