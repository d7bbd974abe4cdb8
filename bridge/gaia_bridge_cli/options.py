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
    """Add the argument `[AGENT]...`: the agents."""
    return click.argument("agents", nargs=-1, metavar="[AGENT]...")(command)


def agent_option(command: F) -> F:
    """Add `--agent AGENT`, the form before agents had a place of their own on the command line."""
    return click.option("--agent", "more", metavar="AGENT", multiple=True, help="The same as AGENT; repeatable.")(
        command
    )


def no_servers_option(command: F) -> F:
    """Add `--no-servers`: only agents are published."""
    return click.option(
        "--no-servers",
        "servers",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Leave out the configured servers.",
    )(command)


def verbose_option(command: F) -> F:
    """Add `--verbose`: the banner shows everything."""
    return click.option(
        "--verbose", is_flag=True, help="Also show who may call, and what VS Code needs without `install`."
    )(command)


def refuse_both(config: object | None, servers: bool) -> None:
    """Refuse `--no-servers` together with a configuration.

    Raises:
        click.UsageError: Both were given.
    """
    if config is not None and not servers:
        raise click.UsageError("--no-servers leaves out what --config names: leave out one of them")


class Port(click.IntRange):
    """A TCP port."""

    name = "number"

    def __init__(self, least: int = 1) -> None:
        super().__init__(least, 65_535)


class AgentTools(click.ParamType[Any]):
    """The tools of agents that are published."""

    name = "all|none|NAME,NAME..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bool | tuple[str, ...] | None:
        """Return `True` for all, `False` for none, or names."""
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
    """Add `--agent-tools` and `--ask`: the features of agents that are published."""
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
    """Add `--host`, `--port`, `--url`: the address of a running bridge."""
    host = click.option("--host", help="Where the bridge runs.  [default: 127.0.0.1]")
    port = click.option("--port", type=Port(), help=f"Its port.  [default: {DEFAULT_PORT}]")
    url = click.option("--url", help="The same in one: [http://]HOST:PORT")
    return host(port(url(command)))


def bridge_url(host: str | None, port: int | None, url: str | None) -> str:
    """Return the address of a running bridge, without a path, from any of the forms in which users type or copy it.

    Args:
        host: `--host`.
        port: `--port`.
        url: `--url`, which includes both.
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
    """Add `--log-level` and `--debug`: the output on standard error."""
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
        log_level: The level that the user named.
        debug: Whether the user asked for all records.
        default: The level if the user named none.
    """
    ctx.meta[_DEBUG] = debug
    ctx.call_on_close(log_to_stderr("debug" if debug else log_level or default))


def is_debug(ctx: click.Context) -> bool:
    """Return whether the user gave `--debug`."""
    return bool(ctx.meta.get(_DEBUG))
