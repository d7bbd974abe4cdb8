"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gaia_bridge.cli.logs import log_to_stderr

__all__ = ["agents_argument", "is_debug", "log_options", "set_up_logging"]

_DEBUG = "gaia_bridge.debug"
_LEVELS = ("debug", "info", "warning", "error")

F = TypeVar("F", bound=Callable[..., Any])


def agents_argument(command: F) -> F:
    """`[AGENT]...`: which agents."""
    return click.argument("agents", nargs=-1, metavar="[AGENT]...")(command)


def log_options(command: F) -> F:
    """`--log-level` and `--debug`: what is said on standard error."""
    level = click.option(
        "--log-level",
        type=click.Choice(_LEVELS),
        help="How much to log on standard error.  [default: info; serve --stdio: warning; agents: none]",
    )
    debug = click.option("--debug", is_flag=True, help="Log everything, and show where an error comes from.")
    return level(debug(command))


def set_up_logging(ctx: click.Context, log_level: str | None, debug: bool, default: str) -> None:
    """Log to standard error until the command ends.

    Args:
        ctx: The command's context.
        log_level: What the user asked for.
        debug: Whether the user asked for everything.
        default: The level if the user asked for none.
    """
    ctx.meta[_DEBUG] = debug
    ctx.call_on_close(log_to_stderr("debug" if debug else log_level or default))


def is_debug(ctx: click.Context) -> bool:
    """Whether the user asked for everything."""
    return bool(ctx.meta.get(_DEBUG))
