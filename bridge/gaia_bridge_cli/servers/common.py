"""Shared by the commands: the files of servers, the server that was named, and the output."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.likeness import did_you_mean

if TYPE_CHECKING:
    from rich.progress import Progress

    from gaia_bridge.config import Layer, ServersConfig
    from gaia_bridge.model import ServerSpec
    from gaia_bridge.text.json_types import JSON

F = TypeVar("F", bound=Callable[..., Any])

_ASKED_FIRST = "server/discover"
"""The first request to a server, to find out its era; many of the legacy era write pages of errors about it."""

_SUGGESTED = 20
"""The most names that are listed after an unknown name."""


def era_note(lines: Iterable[str]) -> str:
    """Return a note for people about the error output of a server, before they look for a fault; mostly empty.

    Args:
        lines: The error output.
    """
    if any(_ASKED_FIRST in line for line in lines):
        asked = f"it was asked for its era ({_ASKED_FIRST}), which it does not know"
        return f"note: {asked}; what it wrote of that is no fault"
    return ""


def config_option(command: F) -> F:
    """Add `--config FILE`: the only file of servers to use."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Use this file alone, instead of ~/.gaia/mcp_servers.json with ./mcp_servers.json over it.",
    )(command)


def json_option(command: F) -> F:
    """Add `--json`: output for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def complete_server(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the servers whose names begin with a text, for a shell."""
    from gaia_bridge.config import ServersConfig

    names = ServersConfig(ctx.params.get("config")).entries
    return [name for name in names if name.startswith(incomplete)]


def configured(config: Path | None) -> ServersConfig:
    """Return the files of servers that apply.

    Raises:
        ConfigError: The file that was named does not exist.
    """
    from gaia_bridge.config import LayerKind, LayerState, ServersConfig

    servers = ServersConfig(config, strict=True)
    for layer in servers.layers:
        if layer.kind is LayerKind.EXPLICIT and layer.state is LayerState.ABSENT:
            raise ConfigError(str(layer.path), "there is no such file", "`gaia-bridge add` with --config makes it")
    return servers


def entry_of_server(config: ServersConfig, name: str) -> tuple[Layer, JSON]:
    """Return the entry of a server that takes effect, and the file that has it.

    Raises:
        ConfigError: There is no such server, or its entry is no object.
    """
    from gaia_bridge.text.json_types import is_object

    layer = config.owner(name)
    if layer is None:
        for broken in config.layers:
            if broken.error is not None:
                raise broken.error
        hint = unknown_hint(list(config.entries), name) if config.entries else "add one: gaia-bridge add NAME COMMAND"
        raise ConfigError(repr(name), "no configured server has that name", hint)
    entry = layer.entries[name]
    if not is_object(entry):
        raise ConfigError(str(layer.path), f"server {name!r} is no object", 'expected {"command": ...} or {"url": ...}')
    return layer, entry


def usable_spec(config: ServersConfig, name: str) -> ServerSpec:
    """Return the specification of a server. One that a project lists must have been approved.

    Raises:
        ConfigError: There is no such server, it is disabled or was not approved, or its entry cannot be used.
    """
    from gaia_bridge.config import EntryError, TrustStore
    from gaia_bridge.config.layers import is_local
    from gaia_bridge.text.json_types import is_object

    layer, entry = entry_of_server(config, name)
    _refuse_disabled(config, layer, name)
    approved_as = layer.approved_as(entry)
    if approved_as is not None and not TrustStore().is_approved(approved_as, name, entry):
        if not is_local(layer):
            problem = f"server {name!r} is started in the current folder, and was not approved there"
            raise ConfigError(str(layer.path), problem, f"run: gaia-bridge trust {shlex.quote(name)}")
        problem = f"the project's file lists server {name!r}, and its launch line was not approved"
        below = next(
            (other for other in config.layers if other is not layer and is_object(other.entries.get(name))), None
        )
        if below is None:
            raise ConfigError(str(layer.path), problem, f"run: gaia-bridge trust {shlex.quote(name)}")
        click.echo(printable(f"note: {layer.path}: {problem}; that of {below.path} is used", None), err=True)
        layer, entry = below, below.entries[name]
        _refuse_disabled(config, layer, name)
    try:
        return layer.parsed(name, entry).spec
    except EntryError as error:
        raise ConfigError(str(layer.path), f"server {name!r}: {error}") from None


def _refuse_disabled(config: ServersConfig, layer: Layer, name: str) -> None:
    from gaia_bridge.config import LayerKind, is_disabled

    if is_disabled(layer.entries[name]):
        option = f" --config {shlex.quote(str(layer.path))}" if layer.kind is LayerKind.EXPLICIT else ""
        here = layer is config.owner(name)
        hint = f"to use it: gaia-bridge enable {shlex.quote(name)}{option}" if here else "change that there"
        raise ConfigError(str(layer.path), f"server {name!r} is disabled", hint)


def print_json(value: object) -> None:
    """Print a result for programs, in a form that is harmless for terminals."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


def print_rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table: as wide as a terminal if there is one, in plain columns if not, with headers in both."""
    rows = [tuple(map(printable, row)) for row in rows]
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
    for row in (header, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


class Activity:
    """The display of the step that a command waits for.

    Args:
        display: Shows the step, on the last line of a terminal; without one, only lines are shown.
        text: The first step.

    Attributes:
        is_connected: Whether the command has connected to the server.
    """

    def __init__(self, display: Progress | None = None, text: str = "") -> None:
        self.is_connected = False
        self._display = display
        self._task = None if display is None else display.add_task(one_line(text), total=None)

    @property
    def is_live(self) -> bool:
        """Whether the step is shown on a terminal."""
        return self._display is not None

    def doing(self, text: str) -> None:
        """Show the step that the command waits for from now on."""
        if self._display is not None and self._task is not None:
            self._display.update(self._task, description=one_line(text))

    def connected(self, text: str) -> None:
        """Show that the server is connected, and the step that follows."""
        self.is_connected = True
        self.doing(f"connected; {text}")

    def progress(self, text: str) -> None:
        """Show the progress; without a terminal, as a line."""
        (self.say if self._display is None else self.doing)(one_line(text))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Hide the display during the block, which shows something else."""
        if self._display is not None:
            self._display.stop()
        try:
            yield
        finally:
            if self._display is not None:
                self._display.start()

    def say(self, line: str) -> None:
        """Show a line that stays, without interpreting its content."""
        if self._display is None:
            click.echo(line, err=True)
        else:
            from rich.text import Text

            self._display.console.print(Text(line), soft_wrap=True)


@contextmanager
def activity(text: str) -> Generator[Activity]:
    """Show on standard error that a step takes time, during the block. The display is removed in the end.

    Args:
        text: The description of the step.
    """
    if not sys.stderr.isatty():
        yield Activity()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    what = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    with Progress(
        *(SpinnerColumn(), what, TimeElapsedColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    ) as display:
        yield Activity(display, text)


def unknown_name(target: str, kind: str, name: str | None, names: list[str], reason: str = "") -> click.UsageError:
    """Return the error for a tool, prompt or resource that a target does not have, or that was not named.

    Args:
        target: The server or agent.
        kind: The kind: `tool`.
        name: The name that was given, if one was.
        names: The names that exist, from any origin.
        reason: More about the refusal.
    """
    if name is None:
        return click.UsageError(f"which {kind}? {unknown_hint(names, '')}")
    return click.UsageError(f"{target} has no {kind} {name!r} ({unknown_hint(names, name)}){reason}")


def unknown_hint(names: list[str], wanted: str) -> str:
    """Return the hint for a user who gave an unknown name.

    Args:
        names: The names that exist, from any origin.
        wanted: The name that was given.
    """
    if hint := did_you_mean(wanted, names):
        return hint
    if not names:
        return "there are none"
    more = len(names) - _SUGGESTED
    shown = ", ".join(one_line(name, 100) for name in names[:_SUGGESTED])
    return f"there are: {shown}" + (f" and {more} more" if more > 0 else "")
