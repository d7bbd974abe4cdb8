"""`gaia-bridge trust`, `login`: the user's approval, or login, before a server is used."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaia_bridge.text.escaping import printable
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.common import (
    Activity,
    complete_server,
    config_option,
    configured,
    entry_of_server,
    json_option,
    print_json,
    unknown_hint,
)

if TYPE_CHECKING:
    from gaia_bridge.client.transport import Transport
    from gaia_bridge.config import Layer, TrustStore
    from gaia_bridge.config.launching.programs import Programs
    from gaia_bridge.text.json_types import JSON


@click.command(short_help="Approve the servers of a project.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_server)
@click.option("--yes", is_flag=True, help="Approve without asking; the launch lines are shown all the same.")
@click.option("--list", "only_list", is_flag=True, help="Show what is and what is not approved, and change nothing.")
@click.option("--revoke", is_flag=True, help="Take approvals back.")
@json_option
@config_option
def trust(names: tuple[str, ...], yes: bool, only_list: bool, revoke: bool, as_json: bool, config: Path | None) -> int:
    """Approve servers that the current folder's mcp_servers.json lists.

    A project's file lists programs to start, and a stranger may have written it. Each launch line is shown whole; an
    approval holds for exactly that line and the programs of the project that it runs, and after any change of them you
    are asked again. With --json, there are no questions. A file that is named with --config needs approvals only for
    changes to it while `serve` runs in its folder, and for servers in it that an agent beside it would load.
    """
    from gaia_bridge.config import TrustStore

    if yes + only_list + revoke > 1:
        raise click.UsageError("--yes, --list and --revoke do not go together")
    store = TrustStore()
    file = _file(config)
    if revoke:
        return _revoke(store, file, names, as_json)
    entries = _listed(file, names)
    approved = True
    if yes or not (only_list or as_json):
        waiting = {name: entry for name, entry in entries.items() if not _is_approved(store, file, name, entry)}
        approved = _approve(store, file, waiting, yes, as_json)
    if only_list or as_json:
        _show_state({name: _is_approved(store, file, name, entry) for name, entry in entries.items()}, as_json)
    return ExitCode.OK if approved else ExitCode.CONFIG


def _file(config: Path | None) -> Layer:
    """Return the project's file, or the named one; with those servers of the user's that are started in this folder.

    Raises:
        ConfigError: In this folder, the file is the user's own.
    """
    from msgspec.structs import replace

    from gaia_bridge.config import LayerKind
    from gaia_bridge.errors import ConfigError

    *below, top = configured(config).layers
    if top.kind is LayerKind.GLOBAL:
        raise ConfigError(str(top.path), "is your own file, which needs no approval", "change to a project's folder")
    own = {name: each for layer in below for name, each in layer.entries.items() if layer.approved_as(each) is not None}
    return replace(top, entries={**own, **top.entries})


def _is_approved(store: TrustStore, file: Layer, name: str, entry: JSON) -> bool:
    return store.is_approved(file.approved_as(entry) or file.path, name, entry)


def _listed(file: Layer, names: tuple[str, ...]) -> dict[str, JSON]:
    """Return the entries that were named, or all that can be approved.

    Raises:
        ConfigError: The file cannot be used, or does not list one of the names.
    """
    from gaia_bridge.errors import ConfigError
    from gaia_bridge.text.json_types import is_object

    if file.error is not None:
        raise file.error
    for name in names:
        if name not in file.entries:
            raise ConfigError(str(file.path), f"lists no server {name!r}", unknown_hint(list(file.entries), name))
        if not is_object(file.entries[name]):
            problem = f"server {name!r} is no object"
            raise ConfigError(str(file.path), problem, 'expected {"command": ...} or {"url": ...}')
    wanted = names or tuple(file.entries)
    return {name: entry for name, entry in file.entries.items() if name in wanted and is_object(entry)}


def _approve(store: TrustStore, file: Layer, waiting: dict[str, JSON], yes: bool, as_json: bool) -> bool:
    """Approve waiting entries, asking about each unless `yes` is given; return whether all are approved then.

    The questions are shown on standard error, where they are seen although the output may go elsewhere.
    """
    if not waiting:
        click.echo("nothing is waiting for approval", err=as_json)
    elif not yes and not can_ask():
        raise NobodyToAskError("there is no terminal to ask on; --yes approves without asking")
    approved = True
    for name, entry in waiting.items():
        place = file.approved_as(entry) or file.path
        _show(place, name, entry, err=as_json or not yes)
        if yes or _agrees():
            store.approve(place, name, entry)
            click.echo(f"{printable(name)} is approved", err=as_json)
        else:
            approved = False
            again = printable(f"gaia-bridge trust {shlex.quote(name)}", None)
            click.echo(f"{printable(name)} is not approved, and not started; to be asked again: {again}", err=True)
    return approved


def _show(file: Path, name: str, entry: JSON, err: bool) -> None:
    """Show the whole launch line, in a harmless form."""
    from gaia_bridge.config.launching.programs import programs_of
    from gaia_bridge_desk.review.launch_lines import launch_line_text, launch_warnings

    click.echo(f"\n{click.style(printable(name, None), bold=True)}, from {printable(str(file), None)}:", err=err)
    click.echo(launch_line_text(entry), err=err)
    launched = programs_of(entry, file.parent)
    shown = [os.path.relpath(path, file.parent) for path in launched.files]
    programs = [
        f"{printable(name)} is run, and lies here; look at it as well: it is approved as it is" for name in shown
    ]
    for warning in (*launch_warnings(entry), *programs, *_whole_warnings(launched)):
        click.echo(f"{click.style('caution', fg='yellow')}: {warning}", err=err)


def _whole_warnings(programs: Programs) -> Iterator[str]:
    """Yield warnings about a line that can run more of the project than it names."""
    from gaia_bridge.config.trust import WHOLE_FILES, whole_files

    if programs.whole is None:
        return
    place = printable(str(programs.whole), None)
    yield f"{programs.reason}, so that it can run anything in {place}: any change there will ask again"
    if not whole_files(programs.whole)[1]:
        yield (
            f"{place} has more than {WHOLE_FILES:,} files: a change of the others is not noticed; do not approve it "
            "unless you trust whoever can write there"
        )


def _agrees() -> bool:
    try:
        return click.confirm("Start this whenever it is needed?", default=False, err=True)
    except click.Abort:
        click.echo(err=True)  # the answer that did not come was to end the line
        raise


def _revoke(store: TrustStore, file: Layer, names: tuple[str, ...], as_json: bool) -> int:
    """Revoke approvals, also of servers that the file no longer lists."""
    chosen = names or tuple(_listed(file, ()))
    for name in chosen:
        was_approved = store.revoke(file.approved_as(file.entries.get(name)) or file.path, name)
        click.echo(f"{printable(name)} {'is no longer' if was_approved else 'was not'} approved", err=as_json)
    if as_json:
        _show_state(dict.fromkeys(chosen, False), as_json)
    return ExitCode.OK


@click.command()
@click.argument("name", shell_complete=complete_server)
@click.option("--again", is_flag=True, help="Forget the login that is kept, and log in anew, perhaps as somebody else.")
@json_option
@config_option
def login(name: str, again: bool, as_json: bool, config: Path | None) -> int:
    """Log in to a server on the network, in the browser.

    A login that is kept, and that the server still accepts, is left as it is.
    """
    from msgspec.structs import replace

    with imported_for_good():
        from gaia_bridge.client.oauth.interaction import BrowserInteraction
        from gaia_bridge.client.oauth.provider import oauth_for
        from gaia_bridge.errors import ConfigError
        from gaia_bridge.model import HttpServerSpec, OpenApiServerSpec
        from gaia_bridge.settings import UpstreamLimits
        from gaia_bridge_cli.servers.common import usable_spec
        from gaia_bridge_cli.servers.server_connection import reach
        from gaia_bridge_cli.servers.server_probe import Probe, probe

    servers = configured(config)
    spec = usable_spec(servers, name)
    if not isinstance(spec, HttpServerSpec):
        layer, _ = entry_of_server(servers, name)
        kind = "an API with an OpenAPI document" if isinstance(spec, OpenApiServerSpec) else "a program"
        raise ConfigError(str(layer.path), f"server {name!r} is {kind}; there is nothing to log in to")
    limits = UpstreamLimits()
    patience = limits.login_timeout + limits.connect_timeout
    # The login happens inside of the first request.
    spec = replace(spec, options=replace(spec.options, startup_timeout=patience, timeout=patience))
    patient = replace(limits, connect_timeout=patience, probe_timeout=patience, list_timeout=patience)
    kept = oauth_for(spec, limits) if again else None

    async def ask(transport: Transport, bounds: UpstreamLimits, activity: Activity) -> Probe:
        if kept is not None:
            await kept.forget()
        return await probe(transport, bounds, activity)

    probed = reach(spec, ask, limits=patient, interaction=lambda tell: BrowserInteraction(tell, limits))
    number = len(probed.definitions.get("tool", []))
    if as_json:
        print_json({"server": name, "tools": number})
    else:
        click.echo(f"{name} lets you in: {number} tool{'' if number == 1 else 's'}")
    return ExitCode.OK


def _show_state(state: dict[str, bool], as_json: bool) -> None:
    if as_json:
        print_json({"servers": [{"name": name, "approved": approved} for name, approved in state.items()]})
        return
    for name, approved in state.items():
        click.echo(f"{printable(name)}: {'approved' if approved else 'not approved'}")
