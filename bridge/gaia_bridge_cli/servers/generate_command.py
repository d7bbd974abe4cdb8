"""`gaia-bridge generate client`: a typed client of a server, as Python code."""

from __future__ import annotations

import keyword
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.servers.targets import TargetCommand, target_of, target_options

if TYPE_CHECKING:
    from gaia_bridge_cli.servers.server_probe import Probe
    from gaia_bridge_cli.servers.targets import Target
    from gaia_bridge_desk.client_code import ServerOffer

_MARK = "`gaia-bridge generate client`"
"""A text in the first lines of every generated file."""

_HEAD = 500
"""Characters in which that text is searched for."""


class _Generate(TargetCommand):
    target_last = True


@click.command(cls=_Generate, short_help="Write a typed Python client of a server or agent.")
@click.argument("kind", type=click.Choice(["client"]), metavar="client")
@target_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file; else it is printed.")
@click.option("--class-name", help="What its class is called.  [default: the server's name, with Client]")
def generate(
    kind: str, target: str, output: Path | None, class_name: str | None, config: Path | None, **bridge: Any
) -> int:
    """Write a typed Python client of a server or agent: a class with a method for each tool, prompt and resource.

    TARGET is what `tools` takes; a command goes last: generate client -- COMMAND. The same definitions make the same
    code. A file that was not generated is not overwritten.
    """
    if class_name is not None and (
        not class_name.isascii() or not class_name.isidentifier() or keyword.iskeyword(class_name)
    ):
        raise click.UsageError(f"--class-name {class_name!r} is no name of a class; expected letters, digits and _")
    if output is not None:
        _refuse_foreign(output)
    with imported_for_good():
        from gaia_bridge_cli.servers.server_probe import probe
        from gaia_bridge_desk.client_code import client_class, client_module

    reached = target_of(target, config, **bridge)
    probed = reached.reach(partial(probe, options=reached.spec.options))
    for problem in probed.problems:
        click.echo(f"note: {one_line(problem)}", err=True)
    offer = _offer(reached, probed)
    text = client_module(offer, class_name)
    if output is None:
        click.echo(text, nl=False)
        return ExitCode.OK
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(output), f"cannot be written: {error.strerror}", "choose another file: -o FILE") from None
    click.echo(f"wrote {output}, with the class {client_class(offer, class_name)}", err=True)
    return ExitCode.OK


def _refuse_foreign(file: Path) -> None:
    """Refuse to overwrite a file that was not generated.

    Raises:
        click.UsageError: The file exists, and was not generated.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            if _MARK in " ".join(opened.read(_HEAD).split()):
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise click.UsageError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    raise click.UsageError(f"{str(file)!r} was not generated, and is left as it is; expected another file, or none")


def _offer(reached: Target, probed: Probe) -> ServerOffer:
    """Return the features of the server, as the configuration tailors and permits them."""
    from gaia_bridge.sources.upstream.listing.tool_transforms import is_permitted
    from gaia_bridge_cli.servers.server_probe import shown_tools
    from gaia_bridge_desk.client_code import ServerOffer

    options = reached.spec.options
    shown = shown_tools(probed.definitions.get("tool", []), options.tools)
    tools = [dict(tool) for tool in shown.features.tools if is_permitted(shown.call(tool["name"], {})[0], options)]
    return ServerOffer(
        str(probed.handshake.info.get("name") or reached.name),
        tools,
        probed.definitions.get("prompt", []),
        probed.definitions.get("resource", []),
        probed.definitions.get("resource template", []),
    )
