"""`gaia-bridge status`, `completion`: the state of a running bridge; help for shells."""

from __future__ import annotations

import click

from gaia_bridge.text.escaping import one_line
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.options import bridge_options, bridge_url
from gaia_bridge_cli.servers.common import json_option, print_json, print_rows

_WHY = 1_000
"""Characters of a reason that are shown: the remedy stands at its end."""


@click.command(short_help="Show how a running bridge is.")
@bridge_options
@json_option
def status(host: str | None, port: int | None, url: str | None, as_json: bool) -> int:
    """Show how the agents and servers of a running bridge are, and what of the configuration it leaves out."""
    from gaia_bridge_cli.running_bridge import (
        bridge_status,  # slow to load: every start of the program would pay
    )

    report = bridge_status(bridge_url(host, port, url))
    if as_json:
        print_json(report)
        return ExitCode.OK
    rows: list[tuple[str, ...]] = []
    for source in report.get("sources", []):
        tools = f"{source['tools']} tool{'' if source['tools'] == 1 else 's'}"
        why = "; ".join(filter(None, (source["reason"], source.get("connection", {}).get("cause"))))
        rows.append((source["name"], source["kind"], source["state"], tools, one_line(why, _WHY)))
        rows += [
            ("", f"for {other['era']}", other["state"], "", one_line(other["reason"]))
            for other in source.get("connection", {}).get("otherEras", [])
        ]
    rows += [
        (one_line(item["name"]), item["kind"], "left out", "", one_line(item["reason"]))
        for item in report.get("leftOut", [])
    ]
    rows += [
        (one_line(item["client"]), "client", "searches", f"{item['tools']} tools", f"it takes at most {item['limit']}")
        for item in report.get("toolSearch", {}).get("clients", [])
    ]
    print_rows(("name", "kind", "state", "offers", "why"), rows)
    return ExitCode.OK


@click.command(short_help="Make a shell complete commands and names.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print what makes a shell complete commands and names of servers.

    For bash: eval "$(gaia-bridge completion bash)"
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    name = root.info_name or "gaia-bridge"
    variable = f"_{name.replace('-', '_').replace('.', '_').replace(' ', '_')}_COMPLETE".upper()
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, name, variable).source())
    return ExitCode.OK
