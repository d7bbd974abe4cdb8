"""`gaia-bridge serve` in one line of a program: `serve(MyAgent())`."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypedDict, Unpack

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.bridge.contents import Servers
from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.contract import Publishable
from gaia_bridge.errors import BridgeError
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.text.escaping import printable
from gaia_bridge_cli.exit_codes import exit_code_of
from gaia_bridge_cli.logs import log_to_stderr
from gaia_bridge_cli.serving.bridge_runner import ServeOptions, run

_LOOP_RUNS = (
    "serve() has an event loop of its own, and was called where one is running; write `async with Bridge(...) as "
    "bridge: await bridge.serve_http()` there"
)


class Serving(TypedDict, total=False):
    """The options of `serve` beside the agents."""

    servers: Servers
    """As `Bridge` takes them."""
    config: Path | str | None
    """As `Bridge` takes it."""
    stdio: bool | None
    """Whether to serve stdio; if `None`, whether the standard input is a pipe or socket, and `port` is not given."""
    host: str
    """The address to listen on. One that other machines can reach needs `auth` and `hosts`."""
    port: int | None
    """The port; 0 for any free one."""
    auth: bool
    """Whether clients need the token that is kept in `~/.gaia/bridge-token`."""
    hosts: Iterable[str]
    """Further names that clients use for us, as `host` or `host:port`."""
    agent_tools: bool | Collection[str] | None
    """As `Bridge` takes it."""
    ask: bool | None
    """As `Bridge` takes it."""
    origins: Iterable[str]
    """Pages of other servers that may call us, in full."""


def serve(*agents: Publishable, **options: Unpack[Serving]) -> None:
    """Publish until a signal comes, or until the client of a stdio server has gone. The last line of a program.

    Where the standard input is a pipe, as with an editor that starts the program, it is stdio that is served; in a
    terminal, HTTP. An error is printed in one line, and ends the program with an exit code of `gaia-bridge`.

    Args:
        *agents: As `Bridge` takes them; or one `Bridge`, which decides itself what it publishes.
        **options: See `Serving`.

    Raises:
        SystemExit: It could not be served.
        TypeError: Something is given that is no agent and no server, or the caller is a coroutine.
    """
    if unknown := options.keys() - Serving.__annotations__.keys():
        raise TypeError(f"serve() got {', '.join(sorted(unknown))}; expected {', '.join(Serving.__annotations__)}")
    port = options.get("port")
    if port is not None and not isinstance(port, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"serve() got port={port!r}; expected a number")
    with suppress(RuntimeError):
        anyio.get_current_task()
        raise TypeError(_LOOP_RUNS)
    _serve(agents, **options)


def _serve(
    agents: tuple[Publishable, ...],
    *,
    stdio: bool | None = None,
    host: str = DEFAULT_HOST,
    port: int | None = None,
    auth: bool = False,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    **contents: Any,
) -> None:
    bridge = _bridge_of(agents, contents)
    stdio = (port is None and _is_started_by_a_client()) if stdio is None else stdio
    command_line = ServeOptions(
        agents=(),
        stdio=stdio,
        host=host,
        port=DEFAULT_PORT if port is None else port,
        auth=auth,
        allow_hosts=tuple(hosts),
        allow_origins=tuple(origins),
        config=None,
        names=bridge.names,
        settings=bridge.settings,
        bridge=bridge,
    )
    with ExitStack() as ending:
        if not logging.getLogger().handlers:  # else the program has seen to its log
            ending.callback(log_to_stderr("warning" if stdio else "info"))
        if stdio:
            _say_on_stderr_what_was_printed()
        try:
            run(command_line)
        except Exception as error:
            cause = only_error_in(error)
            if not isinstance(cause, BridgeError):
                raise
            line = printable(" ".join(str(cause).split()), None)
            sys.stderr.write(f"{Path(sys.argv[0]).name}: error: {line}\n")
            raise SystemExit(exit_code_of(cause)) from None


def _bridge_of(agents: tuple[Publishable, ...], contents: Mapping[str, Any]) -> Bridge:
    """Return the bridge that is given, or one that is made of agents and the other arguments of `Bridge`."""
    if not any(isinstance(agent, Bridge) for agent in agents):
        return Bridge(*agents, **contents)
    [first, *others] = agents
    is_more = any(value is not None and value != () for value in contents.values())
    if others or is_more or not isinstance(first, Bridge):
        raise TypeError(
            "a Bridge says itself what it publishes; expected nothing beside it: give the rest to Bridge(...)"
        )
    return first


def _is_started_by_a_client() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _say_on_stderr_what_was_printed() -> None:
    """Write to standard error what the program has printed so far and not flushed: it is no message of ours."""
    if sys.stdout is None:
        return
    ours = os.dup(1)
    try:
        os.dup2(2, 1)
        sys.stdout.flush()
        os.dup2(ours, 1)
    finally:
        os.close(ours)
