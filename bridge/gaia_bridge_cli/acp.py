"""`gaia-bridge acp`: serves an agent for conversations in an editor."""

from __future__ import annotations

import importlib.util
from functools import partial

import click

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import NamingPolicy
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.options import log_options, set_up_logging
from gaia_bridge_cli.streams import queue_standard_streams

_EXTRA = "pip install 'gaia-mcp-bridge[acp]'"


@click.command()
@click.argument("agent", metavar="AGENT")
@click.option("--images", is_flag=True, help="The agent's model takes pictures.  [default: as the agent says]")
@log_options
@click.pass_context
def acp(ctx: click.Context, agent: str, images: bool, log_level: str | None, debug: bool) -> int:
    """Serve an agent to Zed, JetBrains or Neovim.

    The editor starts this command, and speaks the Agent Client Protocol with it. AGENT is what `serve` takes; it can
    answer, as every gaia.agents.base.Agent can. See docs/acp.md for the settings of each editor.
    """
    ctx.call_on_close(queue_standard_streams())
    set_up_logging(ctx, log_level, debug, default="warning")
    if importlib.util.find_spec("acp") is None:
        raise ConfigError("acp", "the package of the Agent Client Protocol is not installed", _EXTRA)
    with imported_for_good():
        from gaia_bridge_cli.serving.bridge_runner import ServeOptions, run
        from gaia_bridge_doors.acp.serving import serve_acp

    options = ServeOptions(
        agents=(agent,),
        stdio=True,
        host=DEFAULT_HOST,
        port=DEFAULT_PORT,
        auth=False,
        allow_hosts=(),
        allow_origins=(),
        config=None,
        names=NamingPolicy.DEFAULT,
        with_servers=False,
        to_editor=partial(serve_acp, images=images),
    )
    return run(options, ctx.find_object(ExitDeadline))
