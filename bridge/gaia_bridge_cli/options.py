"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge_cli.logs import log_to_stderr

_DEBUG = "gaia_bridge.debug"
_LEVELS = ("debug", "info", "warning", "error")

F = TypeVar("F", bound=Callable[..., Any])


def agents_argument(command: F) -> F:
    """`[AGENT]...`: which agents."""
    return click.argument("agents", nargs=-1, metavar="[AGENT]...")(command)


def agent_option(command: F) -> F:
    """`--agent AGENT`, as it was written before agents had a place of their own on the command line."""
    return click.option("--agent", "more", metavar="AGENT", multiple=True, help="The same as AGENT; repeatable.")(
        command
    )


def no_servers_option(command: F) -> F:
    """`--no-servers`: agents alone."""
    return click.option(
        "--no-servers",
        "servers",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Leave out the configured servers.",
    )(command)


def verbose_option(command: F) -> F:
    """`--verbose`: all that the banner can say."""
    return click.option(
        "--verbose", is_flag=True, help="Also show who may call, and what VS Code needs without `install`."
    )(command)


def refuse_both(config: object | None, servers: bool) -> None:
    """Refuse a configuration whose servers are to be left out.

    Raises:
        click.UsageError: Both were said.
    """
    if config is not None and not servers:
        raise click.UsageError("--no-servers leaves out what --config names: leave out one of them")


class Port(click.IntRange):
    """A TCP port."""

    name = "number"

    def __init__(self, least: int = 1) -> None:
        super().__init__(least, 65_535)


class AgentTools(click.ParamType[Any]):
    """Which tools of agents are published."""

    name = "all|none|NAME,NAME..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bool | tuple[str, ...] | None:
        """`True` for all, `False` for none, or names."""
        if not isinstance(value, str):
            converted: bool | tuple[str, ...] | None = value
            return converted
        if value in ("all", "none"):
            return value == "all"
        names = tuple(name.strip() for name in value.split(","))
        if not all(names) or {"all", "none"} & set(names):
            self.fail(f"{value!r}: expected all, none, or the names of tools with commas in between", param, ctx)
        return names


def offer_options(command: F) -> F:
    """`--agent-tools` and `--ask`: what of agents is published."""
    tools = click.option(
        "--agent-tools",
        type=AgentTools(),
        metavar=AgentTools.name,
        help="Which tools of the agents are published.  [default: what their classes say]",
    )
    ask = click.option(
        "--ask/--no-ask",
        default=None,
        help="Whether agents have a tool that asks them.  [default: what their classes say]",
    )
    return tools(ask(command))


def bridge_options(command: F) -> F:
    """`--host`, `--port`, `--url`: which running bridge."""
    host = click.option("--host", help="Where the bridge runs.  [default: 127.0.0.1]")
    port = click.option("--port", type=Port(), help=f"Its port.  [default: {DEFAULT_PORT}]")
    url = click.option("--url", help="The same in one: [http://]HOST:PORT")
    return host(port(url(command)))


def bridge_url(host: str | None, port: int | None, url: str | None) -> str:
    """The address of a running bridge, without a path, which may have been typed or copied in more ways than one.

    Args:
        host: `--host`.
        port: `--port`.
        url: `--url`, which says both.
    """
    if url is not None and (host, port) != (None, None):
        raise click.UsageError("--url says host and port: leave out --host and --port")
    host = host or DEFAULT_HOST
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    text = f"http://{host}:{port or DEFAULT_PORT}" if url is None else url
    expected = f"--url {text!r}: expected http://HOST:PORT, as `gaia-bridge serve` prints it"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 0) < 0:
            raise click.UsageError(expected)
    except ValueError:  # a port that is none
        raise click.UsageError(expected) from None
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/mcp').rstrip('/')}"


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
