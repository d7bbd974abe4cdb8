"""`gaia-bridge list`, `logs`: what is configured, and what a server has said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaia_bridge.cli.exits import ExitCode
from gaia_bridge.cli.servers.naming import (
    complete_server,
    config_option,
    entry_of_server,
    json_option,
    print_json,
    print_rows,
)
from gaia_bridge.text import one_line

if TYPE_CHECKING:
    from gaia_bridge.config import Layer, TrustStore
    from gaia_bridge.jsontypes import JSON

__all__ = ["list_servers", "logs"]

_FOLLOW = 0.5
"""Seconds between two looks for new lines."""


@click.command("list")
@json_option
@config_option
def list_servers(as_json: bool, config: Path | None) -> int:
    """Show the configured servers, where they come from, and which are used."""
    from gaia_bridge.config import LayerKind, ServersConfig, TrustStore

    servers = ServersConfig(config)
    trust = TrustStore()
    report = servers.resolve(trust=None if config else trust)
    skipped = {item.name: item.reason for item in report.skipped}
    found: list[JSON] = []
    for name, entry in servers.entries.items():
        layer = servers.owner(name)
        if layer is None:
            continue
        found.append(
            {
                "name": name,
                "from": layer.kind.value,
                "file": str(layer.path),
                "server": _target(entry),
                "used": name not in skipped,
                "reason": skipped.get(name, ""),
                "approved": layer.kind is not LayerKind.LOCAL or _approved(trust, layer, name, entry),
            }
        )
    errors = [str(error) for error in report.errors]
    if as_json:
        print_json({"servers": found, "errors": errors})
    else:
        rows: list[tuple[str, ...]] = [
            (row["name"], row["from"], one_line(row["server"], 60), "yes" if row["used"] else one_line(row["reason"]))
            for row in found
        ]
        if rows:
            print_rows(("name", "from", "server", "used"), rows)
        else:
            click.echo("no servers are configured; add one with: gaia-bridge add NAME COMMAND", err=True)
        for error in errors:
            click.echo(f"error: {error}", err=True)
    return ExitCode.CONFIG if errors else ExitCode.OK


@click.command()
@click.argument("name", shell_complete=complete_server)
@click.option("-n", "--lines", type=click.IntRange(1), default=50, show_default=True, help="How many lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more lines come, until Ctrl-C.")
@config_option
def logs(name: str, lines: int, follow: bool, config: Path | None) -> int:
    """Show what a server wrote to its error output while `serve` ran."""
    from gaia_bridge.cli.server_logs import ServerLogs, default_log_folder

    kept = ServerLogs(default_log_folder())
    shown = kept.tail(name, lines)
    if not shown:
        from gaia_bridge.config import ServersConfig

        entry_of_server(ServersConfig(config), name)
        click.echo(f"{name} has written nothing", err=True)
    for line in shown:
        click.echo(line)
    while follow:
        time.sleep(_FOLLOW)
        latest = kept.tail(name, 10_000)
        new = latest[latest.index(shown[-1]) + 1 :] if shown and shown[-1] in latest else latest
        for line in new:
            click.echo(line)
        shown = latest
    return ExitCode.OK


def _approved(trust: TrustStore, layer: Layer, name: str, entry: object) -> bool:
    from gaia_bridge.jsontypes import is_object

    return is_object(entry) and trust.is_approved(layer.path, name, entry)


def _target(entry: object) -> str:
    """What is reached, in short, without what may be secret."""
    from gaia_bridge.jsontypes import is_array, is_object
    from gaia_bridge.redact import redacted

    if not is_object(entry):
        return "(no object)"
    if "url" in entry:
        return redacted(str(entry["url"]).partition("?")[0])
    args = entry.get("args")
    words = [str(entry.get("command", "")), *(map(str, args) if is_array(args) else ())]
    return redacted(" ".join(words))
