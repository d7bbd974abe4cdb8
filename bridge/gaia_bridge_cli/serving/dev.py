"""`gaia-bridge dev`: agents while they are being written."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import click

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.model import NamingPolicy
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.options import (
    Port,
    log_options,
    no_servers_option,
    offer_options,
    refuse_both,
    set_up_logging,
    verbose_option,
)
from gaia_bridge_cli.streams import queue_standard_streams

_SHORT_LINES = "gaia_bridge.calls.call_log"
"""The logger whose line for each call would repeat the lines of this command, without arguments and results."""


@click.command()
@click.argument("agents", nargs=-1, required=True, metavar="FILE...")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=Port(0), help="0: any free port.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Publish the servers of this file too.  [default: ~/.gaia/mcp_servers.json, if it exists]",
)
@no_servers_option
@verbose_option
@offer_options
@click.option("--inspector", is_flag=True, help="Open the MCP Inspector too, a page for what is published; needs npx.")
@log_options
@click.pass_context
def dev(
    ctx: click.Context,
    /,
    agents: tuple[str, ...],
    port: int,
    config: Path | None,
    servers: bool,
    verbose: bool,
    inspector: bool,
    log_level: str | None,
    debug: bool,
    **offer: Any,
) -> int:
    """Serve agents over HTTP while they are being written.

    FILE is what `serve` takes. Saved changes are published at once, clients stay connected, and each call is shown with
    its arguments and its result. A file that cannot be imported keeps the last good agent.
    """
    refuse_both(config, servers)
    ctx.call_on_close(queue_standard_streams())
    set_up_logging(ctx, log_level, debug, default="info")
    short_lines = logging.getLogger(_SHORT_LINES)
    ctx.call_on_close(partial(short_lines.setLevel, short_lines.level))
    short_lines.setLevel(logging.WARNING)
    with imported_for_good():
        from gaia_bridge_cli.serving.bridge_runner import ServeOptions, run

    options = ServeOptions(
        agents=agents,
        stdio=False,
        host=DEFAULT_HOST,
        port=port,
        auth=False,
        allow_hosts=(),
        allow_origins=(),
        config=config,
        names=NamingPolicy.DEFAULT,
        reload=True,
        shows_calls=True,
        inspector=inspector,
        with_servers=servers,
        verbose=verbose,
        **offer,
    )
    return run(options, ctx.find_object(ExitDeadline))
