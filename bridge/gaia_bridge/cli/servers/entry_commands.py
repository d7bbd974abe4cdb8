"""`gaia-bridge add`, `remove`, `enable`, `disable`: the entries of the configuration."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaia_bridge.cli.exit_codes import ExitCode, exit_code_of
from gaia_bridge.cli.servers.common import (
    complete_server,
    config_option,
    configured,
    entry_of_server,
    json_option,
)
from gaia_bridge.cli.servers.keeping import KeptIn, done, keep
from gaia_bridge.cli.servers.pasted_entries import PasteError, is_pasted, pasted_entries
from gaia_bridge.cli.servers.registry_options import RegistryOptions, reference_in, registry_options
from gaia_bridge.sanitize.escaping import one_line, printable
from gaia_bridge.sources.public_names import is_server_name, is_source_name

if TYPE_CHECKING:
    from gaia_bridge.protocol.json_types import JSON

__all__ = ["add", "disable", "enable", "remove"]

_NAME_AND_PROGRAM = 2


class _WithCommandLine(click.Command):
    """A command whose last argument is a command line with options of its own.

    The options that follow its first word are ours as long as they are known here; from the first word on that is not
    one of them, everything is the program's, whatever it looks like.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `--` in front of what is the program's."""
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
            elif words == _NAME_AND_PROGRAM:
                args = [*args[:place], "--", *args[place:]]
                break
            else:
                place, words = place + 1, words + 1
        return super().parse_args(ctx, args)


@click.command(cls=_WithCommandLine, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...|URL|JSON")
@registry_options
@click.option(
    "--secrets",
    type=click.Choice(["file", "keyring", "clear"]),
    help="With registry: where passwords and tokens go.  [default: asks]",
)
@click.option("--env", "-e", multiple=True, metavar="NAME=VALUE", help="A variable that the program sees; repeatable.")
@click.option("--header", multiple=True, metavar="NAME:VALUE", help="A header of every request to URL; repeatable.")
@click.option("--sse", is_flag=True, help="URL speaks HTTP+SSE (MCP 2024-11-05).")
@click.option("--openapi", metavar="URL|FILE", help="An HTTP API by its OpenAPI document; COMMAND is its URL, if any.")
@click.option("--cwd", help="Where the program is started.")
@click.option("--inherit-env", is_flag=True, help="The program sees all of your variables.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    help="Seconds for one request, and for the start where that is more than it has anyway.",
)
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
    openapi: str | None,
    cwd: str | None,
    inherit_env: bool,
    timeout: float | None,
    local: bool | None,
    no_connect: bool,
    force: bool,
    config: Path | None,
    as_json: bool,
    secrets: str | None,
    from_registry: RegistryOptions,
) -> int:
    """Try a server, and keep it in the configuration if it works.

    COMMAND is one text, as in a terminal, or several words; nothing in it is given to a shell. Options stand before
    COMMAND or right after its first word; what comes after its second word, or after --, belongs to the program.
    Values may be references: --env 'TOKEN=${env:MY_TOKEN}'

    JSON from the documentation of a server is taken as it is, in place of NAME and COMMAND, or of COMMAND alone, or,
    for -, from standard input. registry:NAME[@VERSION] is what the public registry says of a server, which `search`
    finds: it is asked for what it needs, and shown before it is added.
    """
    if name.startswith("-") and name != "-":
        raise click.UsageError(f"no such option: {name}; a URL is recognised by itself, and --sse is for HTTP+SSE")
    typed = _pairs("--env", "=", env), _pairs("--header", ":", header)
    place = KeptIn(config, local, force, no_connect)
    if (found := reference_in(name, command)) is not None:
        if openapi or sse:
            raise click.UsageError("--openapi and --sse do not go with registry:, which says itself what it is")
        return _add_listed(*found, from_registry, typed, secrets, cwd, (inherit_env, timeout), place, as_json)
    if from_registry.used or secrets:
        raise click.UsageError(f"{(from_registry.used or ['--secrets'])[0]} goes with registry:NAME alone")
    if openapi is not None:
        api = _api_entry(name, openapi, command, *typed, sse or bool(cwd))
        return keep(name, api | _further(api, inherit_env, timeout), place, as_json)
    if is_pasted(name) or (len(command) == 1 and is_pasted(command[0])):
        if any(typed) or sse or cwd or (is_pasted(name) and command):
            raise click.UsageError("what is pasted says all of that itself: leave out what comes beside it")
        return _add_pasted(name, *command, place=place, further=(inherit_env, timeout), as_json=as_json)
    if not command and not is_source_name(name):
        raise click.UsageError(f"NAME is missing: gaia-bridge add NAME {shlex.quote(name)}")
    if not command:
        raise click.UsageError("Missing argument 'COMMAND...|URL|JSON'.")
    entry = _entry(command, *typed, sse, cwd)
    return keep(name, entry | _further(entry, inherit_env, timeout), place, as_json)


def _add_listed(
    reference: str,
    called: str | None,
    options: RegistryOptions,
    typed: tuple[dict[str, str], dict[str, str]],
    secrets: str | None,
    cwd: str | None,
    further: tuple[bool, float | None],
    place: KeptIn,
    as_json: bool,
) -> int:
    """Add what the public registry lists."""
    from gaia_bridge.cli.collection import imported_for_good

    with imported_for_good():
        from gaia_bridge.cli.servers.registry_adding import Beside, add_from_registry

    also = {**({"cwd": cwd} if cwd else {}), **_further({}, *further)}
    return add_from_registry(reference, called, options, Beside(*typed, also, secrets), place, as_json)


def _add_pasted(
    name: str, command: str | None = None, *, place: KeptIn, further: tuple[bool, float | None], as_json: bool
) -> int:
    """Show each server that was pasted, and keep those that work.

    Returns:
        The exit code of the first that was not kept.
    """
    from gaia_bridge.config import launch_line_text
    from gaia_bridge.errors import BridgeError

    text = command or name
    try:
        entries = pasted_entries(sys.stdin.read() if text == "-" else text, name if command else None)
    except PasteError as error:
        raise click.UsageError(str(error)) from None
    failed: BridgeError | None = None
    for number, (each, entry) in enumerate(entries.items()):
        click.echo(("\n" if number else "") + f"{printable(each)}: {launch_line_text(entry)}", err=True)
        try:
            keep(each, entry | _further(entry, *further), place, as_json)
        except BridgeError as error:
            if len(entries) == 1:
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
    owner, _ = entry_of_server(servers, name)
    paths = servers.remove(name, of=owner.kind)
    if (other := servers.owner(name)) is not None:
        click.echo(printable(f"note: {other.path} lists {name} too, and that entry counts from now on"), err=True)
    return done("removed", name, paths, as_json)


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


def _further(entry: JSON, inherit_env: bool, timeout: float | None) -> JSON:
    """What the options say beside how the server is reached."""
    from gaia_bridge.settings import UpstreamLimits

    found: JSON = {}
    if inherit_env:
        if "url" in entry or "openapi" in entry:
            raise click.UsageError("--inherit-env is for a COMMAND, and this is a URL")
        found["inherit_env"] = True
    if timeout is not None:
        found["timeout"] = timeout
        if timeout > UpstreamLimits().connect_timeout:
            found["startup_timeout"] = timeout
    return found


def _entry(command: tuple[str, ...], env: dict[str, str], headers: dict[str, str], sse: bool, cwd: str | None) -> JSON:
    from gaia_bridge.config import entry_of

    first = command[0]
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", first) if len(command) == 1 else None
    if scheme is not None:
        if scheme[1].lower() not in ("http", "https"):
            raise click.UsageError(
                f"{first!r} is reached over {scheme[1]}; expected a URL of http or https, or a COMMAND"
            )
        if env or cwd:
            raise click.UsageError("--env and --cwd are for a COMMAND, and this is a URL")
        entry: JSON = {"url": first}
        if headers:
            entry["headers"] = headers
        return entry | ({"type": "sse"} if sse else {})
    if headers or sse:
        raise click.UsageError("--header and --sse are for a URL, and this is a COMMAND")
    if len(command) == 1:
        _refuse_slip(first)
    try:
        made: dict[str, Any] = entry_of(first if len(command) == 1 else command, env or None, cwd)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return made


def _api_entry(
    name: str, document: str, command: tuple[str, ...], env: dict[str, str], headers: dict[str, str], others: bool
) -> JSON:
    """The entry of an HTTP API."""
    if "://" in name or not is_server_name(name):
        raise click.UsageError(f"NAME is missing: gaia-bridge add NAME --openapi {shlex.quote(document)}")
    if env or others or len(command) > 1 or not all(re.match("https?://", word) for word in command):
        raise click.UsageError("--openapi goes with NAME, --header and the URL of the API: nothing is started")
    entry: JSON = {"openapi": document, **({"url": command[0]} if command else {})}
    return entry | ({"headers": headers} if headers else {})


def _refuse_slip(line: str) -> None:
    """Say what was probably meant, where a command line is none at first sight.

    Raises:
        click.UsageError: It is none.
    """
    if variable := re.match(r"\s*([A-Za-z_][A-Za-z0-9_]*)=", line):
        raise click.UsageError(f"no shell sees the command; {variable[1]} goes with --env {variable[1]}=VALUE")
    if line.endswith(".py") and Path(line).is_file() and not os.access(line, os.X_OK):
        file = shlex.quote(line)
        raise click.UsageError(
            f"{line!r} is no program; an agent in it is published by `gaia-bridge serve {file}`, "
            f"and an MCP server is added by `gaia-bridge add NAME python {file}`"
        )
    if re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S*|[\w.-]+:\d+(/\S*)?", line) and not Path(line).exists():
        raise click.UsageError(f"{line!r} is no program; did you mean https://{line}?")


def _pairs(option: str, sign: str, words: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, found, value = word.partition(sign)
        if not found or not key.strip():
            raise click.UsageError(f"{option} {word!r}: expected NAME{sign}VALUE")
        pairs[key.strip()] = value.strip() if sign == ":" else value
    return pairs
