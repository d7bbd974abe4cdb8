"""`gaia-bridge connect`, and `up`, `down`, `restart`, `ps`: one bridge in the background for all editors of a user."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.errors import ConfigError, ServerUnavailableError
from gaia_bridge.model import NamingPolicy
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.runtime.peer_credentials import peer_process
from gaia_bridge.text.escaping import printable
from gaia_bridge_cli.collection import collect_in_larger_pieces, imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.options import (
    agent_option,
    agents_argument,
    log_options,
    no_servers_option,
    refuse_both,
    set_up_logging,
)
from gaia_bridge_cli.output import can_ask, counted
from gaia_bridge_cli.remembered_path import remember_search_path
from gaia_bridge_cli.streams import queue_standard_streams
from gaia_bridge_daemon.front.greeting import KEEP, STATUS, STOP
from gaia_bridge_daemon.front.launching import (
    FOR_EVER,
    START_PATIENCE,
    BridgeDownError,
    NoAnswerError,
    ask,
    connected,
    start,
)
from gaia_bridge_daemon.front.launching import restart as restarted
from gaia_bridge_daemon.front.place import Place, PlaceError, Scope, current_folder, places, runtime_folder
from gaia_bridge_daemon.front.program import FrontOptions, is_agent, run

if TYPE_CHECKING:
    from gaia_bridge.text.json_types import JSON

_DOWN_PATIENCE: Final = 12.0
"""Seconds until a bridge that was asked to end is gone; it takes at most `STOP_DEADLINE` for that."""

_LEFT_PATIENCE: Final = 1.0
"""Seconds to wait for the lock of a bridge that is gone: another one may be starting, and then owns the lock."""

_LOOK: Final = 0.02
"""Seconds between two checks whether it is gone."""

F = TypeVar("F", bound=Callable[..., Any])


def _scope_options(command: F) -> F:
    config = click.option(
        "--config", metavar="PATH", help="Publish the servers of this file.  [default: ~/.gaia/mcp_servers.json]"
    )
    return config(no_servers_option(agent_option(command)))


def _scope(config: str | None, servers: bool, agents: Sequence[str], more: Sequence[str]) -> tuple[Place, Scope]:
    """Return the place and the scope of the bridge that the options name."""
    refuse_both(config, servers)
    scope = Scope.of(config, (*agents, *more), current_folder(), servers)
    return Place(runtime_folder(), scope.name), scope


_NONE: Final = "no bridge runs in the background"

_keep_option = click.option(
    "--keep", type=click.FloatRange(0), metavar="MINUTES", help="How long it stays without a client.  [default: 10]"
)


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME | AGENT]...")
@click.option("--all", "everything", is_flag=True, help="Everything that is published, as without NAME.")
@_scope_options
@_keep_option
def connect(
    words: tuple[str, ...],
    everything: bool,
    config: str | None,
    servers: bool,
    more: tuple[str, ...],
    keep: float | None,
) -> int:
    """Serve an editor by the bridge that runs in the background.

    It is started if it does not run, and ends some minutes after its last client. All windows of all editors share its
    servers. AGENT is file.py[:Class], a folder or module:Class, and published as well; NAME is an agent or server of
    the bridge that is wanted alone.

    Without --config and AGENT, it is the same one everywhere, but in a folder that lists servers of its own.
    """
    refuse_both(config, servers)
    names = [word for word in words if not is_agent(word)]
    if len(names) > 1:
        raise click.UsageError(f"one of them is wanted alone, and there are {len(names)}: {', '.join(names)}")
    if names and everything:
        raise click.UsageError(f"--all is everything, and {names[0]} one of them: leave out one")
    agents = (*filter(is_agent, words), *more)
    return run(FrontOptions("".join(names), config, agents, keep, servers))


@click.command(hidden=True)
@click.argument("agents", nargs=-1)
@click.option("--place", required=True)
@click.option("--name", required=True)
@click.option("--folder", required=True)
@click.option("--config")
@click.option("--no-servers", "servers", is_flag=True, flag_value=False, default=True)
@click.option("--keep", type=float, help="In seconds.")
@click.option("--lock", type=int)
@log_options
@click.pass_context
def background(
    ctx: click.Context,
    agents: tuple[str, ...],
    place: str,
    name: str,
    folder: str,
    config: str | None,
    servers: bool,
    keep: float | None,
    lock: int | None,
    log_level: str | None,
    debug: bool,
) -> int:
    """Be the bridge in the background; started by `connect` and `up`."""
    if os.getsid(0) != os.getpid() != os.getpgrp():
        os.setsid()  # no end of a terminal or of an editor is ours
    held: list[int] = []
    if lock is not None:
        os.set_inheritable(lock, False)
        held = [lock, _leave_parent()]
        for descriptor in held:
            FORKS.conceal(descriptor)
    try:
        os.chdir(folder or Path.home())
    except OSError as error:
        raise ConfigError(folder, f"the folder of this bridge cannot be entered: {error.strerror}") from None
    ctx.call_on_close(queue_standard_streams())
    set_up_logging(ctx, log_level, debug, default="info")
    with imported_for_good():
        from gaia_bridge.settings import BackgroundLimits
        from gaia_bridge_cli.serving.bridge_runner import ServeOptions, run
        from gaia_bridge_daemon.background.serving import Background

    collect_in_larger_pieces()
    seconds = BackgroundLimits().keep if keep is None else None if keep == FOR_EVER else keep
    options = ServeOptions(
        agents=agents,
        stdio=False,
        host=DEFAULT_HOST,
        port=DEFAULT_PORT,
        auth=False,
        allow_hosts=(),
        allow_origins=(),
        config=None if config is None else Path(config),
        names=NamingPolicy.DEFAULT,
        with_agents=bool(agents),
        with_servers=servers,
        background=Background(Place(place, name), Scope(config or "", agents, folder, servers), seconds, held),
    )
    return run(options, ctx.find_object(ExitDeadline))


@click.command()
@agents_argument
@_scope_options
@_keep_option
@click.option("--at-login", is_flag=True, help="Also whenever you log in: writes a file for systemd or launchd.")
@click.option("--remove", is_flag=True, help="With --at-login: remove that file; the bridge is left as it is.")
@click.option("--yes", is_flag=True, help="With --at-login: do not ask; what is written is shown all the same.")
def up(
    agents: tuple[str, ...],
    config: str | None,
    servers: bool,
    more: tuple[str, ...],
    keep: float | None,
    at_login: bool,
    remove: bool,
    yes: bool,
) -> int:
    """Start the bridge for all editors, unless it runs.

    It is the one with AGENT, if one is named. Without --keep, it stays until it is ended by `down`.
    """
    if (remove or yes) and not at_login:
        raise click.UsageError("--remove and --yes belong to --at-login")
    with _as_our_errors():
        place, scope = _scope(config, servers, agents, more)
        if at_login and not _arranged(scope, remove, yes):
            return ExitCode.OK
        remember_search_path(os.environ)  # for the login, and for other programs that start the bridge again
        seconds = FOR_EVER if keep is None else 60 * keep
        if ask(place, KEEP, keep=seconds) is not None:
            click.echo(f"it runs already: {place.http}", err=True)
        else:
            start(place, scope, seconds, time.monotonic() + START_PATIENCE).close()
        click.echo(f"unix://{place.http}#/mcp")
    return ExitCode.OK


def _arranged(scope: Scope, remove: bool, yes: bool) -> bool:
    """Make the system start the bridge at login, or no longer; return whether to start it now."""
    from gaia_bridge_cli import at_login

    wanted = at_login.at_login(scope)
    if remove:
        is_gone = at_login.remove(wanted)
        click.echo(f"{'removed' if is_gone else 'there is no'}: {wanted.path}", err=True)
        return False
    if not (difference := at_login.changes(wanted)):
        click.echo(f"it is started at login already: {wanted.path}", err=True)
        return True
    if not at_login.agreed(difference, yes, can_ask()):
        return False
    at_login.install(wanted)
    return True


@click.command()
@agents_argument
@_scope_options
@click.option("--all", "everything", is_flag=True, help="All bridges of this user.")
def down(agents: tuple[str, ...], config: str | None, servers: bool, more: tuple[str, ...], everything: bool) -> int:
    """End the bridge for all editors.

    It is the one with AGENT, if one is named. Editors that are connected start it again when they want something of it.
    Its log goes with it, also that of one that has failed.
    """
    from gaia_bridge_daemon.background.sockets import places_left, remove_left

    with _as_our_errors():
        chosen = places_left(runtime_folder()) if everything else [_scope(config, servers, agents, more)[0]]
        ended: list[Place] = []
        for place in chosen:
            if _end(place):
                ended.append(place)
            remove_left(place, _LEFT_PATIENCE)
        for place in ended:
            click.echo(f"ended: {place.name}", err=True)
        if not ended:
            click.echo(_NONE if everything else _not_running(chosen[0], _running(), "down"), err=True)
    return ExitCode.OK


def _running() -> dict[str, tuple[Place, JSON]]:
    """Return the running bridges by their names, each with its status."""
    statuses = ((place, _status(place)) for place in places(runtime_folder()))
    return {place.name: (place, status) for place, status in statuses if status is not None}


def _not_running(place: Place, running: Mapping[str, tuple[Place, JSON]], command: str) -> str:
    """Return the message for a bridge that does not run: it lists those that run, as one of them may be meant."""
    if not running:
        return _NONE
    which = "the bridge of your configuration" if place.name == "default" else f"the bridge {place.name}"
    lines = [printable(_command_line(command, *one), None) for one in running.values()]
    return "\n  ".join([f"{which} does not run; these do:", *lines])


def _command_line(command: str, place: Place, status: JSON) -> str:
    """Return the command line that names a running bridge, with the names that it publishes."""
    if "report" not in status:
        return f"{place.name}: {status['error']}"
    scope = Scope.from_json(status["scope"])
    line = shlex.join(["gaia-bridge", command, *scope.words])
    where = f"cd {shlex.quote(scope.folder)} && " if scope.folder else ""
    names = ", ".join(source["name"] for source in status["report"]["sources"])
    return f"{where}{line}  ({names or 'nothing yet'})"


@click.command()
@agents_argument
@_scope_options
@_keep_option
def restart(
    agents: tuple[str, ...], config: str | None, servers: bool, more: tuple[str, ...], keep: float | None
) -> int:
    """Start a bridge that runs anew; editors stay connected.

    It is the one with AGENT, if one is named; else that of your configuration, or the only one that runs. Calls in
    flight are answered by the old one. Without --keep, the new one stays as long as the old one would have. With an
    agent that cannot be loaded, the old one goes on.
    """
    from gaia_bridge.bridge.discovery import lasting_reference

    with _as_our_errors():
        place, scope = _scope(config, servers, agents, more)
        running = _running()
        if place.name not in running and len(running) == 1 and servers and not (config or agents or more):
            [(place, status)] = running.values()
            scope = Scope.from_json(status.get("scope", scope.as_json()))
        if place.name not in running:
            for agent in (*agents, *more):
                lasting_reference(agent)  # one that is misspelled is the fault
            click.echo(_not_running(place, running, "restart"), err=True)
            return ExitCode.UNAVAILABLE
        _look_at(scope)
        restarted(place, scope, None if keep is None else 60 * keep, time.monotonic() + START_PATIENCE)
        click.echo(printable(_goes_on(running[place.name][1], _status(place) or {}), None))
    return ExitCode.OK


def _goes_on(old: JSON, new: JSON) -> str:
    """Describe a bridge that was restarted.

    Args:
        old: The status of the old one.
        new: The status of the new one.
    """
    sources: list[Any] = new.get("report", {}).get("sources", [])
    names = ", ".join(source["name"] for source in sources) or "it"
    offer = (counted(sum(source[key] for source in sources), key[:-1]) for key in ("tools", "prompts", "resources"))
    words = [f"{names} restarted: {', '.join(filter(None, offer)) or 'nothing is offered yet'}"]
    if editors := len(old.get("fronts", ())):
        words.append(f"{counted(editors, 'editor')} went on")
    words += [f"{source['name']} is {source['state']}" for source in sources if source["state"] != "ready"]
    return "; ".join(words)


def _look_at(scope: Scope) -> None:
    """Load the agents as the new bridge will.

    Raises:
        AgentLoadError: An agent cannot be loaded.
    """
    if not scope.agents:
        return
    from gaia_bridge.config.process_rules import ONLY_SHOWN
    from gaia_bridge_cli.interrupts import ended_by_interrupt
    from gaia_bridge_cli.logs import keep_log
    from gaia_bridge_cli.output import stdout_to_stderr

    with imported_for_good():
        from gaia_bridge.bridge.discovery import find_agents

    with stdout_to_stderr(), ended_by_interrupt(), ONLY_SHOWN.kept(), keep_log():
        loaded = find_agents(scope.agents, root=Path(scope.folder or Path.home()), in_windows=True)
    for entry in loaded:
        if not entry.agents:
            raise entry.failures[0]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ps(as_json: bool) -> int:
    """Show the bridges in the background, and who uses them."""
    from gaia_bridge_cli.servers.common import print_json

    with _as_our_errors():
        statuses = [(place, status) for place in places(runtime_folder()) if (status := _status(place)) is not None]
    if as_json:
        print_json([{"name": place.name, "http": place.http, "log": place.log, **status} for place, status in statuses])
        return ExitCode.OK
    if not statuses:
        click.echo(_NONE, err=True)
    for place, status in statuses:
        for line in _lines(place, status):
            click.echo(printable(line, None))
    return ExitCode.OK


def _status(place: Place) -> JSON | None:
    try:
        return ask(place, STATUS)
    except BridgeDownError as error:  # the other bridges are listed all the same
        return {"error": str(error)}


def _lines(place: Place, status: JSON) -> Iterator[str]:
    if "report" not in status:
        yield f"{place.name}: {status['error']}"
        return
    report: Any = status["report"]
    sources = ", ".join(f"{source['name']} ({source['state']})" for source in report["sources"])
    yield f"{place.name}: process {status['pid']}, version {status['version']}, since {_time(status['since'])}"
    yield f"  publishes {sources or 'nothing yet'}"
    yield f"  at unix://{place.http}#/mcp, log {place.log}"
    for front in status["fronts"]:
        what = f" for {front['source']} alone" if front["source"] else ""
        client = front["client"] or "a client that has not said who it is"
        yield f"  {client}{what}: process {front['pid']} in {front['folder']}, since {_time(front['since'])}"


def _time(seconds: float) -> str:
    return time.strftime("%H:%M:%S" if time.time() - seconds < 86_400 else "%Y-%m-%d %H:%M", time.localtime(seconds))


def _end(place: Place) -> bool:
    """Ask a bridge to end, and wait until it is gone; return whether there was one."""
    try:
        answer = ask(place, STOP)
    except NoAnswerError:
        pid = _killed(place)
    else:
        pid = 0 if answer is None else int(answer["pid"])
    until = time.monotonic() + _DOWN_PATIENCE
    while pid and _runs(pid):
        if time.monotonic() > until:
            raise BridgeDownError(f"process {pid} of {place.name} does not end; see {place.log}")
        time.sleep(_LOOK)
    return pid != 0


def _killed(place: Place) -> int:
    """Kill a bridge that does not answer; return its process, 0 if none runs."""
    connection = connected(place)
    if connection is None:
        return 0
    with connection:
        pid = peer_process(connection)
    if pid is None:
        raise BridgeDownError(f"the bridge at {place.front} does not answer, and its process is not known")
    click.echo(f"{place.name} does not answer: process {pid} is killed", err=True)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return pid


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as about:  # of one whose parent does not want to know
            return not about.read().rpartition(b") ")[2].startswith(b"Z")
    except OSError:
        return True


@contextmanager
def _as_our_errors() -> Generator[None]:
    """Raise errors of a front as errors of this program."""
    try:
        yield
    except BridgeDownError as error:
        raise ServerUnavailableError("the bridge in the background", str(error)) from None
    except PlaceError as error:
        raise ConfigError("the bridge in the background", str(error)) from None


def _leave_parent() -> int:
    """Fork, and go on in the child; the parent ends once the bridge can be connected to, or has ended.

    A bridge in the background must be no child of an editor: editors end a server with all its children, and the
    bridge serves others. To be called before there are threads.

    Returns:
        A descriptor to close when clients can connect. Until then, the parent process is still there for its starter.
    """
    until, held = os.pipe()
    if os.fork():
        os.close(held)
        os.read(until, 1)
        os._exit(0)  # the parent: exit handlers belong to the child
    os.close(until)
    return held
