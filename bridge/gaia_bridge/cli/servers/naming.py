"""What the commands share: the files that count, and the server that was named."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaia_bridge.errors import ConfigError

if TYPE_CHECKING:
    from gaia_bridge.config import Layer, ServersConfig
    from gaia_bridge.jsontypes import JSON
    from gaia_bridge.model import ServerSpec

__all__ = [
    "complete_server",
    "config_option",
    "entry_of_server",
    "json_option",
    "print_json",
    "print_rows",
    "unknown_hint",
    "usable_spec",
]

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """`--config FILE`: the only file that counts."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Use this file alone, instead of ~/.gaia/mcp_servers.json with ./mcp_servers.json over it.",
    )(command)


def json_option(command: F) -> F:
    """`--json`: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def complete_server(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The servers whose names begin so, for a shell."""
    from gaia_bridge.config import ServersConfig

    names = ServersConfig(ctx.params.get("config")).entries
    return [name for name in names if name.startswith(incomplete)]


def entry_of_server(config: ServersConfig, name: str) -> tuple[Layer, JSON]:
    """The entry that counts of a server, and the file that has it.

    Raises:
        ConfigError: There is no such server, or its entry is no object.
    """
    from gaia_bridge.jsontypes import is_object

    layer = config.owner(name)
    if layer is None:
        for broken in config.layers:
            if broken.error is not None:
                raise broken.error
        raise ConfigError(repr(name), "no configured server has that name", unknown_hint(list(config.entries), name))
    entry = layer.entries[name]
    if not is_object(entry):
        raise ConfigError(str(layer.path), f"server {name!r} is no object", 'expected {"command": ...} or {"url": ...}')
    return layer, entry


def usable_spec(config: ServersConfig, name: str) -> ServerSpec:
    """How to reach a server. One that a project lists must have been approved (S-25).

    Raises:
        ConfigError: There is no such server, it was not approved, or its entry cannot be used.
    """
    from gaia_bridge.config import EntryError, LayerKind, TrustStore, parse_entry

    layer, entry = entry_of_server(config, name)
    if layer.kind is LayerKind.LOCAL and not TrustStore().is_approved(layer.path, name, entry):
        problem = f"the project's file lists server {name!r}, and its launch line was not approved"
        raise ConfigError(str(layer.path), problem, f"run: gaia-bridge trust {name}")
    try:
        return parse_entry(name, entry, layer.path.parent).spec
    except EntryError as error:
        raise ConfigError(str(layer.path), f"server {name!r}: {error}") from None


def print_json(value: object) -> None:
    """Print a result for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table: with lines and as wide as the terminal if there is one, in plain columns if not."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, box=SIMPLE)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def unknown_hint(names: list[str], wanted: str) -> str:
    """What to say to somebody who named something that is not there.

    Args:
        names: What there is.
        wanted: What was named.
    """
    if close := difflib.get_close_matches(wanted, names, 1):
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"
