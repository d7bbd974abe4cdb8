"""`gaia-bridge serve`: its command line. The serving itself is in `bridge_runner`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.model import NamingPolicy, ToolSearchPolicy
from gaia_bridge.protocol.revisions import DRAFTS, PUBLISHED
from gaia_bridge.settings import ClientLimits, Settings
from gaia_bridge_cli.collection import collect_in_larger_pieces, imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.options import (
    Port,
    agents_argument,
    log_options,
    no_servers_option,
    offer_options,
    refuse_both,
    set_up_logging,
    verbose_option,
)
from gaia_bridge_cli.streams import queue_standard_streams

logger = logging.getLogger(__name__)

_HTTP_ONLY = {
    "host": "--host",
    "port": "--port",
    "auth": "--auth",
    "allow_hosts": "--allow-host",
    "allow_origins": "--allow-origin",
    "public_url": "--public-url",
    "proxies": "--trust-proxy",
}


@click.command()
@agents_argument
@click.option("--stdio", is_flag=True, help="Serve the editor that started this process.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=Port(0), help="0: any free port.")
@click.option("--auth", is_flag=True, help="Ask for a token, made once and kept in ~/.gaia/bridge-token.")
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="HOST[:PORT]",
    multiple=True,
    help="Also answer to this name, as clients write it.",
)
@click.option("--allow-origin", "allow_origins", metavar="ORIGIN", multiple=True, help="Also serve pages from there.")
@click.option(
    "--public-url",
    metavar="URL",
    help="The address that clients use, where a proxy stands in front, such as https://bridge.example. Asks for a"
    " token, as --auth does.",
)
@click.option(
    "--trust-proxy",
    "proxies",
    metavar="ADDRESS[/BITS]",
    multiple=True,
    help="Believe what a proxy there says of its clients.  [default, with --public-url: any on this machine]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Publish the servers of this file too.  [default: ~/.gaia/mcp_servers.json, if it exists]",
)
@click.option(
    "--names",
    type=click.Choice([policy.value for policy in NamingPolicy]),
    default=NamingPolicy.DEFAULT.value,
    show_default=True,
    help="How tools are named. default: agents' as they are, servers' SERVER__TOOL; gaia: mcp_SERVER_TOOL for servers;"
    " double: SOURCE__TOOL for all; bare: as they are, qualified only where two meet.",
)
@click.option(
    "--tool-search",
    type=click.Choice([policy.value for policy in ToolSearchPolicy]),
    default=ToolSearchPolicy.AUTO.value,
    show_default=True,
    is_flag=False,
    flag_value=ToolSearchPolicy.ALWAYS.value,
    help="List two tools that find and call the others, instead of all. auto: for clients that are known to take fewer"
    " tools than there are, such as VS Code; without a value: always.",
)
@click.option(
    "--result-limit",
    "result_limits",
    multiple=True,
    metavar="CLIENT=BYTES",
    help="How much text a result may have for clients of that name; the rest becomes a link. CLIENT=off: any number;"
    " off: also for clients that are known to lose the rest. May be given several times.",
)
@click.option(
    "--instructions-limit",
    "instructions_limits",
    multiple=True,
    metavar="CLIENT=CHARACTERS",
    help="How long instructions may be for clients of that name. CLIENT=off: any length; off: also for clients that are"
    " known to cut them. May be given several times.",
)
@click.option(
    "--draft",
    is_flag=True,
    help="Also speak drafts of the next MCP revision, with clients and servers, if there is one.",
)
@click.option("--reload", is_flag=True, help="Follow the files of the agents: what is saved is published at once.")
@offer_options
@click.option("--no-agents", is_flag=True, help="Publish the servers of the configuration alone.")
@no_servers_option
@verbose_option
@click.option(
    "--log-json", type=click.Path(path_type=Path, dir_okay=False), help="Log to this file too, as JSON lines, rotated."
)
@log_options
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    names: str,
    tool_search: str,
    result_limits: Sequence[str],
    instructions_limits: Sequence[str],
    draft: bool,
    no_agents: bool,
    log_level: str | None,
    debug: bool,
    log_json: Path | None,
    **options: Any,
) -> int:
    """Publish agents, over HTTP or over stdio.

    AGENT is module:Class, file.py[:Class], a folder, or the name of an installed agent. Without any, the agents that
    ship with the bridge are served: they work on the current folder. The configured servers join, but for --no-servers.
    """
    refuse_both(options["config"], options["servers"])
    if no_agents and not options["servers"]:
        raise click.UsageError("--no-agents and --no-servers leave nothing to publish: leave out one of them", ctx)
    if no_agents and options["agents"]:
        raise click.UsageError("--no-agents publishes no agents: leave it out, or the agents", ctx)
    if no_agents and (options["agent_tools"] is not None or options["ask"] is not None):
        raise click.UsageError(
            "--no-agents publishes no agents: leave it out, or --agent-tools, --ask and --no-ask", ctx
        )
    options |= _in_plugin(options["agents"], options["config"])
    if options["reload"] and not options["agents"]:
        raise click.UsageError("--reload follows the agents that are named: gaia-bridge serve --reload FILE", ctx)
    if options["stdio"]:
        _refuse_http_options(ctx)
    ctx.call_on_close(queue_standard_streams())
    set_up_logging(ctx, log_level, debug, default="warning" if options["stdio"] else "info")
    if log_json is not None:
        from gaia_bridge_cli.log_files import log_to_json

        ctx.call_on_close(log_to_json(log_json))
    with imported_for_good():
        from gaia_bridge_cli.serving.bridge_runner import ServeOptions, run

    collect_in_larger_pieces()
    clients = _client_limits(ctx, result_limits, instructions_limits)
    settings = Settings(tool_search=ToolSearchPolicy(tool_search), clients=clients)
    if draft:
        settings = _with_drafts(settings)
    options |= {"names": NamingPolicy(names), "with_agents": not no_agents, "settings": settings}
    options["with_servers"] = options.pop("servers")
    return run(ServeOptions(**options), ctx.find_object(ExitDeadline))


def _in_plugin(agents: tuple[str, ...], config: Path | None) -> dict[str, Any]:
    """Return agents and configuration with the folder of a plugin filled in, where an editor has left that to us."""
    if not any("PLUGIN_ROOT}" in word for word in (*agents, str(config))):
        return {}
    from gaia_bridge_desk.bundles.placeholders import in_plugin

    references = tuple(map(in_plugin, agents))
    return {"agents": references, "config": None if config is None else Path(in_plugin(str(config)))}


def _client_limits(ctx: click.Context, results: Sequence[str], instructions: Sequence[str]) -> ClientLimits:
    """Return the limits of clients in the options.

    Raises:
        click.UsageError: An option is not valid.
    """
    numbers = {
        option: tuple(_client_limit(ctx, option, value) for value in values if value != "off")
        for option, values in (("--result-limit", results), ("--instructions-limit", instructions))
    }
    try:
        return ClientLimits(
            known_results="off" not in results,
            known_instructions="off" not in instructions,
            results=numbers["--result-limit"],
            instructions=numbers["--instructions-limit"],
        )
    except ValueError as error:
        raise click.UsageError(str(error), ctx) from None


def _client_limit(ctx: click.Context, option: str, value: str) -> tuple[str, int]:
    client, _, number = value.rpartition("=")
    number = "0" if number == "off" else number
    if not client or not number.isascii() or not number.isdecimal() or len(number) > 12:
        raise click.UsageError(f"{option} is {value!r:.100}; expected off, CLIENT=off or CLIENT=NUMBER", ctx)
    return client, int(number)


def _with_drafts(settings: Settings) -> Settings:
    names = ", ".join(entry.name for entry in DRAFTS)
    if names:
        logger.info("also speaking drafts of MCP: %s", names)
    else:
        logger.warning("--draft changes nothing: no draft of MCP is newer than %s", PUBLISHED.latest)
    return settings.speaking(PUBLISHED.and_also(DRAFTS))


def _refuse_http_options(ctx: click.Context) -> None:
    given = [
        option for name, option in _HTTP_ONLY.items() if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    if given:
        raise click.UsageError(f"--stdio listens on no address: leave out {', '.join(given)}", ctx)
