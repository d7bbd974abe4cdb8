"""`gaia-bridge trust`, `login`: what the user has to agree to before a server is used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaia_bridge.cli.exits import ExitCode
from gaia_bridge.cli.servers.naming import complete_server, config_option, entry_of_server, json_option, print_json

if TYPE_CHECKING:
    from gaia_bridge.config import TrustStore
    from gaia_bridge.jsontypes import JSON

__all__ = ["login", "trust"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_server)
@click.option("--yes", is_flag=True, help="Approve without asking; the launch lines are shown all the same.")
@click.option("--list", "only_list", is_flag=True, help="Show what is and what is not approved, and change nothing.")
@click.option("--revoke", is_flag=True, help="Take approvals back.")
@json_option
def trust(names: tuple[str, ...], yes: bool, only_list: bool, revoke: bool, as_json: bool) -> int:
    """Approve servers that the current folder's mcp_servers.json lists.

    A project's file says what would be started, and a stranger may have written it. Each launch line is shown whole;
    an approval holds for exactly that line, and any change of it asks again.
    """
    from gaia_bridge.config import TrustStore

    store = TrustStore()
    file, entries = _listed(names)
    state = {name: store.is_approved(file, name, entry) for name, entry in entries.items()}
    if as_json or only_list:
        _show_state(state, as_json)
        return ExitCode.OK
    if revoke:
        for name in entries:
            if store.revoke(file, name):
                click.echo(f"{name} is no longer approved")
        return ExitCode.OK
    waiting = {name: entry for name, entry in entries.items() if not state[name]}
    if not waiting:
        click.echo("nothing is waiting for approval")
        return ExitCode.OK
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; --yes approves without asking")
    approved = [_ask(store, file, name, entry, yes) for name, entry in waiting.items()]
    return ExitCode.OK if all(approved) else ExitCode.CONFIG


def _listed(names: tuple[str, ...]) -> tuple[Path, dict[str, JSON]]:
    """The project's file, and of its entries those that were named, or all.

    Raises:
        ConfigError: The file cannot be used, or does not list one that was named.
    """
    from gaia_bridge.config import LayerKind, ServersConfig
    from gaia_bridge.errors import ConfigError
    from gaia_bridge.jsontypes import is_object

    [local] = [layer for layer in ServersConfig().layers if layer.kind is LayerKind.LOCAL]
    if local.error is not None:
        raise local.error
    for name in names:
        if name not in local.entries:
            listed = ", ".join(local.entries) or "none"
            raise ConfigError(str(local.path), f"lists no server {name!r}", f"it lists: {listed}")
    wanted = names or tuple(local.entries)
    return local.path, {name: entry for name, entry in local.entries.items() if name in wanted and is_object(entry)}


def _ask(store: TrustStore, file: Path, name: str, entry: JSON, yes: bool) -> bool:
    """Show a launch line and ask about it; whether it is approved then."""
    from gaia_bridge.config import launch_line_text, launch_warnings

    click.echo(f"\n{click.style(name, bold=True)}, from {file}:")
    click.echo(launch_line_text(entry))
    for warning in launch_warnings(entry):
        click.echo(f"{click.style('caution', fg='yellow')}: {warning}")
    if not yes and not click.confirm("Start this whenever it is needed?", default=False):
        return False
    store.approve(file, name, entry)
    click.echo(f"{name} is approved")
    return True


@click.command()
@click.argument("name", shell_complete=complete_server)
@config_option
def login(name: str, config: Path | None) -> int:
    """Log in to a server on the network, in the browser."""
    from dataclasses import replace

    from gaia_bridge.cli.servers.naming import usable_spec
    from gaia_bridge.cli.servers.probing import probe
    from gaia_bridge.cli.servers.reaching import reach
    from gaia_bridge.config import ServersConfig
    from gaia_bridge.errors import ConfigError
    from gaia_bridge.model import HttpServerSpec
    from gaia_bridge.outbound.oauth.interaction import BrowserInteraction
    from gaia_bridge.settings import UpstreamLimits

    servers = ServersConfig(config)
    spec = usable_spec(servers, name)
    if not isinstance(spec, HttpServerSpec):
        layer, _ = entry_of_server(servers, name)
        raise ConfigError(str(layer.path), f"server {name!r} is a program; there is nothing to log in to")
    limits = UpstreamLimits()
    patience = limits.login_timeout + limits.connect_timeout
    # The login happens inside of the first request.
    spec = replace(spec, options=replace(spec.options, startup_timeout=patience, timeout=patience))

    def tell(line: str) -> None:
        click.echo(line, err=True)

    patient = replace(limits, connect_timeout=patience, probe_timeout=patience, list_timeout=patience)
    found = reach(spec, probe, limits=patient, interaction=BrowserInteraction(tell, limits))
    click.echo(f"{name} lets you in: {len(found.definitions.get('tool', []))} tools")
    return ExitCode.OK


def _show_state(state: dict[str, bool], as_json: bool) -> None:
    if as_json:
        print_json({"servers": [{"name": name, "approved": approved} for name, approved in state.items()]})
        return
    for name, approved in state.items():
        click.echo(f"{name}: {'approved' if approved else 'not approved'}")
