"""The program: its commands, and what becomes of an error. Commands import what they need when they run."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import click

from gaia_bridge import __version__
from gaia_bridge.cli.agents import agents
from gaia_bridge.cli.deadline import Deadline
from gaia_bridge.cli.exits import ExitCode, exit_code_of, innermost, is_of_output
from gaia_bridge.cli.options import is_debug
from gaia_bridge.cli.serve import serve
from gaia_bridge.cli.servers.asking import call, test_client, tools
from gaia_bridge.cli.servers.editing import add, disable, enable, remove
from gaia_bridge.cli.servers.listing import list_servers, logs
from gaia_bridge.cli.servers.trusting import login, trust
from gaia_bridge.cli.servers.watching import completion, status
from gaia_bridge.cli.streams import queue_stderr
from gaia_bridge.errors import BridgeError
from gaia_bridge.text import printable

__all__ = ["program", "run"]


def run(args: Sequence[str] | None, prog_name: str, deadline: Deadline | None = None) -> int:
    """Run the command line; `gaia_bridge.cli.main`, once everything is imported.

    Args:
        args: The arguments; those of the process if `None`.
        prog_name: What the program is called in its messages.
        deadline: Bounds the end of the process, if that is ours, for commands that run agents.
    """
    put_back = queue_stderr()
    try:
        code: Any = program.main(args=args, prog_name=prog_name, standalone_mode=False, obj=deadline)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except click.Abort:
        return ExitCode.INTERRUPTED
    except OSError as error:  # of --help and --version, which are no commands
        if not is_of_output(error):
            raise
        click.echo(f"{prog_name}: error: {_no_output(error)}", err=True)
        return ExitCode.OUTPUT
    finally:
        put_back()
    return int(code or ExitCode.OK)


class _Program(click.Group):
    """A group that ends every error in one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own business
        except Exception as error:
            return _report(ctx, innermost(error))


_EPILOG = """\b
Exit codes: 0 done, 1 tool failed, 64 wrong command line,
66 agent cannot be loaded, 69 address cannot be listened on or server not
reached, 70 error of the bridge itself, 74 output cannot be written,
78 configuration cannot be used,
130 ended by Ctrl-C, 143 by a second SIGTERM."""


_COMMANDS = [
    *(serve, agents, status),
    *(add, list_servers, tools, call, test_client, remove, enable, disable, trust, login, logs),
    completion,
]


@click.group(
    cls=_Program,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=_COMMANDS,
)
@click.version_option(__version__, prog_name="gaia-bridge", message="%(prog)s %(version)s")
def program() -> None:
    """Publish Python agents and MCP servers to editors, and use MCP servers."""


def _report(ctx: click.Context, error: BaseException) -> ExitCode:
    debug = is_debug(ctx)
    if debug:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, BridgeError):
        line = str(error)
    elif is_of_output(error):
        line = _no_output(error)
    else:
        line = f"internal error: {type(error).__name__}: {error}"
        line += "" if debug else "; run with --debug for the traceback"
    click.echo(f"{ctx.command_path}: error: {printable(' '.join(line.split()), None)}", err=True)
    return exit_code_of(error)


def _no_output(error: BaseException) -> str:
    return f"standard output cannot be written: {getattr(error, 'strerror', None) or error}"
