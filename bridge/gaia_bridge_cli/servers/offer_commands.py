"""`gaia-bridge read`, `prompt`, `skills`: the features of a server or agent beside its tools."""

from __future__ import annotations

import base64
import binascii
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.output import can_ask
from gaia_bridge_cli.servers.common import Activity, json_option, print_json, unknown_name
from gaia_bridge_cli.servers.targets import TargetCommand, target_of, target_options

if TYPE_CHECKING:
    from gaia_bridge.client.transport import Transport
    from gaia_bridge.settings import UpstreamLimits
    from gaia_bridge.text.json_types import JSON


@click.command(cls=TargetCommand, short_help="Read a resource of a server or agent.")
@target_options
@click.argument("uri", required=False, metavar="URI")
@json_option
def read(target: str, uri: str | None, as_json: bool, config: Path | None, **bridge: Any) -> int:
    """Read a resource of a server or agent, by its URI.

    TARGET is what `tools` takes; a command goes last: read URI -- COMMAND. Text is printed as it is on anything but a
    terminal, and so is a single resource that is no text.
    """
    with imported_for_good():
        from gaia_bridge_cli.servers.caller_delegate import CallerDelegate
        from gaia_bridge_cli.servers.server_probe import AskedServer, UnknownNameError, read_resource

    async def ask(transport: Transport, limits: UpstreamLimits, activity: Activity) -> JSON:
        delegate = CallerDelegate(reached.name, activity, asks=can_ask() and not as_json)
        return await read_resource(AskedServer(transport, limits, activity, reached.spec.options, delegate), uri)

    reached = target_of(target, config, **bridge)
    try:
        result = reached.reach(ask)
    except UnknownNameError as error:
        reason = f"; it says: {one_line(error.reason, 300)}" if error.reason else ""
        raise unknown_name(reached.name, "resource", uri, error.names, reason) from None
    if as_json:
        print_json(result)
    else:
        contents = result.get("contents")
        _print_contents([item for item in contents if is_object(item)] if is_array(contents) else [])
    return ExitCode.OK


@click.command(cls=TargetCommand, context_settings={"ignore_unknown_options": True})
@target_options
@click.argument("name", required=False, metavar="NAME")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[JSON | KEY=VALUE...]")
@json_option
def prompt(
    target: str, name: str | None, arguments: tuple[str, ...], as_json: bool, config: Path | None, **bridge: Any
) -> int:
    """Get a prompt of a server or agent.

    TARGET is what `tools` takes; a command goes last: prompt NAME [ARGUMENTS] -- COMMAND. On a terminal, required
    arguments that are missing are asked for, unless with --json.
    """
    with imported_for_good():
        from gaia_bridge_cli.servers.arguments import ArgumentsError
        from gaia_bridge_cli.servers.asked_arguments import arguments_for, prompt_schema, refuse_no_arguments
        from gaia_bridge_cli.servers.caller_delegate import CallerDelegate
        from gaia_bridge_cli.servers.server_probe import AskedServer, UnknownNameError, get_prompt

    asks = can_ask() and not as_json

    async def ask(transport: Transport, limits: UpstreamLimits, activity: Activity) -> JSON:
        async def given(definition: JSON) -> JSON:
            schema = prompt_schema(definition)
            return _texts(await arguments_for(arguments, schema, activity=activity, asks=asks))

        delegate = CallerDelegate(reached.name, activity, asks=asks)
        server = AskedServer(transport, limits, activity, reached.spec.options, delegate)
        return await get_prompt(server, name, given)

    refuse_no_arguments(arguments)
    reached = target_of(target, config, **bridge)
    try:
        result = reached.reach(ask)
    except UnknownNameError as error:
        raise unknown_name(reached.name, "prompt", name, error.names) from None
    except ArgumentsError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(result)
    else:
        _print_messages(result)
    return ExitCode.OK


def _texts(arguments: JSON) -> JSON:
    """Return the arguments of a prompt, after a check that all are texts.

    Raises:
        ArgumentsError: One is no text.
    """
    from gaia_bridge_cli.servers.arguments import ArgumentsError

    for key, value in arguments.items():
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ArgumentsError(f"{key!r} is {kind}; expected a text, as all arguments of prompts are: {key}=TEXT")
    return arguments


def _print_contents(contents: list[JSON]) -> None:
    if not contents:
        click.echo("the resource is empty", err=True)
    terminal = sys.stdout.isatty()
    show = partial(printable, limit=None) if terminal else str
    for item in contents:
        text, blob = item.get("text"), item.get("blob")
        if isinstance(text, str):
            lines = text.split("\n") if terminal else [text]
            click.echo("\n".join(map(show, lines)).encode(errors="backslashreplace"), nl=not text.endswith("\n"))
        elif isinstance(blob, str):
            _print_blob(
                blob, str(item.get("mimeType") or "data of an unknown type"), shown=terminal or len(contents) > 1
            )


def _print_blob(blob: str, kind: str, *, shown: bool) -> None:
    try:
        data = base64.b64decode(blob, validate=True)
    except (ValueError, binascii.Error):
        click.echo(f"what came as {one_line(kind)} is no base64; --json shows it", err=True)
        return
    if shown:
        click.echo(f"[{one_line(kind)}, {len(data):,} bytes; send it to a file, or use --json]")
    else:
        click.echo(data, nl=False)


def _print_messages(result: JSON) -> None:
    from gaia_bridge.calls.results.rendering import ContentStyle, render_block

    messages = result.get("messages")
    style = ContentStyle(terminal=sys.stdout.isatty())
    for message in messages if is_array(messages) else ():
        if not is_object(message):
            continue
        text = f"{one_line(str(message.get('role')), 20)}: {render_block(message.get('content'), style)}"
        click.echo(text.encode(errors="backslashreplace"))
    if not messages:
        click.echo("the prompt is empty", err=True)


@click.command(cls=TargetCommand, short_help="Show the skills of a server or agent.")
@target_options
@json_option
def skills(target: str, as_json: bool, config: Path | None, **bridge: Any) -> int:
    """Show the skills of a server or agent: where each is, what it is for, and how many files it has.

    TARGET is what `tools` takes. `gaia-bridge read TARGET URI` shows a file of one.
    """
    with imported_for_good():
        from gaia_bridge.protocol.skills import DYNAMIC, files_of
        from gaia_bridge.protocol.vocabulary import definition_problem
        from gaia_bridge_cli.servers.server_probe import probe

    reached = target_of(target, config, **bridge)
    listed = reached.reach(partial(probe, options=reached.spec.options)).definitions.get("skill", [])
    if as_json:
        print_json({"skills": listed})
        return ExitCode.OK
    for skill in listed:
        if (problem := definition_problem("skill", skill)) is not None:
            click.echo(f"{one_line(str(skill.get('uri')))} is left out: {one_line(problem)}", err=True)
            continue
        frontmatter = skill["frontmatter"] if is_object(skill["frontmatter"]) else {}
        number = len(files_of(skill))
        files = "made anew with each read" if skill["resources"] == DYNAMIC else f"{number} file{'s'[: number != 1]}"
        click.echo(f"{click.style(one_line(frontmatter['name']), bold=True)}  {one_line(skill['uri'])} ({files})")
        click.echo(f"  {one_line(frontmatter['description'])}")
    if not listed:
        click.echo(f"{reached.name} has no skills", err=True)
    return ExitCode.OK
