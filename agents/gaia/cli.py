"""The `gaia` command: `gaia mcp COMMAND` is `gaia-bridge COMMAND`."""

from __future__ import annotations

import sys

from gaia import __version__

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

EX_USAGE = 64
"""The exit code of a wrongly used command (sysexits.h)."""

_USAGE = "Usage: gaia mcp COMMAND [ARGS]...\n\n`gaia mcp --help` lists the commands; they are those of gaia-bridge."


def main(args: Sequence[str] | None = None) -> int:
    """Run the `gaia` command.

    Args:
        args: The command line without the program's name; default is that of this process.

    Returns:
        The process's exit code.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments[:1] == ["mcp"]:
        from gaia_bridge_cli import main as bridge

        return bridge(arguments[1:], prog_name="gaia mcp")
    return _explain(arguments)


def _explain(arguments: Sequence[str]) -> int:
    import click

    match arguments:
        case ["--help" | "-h", *_]:
            click.echo(_USAGE)
            return 0
        case ["--version", *_]:
            click.echo(f"gaia-mcp-bridge {__version__}")
            return 0
        case _:
            came = f"`gaia {arguments[0]}` is not a command" if arguments else "`gaia` needs a command"
            click.echo(f"{_USAGE}\n\nError: {came}; expected `gaia mcp`.", err=True)
            return EX_USAGE
