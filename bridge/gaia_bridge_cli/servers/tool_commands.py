"""`gaia-bridge tools`, `call`, `test-client`: the real answers of a server or agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from gaia_bridge.calls.results.rendering import ContentStyle, render_block
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import is_array
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.output import can_ask
from gaia_bridge_cli.servers.common import Activity, json_option, print_json
from gaia_bridge_cli.servers.targets import Target, TargetCommand, target_of, target_options

if TYPE_CHECKING:
    from gaia_bridge.client.transport import Transport
    from gaia_bridge.settings import UpstreamLimits
    from gaia_bridge.text.json_types import JSON
    from gaia_bridge_cli.servers.server_probe import CallAnswer, Probe

_NOBODY_TO_ASK = "the tool asks a question, and nobody can answer here: run the command in a terminal, without --json"

_WHY_NOT = "see allowed_tools and disabled_tools of the entry"


@click.command(cls=TargetCommand, short_help="Show the tools of a server or agent.")
@target_options
@json_option
def tools(target: str, as_json: bool, config: Path | None, **bridge: Any) -> int:
    """Show the tools of a server or agent, also those that the configuration keeps from being published.

    TARGET is a configured server, a source of a running bridge, file.py[:Class], a URL, or, after --, a command.
    """
    with imported_for_good():
        from gaia_bridge.sources.upstream.listing.tool_transforms import is_permitted
        from gaia_bridge_cli.servers.arguments import parameter_lines, signature
        from gaia_bridge_cli.servers.server_probe import shown_tools

    reached = target_of(target, config, **bridge)
    spec = reached.spec
    listed: Sequence[Mapping[str, Any]] = _probed(reached).definitions.get("tool", [])
    hidden = [tool.get("name") for tool in listed if not is_permitted(str(tool.get("name")), spec.options)]
    if spec.options.tools:
        shown = shown_tools(listed, spec.options.tools)
        hidden = [tool["name"] for tool in shown.features.tools if shown.call(tool["name"], {})[0] in hidden]
        listed = shown.features.tools
        for item in shown.features.left_out:
            click.echo(f"{item.kind} {printable(item.name)!r} is left out: {printable(item.reason)}", err=True)
    if as_json:
        print_json({"tools": list(listed), "notPublished": hidden})
        return ExitCode.OK
    for tool in listed:
        note = f" ({click.style('not published', fg='yellow')}: {_WHY_NOT})" if tool.get("name") in hidden else ""
        name = one_line(str(tool.get("name")))
        click.echo(click.style(name, bold=True) + signature(dict(tool)).removeprefix(name) + note)
        if description := one_line(str(tool.get("description") or "")):
            click.echo(f"  {description}")
        for line in parameter_lines(tool.get("inputSchema")):
            click.echo(f"    {line}")
    if not listed:
        click.echo(f"{reached.name} has no tools", err=True)
    return ExitCode.OK


@click.command(cls=TargetCommand, context_settings={"ignore_unknown_options": True})
@target_options
@click.argument("tool", required=False, metavar="TOOL")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[JSON | KEY=VALUE...]")
@json_option
def call(
    target: str, tool: str | None, arguments: tuple[str, ...], as_json: bool, config: Path | None, **bridge: Any
) -> int:
    """Call a tool of a server or agent.

    TARGET is what `tools` takes; a command goes last: call TOOL [ARGUMENTS] -- COMMAND. Arguments are one JSON object,
    or KEY=VALUE words, parsed by the tool's schema; KEY:=JSON gives the exact value. On a terminal, you are asked for
    missing required arguments, and for answers that the tool wants, unless with --json.
    """
    with imported_for_good():
        from gaia_bridge.client.transport_factory import secrets_of
        from gaia_bridge.errors import ServerUnavailableError, ToolError
        from gaia_bridge.text.redaction import Redactor
        from gaia_bridge_cli.servers.arguments import ArgumentsError
        from gaia_bridge_cli.servers.asked_arguments import arguments_for, refuse_no_arguments
        from gaia_bridge_cli.servers.caller_delegate import CallerDelegate
        from gaia_bridge_cli.servers.common import unknown_name
        from gaia_bridge_cli.servers.server_probe import AskedServer, UnknownNameError
        from gaia_bridge_cli.servers.server_probe import call as call_tool

    async def ask(transport: Transport, limits: UpstreamLimits, activity: Activity) -> CallAnswer:
        delegate = CallerDelegate(name, activity, asks=asks)
        server = AskedServer(transport, limits, activity, spec.options, delegate)
        return await call_tool(server, tool, partial(arguments_for, arguments, activity=activity, asks=asks))

    asks = can_ask() and not as_json
    refuse_no_arguments(arguments)
    reached = target_of(target, config, **bridge)
    name, spec = reached.name, reached.spec
    try:
        answer = reached.reach(ask)
        if answer.failed:  # the text of a failure is masked for people; a result is left as it is
            answer = replace(answer, result=Redactor(secrets_of(spec)).without_known_in(answer.result))
    except UnknownNameError as error:
        raise unknown_name(name, "tool", tool, error.names) from None
    except (ArgumentsError, ToolError) as error:
        raise click.UsageError(str(error)) from None
    except ServerUnavailableError as error:
        if asks or not _is_about_asking(error.problem):
            raise
        raise ServerUnavailableError(name, f"{error.problem}; {_NOBODY_TO_ASK}", error.kind) from None
    if as_json:
        print_json(answer.result)
    else:
        _print_answer(str(tool), answer)
    if answer.failed and not asks and _is_about_asking(json.dumps(answer.result)):
        click.echo(f"note: {_NOBODY_TO_ASK}", err=True)
    return ExitCode.TOOL_FAILED if answer.failed else ExitCode.OK


@click.command("test-client", cls=TargetCommand)
@target_options
@json_option
def test_client(target: str, as_json: bool, config: Path | None, **bridge: Any) -> int:
    """Test a server or agent: connect, list, ping; with timings.

    TARGET is a configured server, a source of a running bridge, file.py[:Class], a URL, or, after --, a command.
    """
    with imported_for_good():
        from gaia_bridge.client.transport_factory import secrets_of
        from gaia_bridge.text.redaction import Redactor

    reached = target_of(target, config, **bridge)
    probed = _probed(reached, show_all=True)
    problems = list(map(Redactor(secrets_of(reached.spec)), probed.problems))
    probed = replace(probed, problems=problems)
    handshake = probed.handshake
    facts: JSON = {
        "server": handshake.info,
        "protocolVersion": handshake.revision,
        "era": handshake.era.value,
        "capabilities": handshake.capabilities,
        "connectSeconds": round(probed.connected, 4),
        "listSeconds": round(probed.listed, 4),
        "pingSeconds": None if probed.ping is None else round(probed.ping, 5),
        "definitions": {kind: len(items) for kind, items in probed.definitions.items()},
        "problems": probed.problems,
    }
    if as_json:
        print_json(facts)
    else:
        _print_test(reached.name, probed)
    return ExitCode.UNAVAILABLE if probed.problems else ExitCode.OK


def _print_test(name: str, probed: Probe) -> None:
    handshake = probed.handshake
    who = (
        one_line(" ".join(str(handshake.info.get(key, "")) for key in ("name", "version"))) or "a server without a name"
    )
    counts = ", ".join(
        f"{len(items)} {kind}{'' if len(items) == 1 else 's'}" for kind, items in probed.definitions.items()
    )
    lines = [
        ("server", who),
        ("protocol", f"{handshake.revision} ({handshake.era.value})"),
        ("capabilities", one_line(", ".join(handshake.capabilities)) or "none"),
        ("connected", f"in {probed.connected * 1000:.0f} ms"),
        ("listed", f"{counts or 'nothing'}, in {probed.listed * 1000:.0f} ms"),
        ("ping", "not answered" if probed.ping is None else f"{probed.ping * 1000:.1f} ms"),
    ]
    for label, text in lines:
        click.echo(f"{label:<13} {text}")
    for problem in probed.problems:
        click.echo(f"{click.style('problem', fg='red'):<13} {one_line(problem)}")
    if not probed.problems:
        click.echo(f"{name} works")


def _probed(reached: Target, show_all: bool = False) -> Probe:
    with imported_for_good():
        from gaia_bridge_cli.servers.server_probe import probe

    return reached.reach(partial(probe, options=reached.spec.options), show_all=show_all)


def _is_about_asking(reason: str) -> bool:
    """Return whether a call failed because the user could not be asked: servers have texts of their own for that."""
    # A failed input() is answered in no terminal: the tool itself has to be changed.
    return "input()" not in reason and any(word in reason.lower() for word in ("elicit", "sampling"))


def _print_answer(tool: str, answer: CallAnswer) -> None:
    """Print the answer of a tool; if the tool failed, on standard error, since that is no result."""
    content, structured = answer.result.get("content"), answer.result.get("structuredContent")
    blocks = content if is_array(content) else []
    if answer.failed:
        says_why = blocks or structured is not None
        click.echo(f"{tool} failed{':' if says_why else ', and does not say why'}", err=True)
    style = ContentStyle(terminal=(sys.stderr if answer.failed else sys.stdout).isatty())
    for block in blocks:
        text = render_block(block, style)
        click.echo(text.encode(errors="backslashreplace"), err=answer.failed)
    if not blocks and structured is not None:
        print_json(structured)
    elif not blocks and not answer.failed:
        click.echo(f"{tool} answered with nothing", err=True)
