"""`gaia-bridge search`: servers of the public registry by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.servers.common import activity, json_option, print_json, print_rows
from gaia_bridge_cli.servers.registry.options import registry_base, registry_option

if TYPE_CHECKING:
    from gaia_bridge_desk.server_registry.documents import Listed

_LONGEST: Final = 100
"""Characters of a description; the official registry takes no more."""


@click.command()
@click.argument("word")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="How many are shown.")
@registry_option
@json_option
def search(word: str, limit: int, registry: str | None, as_json: bool) -> int:
    """Find servers in the public registry.

    WORD is a part of a name, such as of io.github.USER/weather, in letters of either case. One of them is added by
    `gaia-bridge add registry:NAME`.
    """
    with imported_for_good():
        import anyio

        from gaia_bridge.settings import RegistryLimits
        from gaia_bridge_desk.server_registry.client import RegistryClient

    client = RegistryClient(registry_base(registry), RegistryLimits())
    with activity(f"asking {client.base}"):
        servers, more = anyio.run(client.search, word, limit)
    if as_json:
        print_json({"servers": [_for_programs(listed) for listed in servers], "more": more})
        return ExitCode.OK
    if not servers:
        shown = printable(word, 100)
        click.echo(f"no server of {client.base} has {shown!r} in its name; names alone are searched", err=True)
        return ExitCode.OK
    print_rows(("NAME", "VERSION", "KINDS", "DESCRIPTION"), [_row(listed) for listed in servers])
    if more:
        click.echo(f"there are more: --limit {limit * 2}, or a longer word", err=True)
    click.echo("gaia-bridge add registry:NAME adds one", err=True)
    return ExitCode.OK


def _row(listed: Listed) -> tuple[str, ...]:
    server, official = listed.server, listed.official
    description = one_line(server.description, _LONGEST)
    if official.status != "active":
        why = one_line(official.status_message, _LONGEST)
        description = f"({one_line(official.status, 20)}{f': {why}' if why else ''}) {description}"
    kinds = ", ".join(one_line(kind, 20) for kind in server.kinds[:6])
    return one_line(server.name, 200), one_line(server.version, 40), kinds or "none", description


def _for_programs(listed: Listed) -> dict[str, object]:
    server, official = listed.server, listed.official
    return {
        "name": server.name,
        "version": server.version,
        "title": server.title,
        "description": server.description,
        "kinds": server.kinds,
        "status": official.status,
        **({"statusMessage": official.status_message} if official.status_message else {}),
    }
