"""`gaia-bridge list`, `logs`: the configured servers, and the error output of a server."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import click

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.servers.common import (
    complete_server,
    config_option,
    configured,
    entry_of_server,
    era_note,
    json_option,
    print_json,
    print_rows,
)
from gaia_bridge_cli.servers.targets import TargetCommand, command_of

if TYPE_CHECKING:
    from gaia_bridge.config import Layer, TrustStore
    from gaia_bridge.text.json_types import JSON

_FOLLOW_INTERVAL = 0.5
"""Seconds between two checks for new lines."""

_LATEST = 30
"""The last lines of a log, which may give the reason why a server does not start now."""

_LOGGED = re.compile(r"\S+ \S+ \[(?P<process>\d+)\] (?P<text>.*)")
"""A line as `server_logs` writes it."""


@click.command("list", short_help="Show the configured servers.")
@json_option
@config_option
def list_servers(as_json: bool, config: Path | None) -> int:
    """Show the configured servers, where they come from, and which are used."""
    from gaia_bridge.config import LayerKind, TrustStore
    from gaia_bridge.config.layers import is_local

    servers = configured(config)
    trust = TrustStore()
    report = servers.resolve(trust=trust, asks=lambda layer: not config and is_local(layer))
    listed: list[JSON] = []
    for layer_report in report.layers:
        layer, used = layer_report.layer, {spec.name for spec in layer_report.servers}
        reasons = {item.name: item.reason for item in layer_report.skipped}
        for name, entry in layer.entries.items():
            if name in layer_report.overridden:
                continue
            listed.append(
                {
                    "name": name,
                    "from": layer.kind.value,
                    "file": str(layer.path),
                    "server": address_of(entry),
                    "era": _era(entry),
                    "used": name in used,
                    "reason": reasons.get(name, ""),
                    "approved": layer.kind is not LayerKind.LOCAL or _approved(trust, layer, name, entry),
                }
            )
    errors = [str(error) for error in report.errors]
    if as_json:
        print_json({"servers": listed, "errors": errors, "warnings": list(report.warnings)})
    else:
        rows: list[tuple[str, ...]] = [
            (
                row["name"],
                row["from"],
                _with_era(row),
                "yes" if row["used"] else one_line(row["reason"]),
            )
            for row in listed
        ]
        if rows:
            print_rows(("name", "from", "server", "used"), rows)
        elif not errors:
            click.echo("no servers are configured; add one with: gaia-bridge add NAME COMMAND", err=True)
        for label, texts in (("warning", report.warnings), ("error", errors)):
            for text in texts:
                click.echo(f"{label}: {printable(text)}", err=True)
    return ExitCode.CONFIG if errors else ExitCode.OK


@click.command(cls=TargetCommand, short_help="Show what a server wrote to its error output.")
@click.argument("name", metavar="TARGET", shell_complete=complete_server)
@click.option("-n", "--lines", type=click.IntRange(1), default=50, show_default=True, help="How many lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more lines come, until Ctrl-C.")
@json_option
@config_option
def logs(name: str, lines: int, follow: bool, as_json: bool, config: Path | None) -> int:
    """Show what a server wrote to its error output while `serve` ran.

    TARGET is the name of a server, or its URL at a running bridge.
    """
    from gaia_bridge_cli.server_logs import ServerLogs, default_log_folder

    name = _logged_name(name)
    if as_json and follow:
        raise click.UsageError("--json and --follow do not go together: JSON has an end")
    with ServerLogs(default_log_folder()).reader(name) as reader:
        written = reader.read()
        if not follow:  # with --follow, a line is shown when it is complete
            written += reader.unfinished()
        if not written:
            entry_of_server(configured(config), name)
        if as_json:
            print_json({"server": name, "lines": written[-lines:]})
            return ExitCode.OK
        if not written:
            click.echo(f"{name} has written nothing so far", err=True)
        _echo_lines(written[-lines:])
        if note := era_note(written[-lines:]):
            click.echo(note, err=True)
        _tell_cause(config, name, written)
        while follow:
            time.sleep(_FOLLOW_INTERVAL)
            _echo_lines(reader.read())
    return ExitCode.OK


def _tell_cause(config: Path | None, name: str, lines: list[str]) -> None:
    """Report what to do, if the last lines of a server give the reason why it does not start."""
    from gaia_bridge.config import EntryError
    from gaia_bridge.config.launching.failure_causes import cause_for

    latest = [match for line in lines[-_LATEST:] if (match := _LOGGED.fullmatch(line))]
    output = [match["text"] for match in latest if match["process"] == latest[-1]["process"]]
    try:
        layer, entry = entry_of_server(configured(config), name)
        spec = layer.parsed(name, entry).spec
    except (ConfigError, EntryError):
        return
    if (cause := cause_for(spec, output, os.environ)) is not None:
        click.echo(printable(f"note: if it does not start: {cause}", None), err=True)


def _logged_name(target: str) -> str:
    """Return the name of a server whose error output may have been kept.

    Raises:
        click.UsageError: The target has no such log; the message says where its output goes.
    """
    if words := command_of():
        raise click.UsageError(
            "what a command wrote is kept only where `serve` runs it; to see it:"
            f" gaia-bridge test-client -- {shlex.join(words)}"
        )
    if re.fullmatch(r"https?://.*", target, re.IGNORECASE):
        if published := re.search(r"/servers/([^/?#]+)(?:/(?:mcp|sse))?/?$", target):
            return unquote(published[1])
        raise click.UsageError(
            f"{target!r} keeps its error output where it runs; expected a server that `serve` started"
        )
    if re.fullmatch(r".+\.py(:.*)?", target):
        raise click.UsageError(
            f"{target!r} is an agent, whose log is that of `serve`; expected a server that `serve` started"
        )
    return target


def _echo_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(printable(line, limit=None))


def _approved(trust: TrustStore, layer: Layer, name: str, entry: object) -> bool:
    from gaia_bridge.text.json_types import is_object

    return is_object(entry) and trust.is_approved(layer.path, name, entry)


def _era(entry: object) -> str:
    from gaia_bridge.text.json_types import is_object

    return str(entry.get("era") or "auto") if is_object(entry) else "auto"


def _with_era(row: JSON) -> str:
    era = row["era"]
    width = 60 if sys.stdout.isatty() else 1_000  # programs get the whole text
    return one_line(row["server"], width) + ("" if era == "auto" else f" ({one_line(era, 20)} only)")


def address_of(entry: object) -> str:
    """Return the address or command line of an entry, in short, without possible secrets."""
    from gaia_bridge.config.expansion import without_references
    from gaia_bridge.text.json_types import is_array, is_object
    from gaia_bridge.text.redaction import redacted

    if not is_object(entry):
        return "(no object)"
    if "openapi" in entry:
        return redacted(f"OpenAPI {entry['openapi']}".partition("?")[0])
    if "url" in entry:
        return redacted(str(entry["url"]).partition("?")[0])
    args = entry.get("args")
    words = [str(entry.get("command", "")), *(map(str, args) if is_array(args) else ())]
    line = " ".join(words)
    plain = without_references(line)  # references are no secrets
    return line if redacted(plain) == plain else redacted(line)
