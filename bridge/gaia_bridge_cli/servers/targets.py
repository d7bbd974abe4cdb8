"""The target of a command: a configured server, a source of a running bridge, a file, a URL, or a command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import is_server_name
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.options import bridge_options, bridge_url
from gaia_bridge_cli.servers.common import complete_server, config_option, configured, usable_spec

if TYPE_CHECKING:
    from gaia_bridge.bridge.discovery import LoadedAgent
    from gaia_bridge.config import ServersConfig
    from gaia_bridge.contract import Publishable
    from gaia_bridge.model import ServerSpec
    from gaia_bridge.text.json_types import JSON
    from gaia_bridge_cli.servers.server_connection import Ask

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_COMMAND = "gaia_bridge.command"
"""The key of the words after `--` in the command's context."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WITHOUT_SCHEME = re.compile(
    r"(?P<host>localhost|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)(?P<port>:\d+)?(?P<path>/.*)?"
)
_AGENT = re.compile(r".+\.py(?::.*)?|[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.DOTALL)
"""`file.py`, `file.py:Class`, `module:Class`."""

_EXPECTED = (
    "expected a configured server, what a running bridge publishes, file.py[:Class], http(s)://..., or -- COMMAND..."
)


class TargetCommand(click.Command):
    """A command whose target may be a command line, after `--`, in place of an argument."""

    target_last = False
    """Whether the target is the last argument, not the first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words after `--` for the target."""
        if "--" in args:
            place = args.index("--")
            words = tuple(args[place + 1 :])
            if not words:
                ctx.fail("nothing follows --; expected a command: -- npx -y some-server")
            ctx.meta[_COMMAND] = words
            args = [*args[:place], "command"] if self.target_last else ["command", *args[:place]]
        return super().parse_args(ctx, args)


def target_options(command: F) -> F:
    """Add `TARGET`, the first argument, and the options for finding it."""
    direct = click.option(
        "--direct", is_flag=True, help="Start a configured server here, also if a running bridge publishes it."
    )
    target = click.argument("target", shell_complete=complete_server, metavar="TARGET")
    return target(config_option(bridge_options(direct(command))))


def command_of() -> tuple[str, ...]:
    """Return the words after `--` on the command line."""
    words: tuple[str, ...] = click.get_current_context().meta.get(_COMMAND, ())
    return words


class Target:
    """A server or agent to reach.

    Args:
        spec: Its specification.
        agents: The agents of this process by their names, if the target is one of them, or all of them.
        url: Its address, if the user gave nothing else.
    """

    def __init__(
        self, spec: ServerSpec, agents: Mapping[str, Publishable] | None = None, url: str | None = None
    ) -> None:
        self.spec = spec
        self._agents = agents
        self._url = url

    @property
    def name(self) -> str:
        """Its name in the output."""
        return self.spec.name

    def reach(self, ask: Ask[T], *, show_all: bool = False) -> T:
        """Connect to the target and use it; see `server_connection.reach`."""
        with imported_for_good():
            from gaia_bridge_cli.servers.server_connection import LoginNeededError, reach

        if self._agents is None:
            try:
                return reach(self.spec, ask, show_all=show_all)
            except LoginNeededError:
                if self._url is None:
                    raise
                raise LoginNeededError(self.name, _of_a_stranger(self._url)) from None
        from gaia_bridge_cli.output import stdout_to_stderr

        with stdout_to_stderr():  # standard output is for the command's results, not for output of the agent
            return reach(self.spec, ask, agents=self._agents, show_all=show_all)


def target_of(text: str, config: Path | None, *, direct: bool = False, **bridge: Any) -> Target:
    """Return the target that the user named.

    Args:
        text: The target as it was typed; the words after `--` replace it, if there are any.
        config: `--config`.
        direct: Whether to start a configured server although a running bridge publishes it.
        **bridge: The address of a bridge that may run; see `options.bridge_url`.

    Raises:
        ConfigError: There is no such target, or it must not be used.
        AgentLoadError: The agent cannot be loaded.
        click.UsageError: The text is not in any form of a target.
    """
    base = bridge_url(**bridge)
    if words := command_of():
        line: JSON = {"command": words[0], "args": list(words[1:]) or None}  # one word may be a whole line, in quotes
        return Target(_spec(line, _short(Path((words[0].split() or [""])[0]).name)))
    servers = configured(config)
    if text in servers.entries:
        return _configured(servers, text, None if config or direct else base)
    if (scheme := _SCHEME.match(text)) is not None:
        if scheme[1].lower() not in ("http", "https"):
            raise click.UsageError(f"{text!r} is reached over {scheme[1]}; expected a URL of http or https")
        spec = _spec({"url": text}, _short(re.split(r"[/?#]", text[scheme.end() :])[0].rpartition("@")[2]))
        return Target(spec, url=text)
    if _AGENT.fullmatch(text):
        return _agent(text)
    if config is None and is_server_name(text) and (published := _published(base, text)) is not None:
        return published
    if _is_installed(text):
        return _agent(text)
    _refuse_slip(text)
    try:
        return Target(usable_spec(servers, text))
    except ConfigError as error:
        if error.place != repr(text):  # a file that cannot be read: nobody knows whether it lists the target
            raise
        hint = _agent_file_like(text) or error.hint
        hint = f"{hint}; no bridge at {base} publishes it either" if hint and not config else hint
        raise ConfigError(error.place, error.problem, f"{hint}; {_EXPECTED}" if hint else "") from None


def _agent_file_like(text: str) -> str:
    """Return a hint at the Python file here that was probably meant; empty if there is none."""
    from gaia_bridge.text.likeness import did_you_mean

    return did_you_mean(text, sorted(file.name for file in Path().glob("*.py")))


def _configured(servers: ServersConfig, name: str, base: str | None) -> Target:
    """Return a configured server; if a running bridge has its program already, the program is not started again."""
    from gaia_bridge.errors import ServerUnavailableError

    spec = usable_spec(servers, name)
    with imported_for_good():
        from gaia_bridge.model import StdioServerSpec

    if base is not None and isinstance(spec, StdioServerSpec):
        try:
            published = _published(base, name, kind="servers")
        except ServerUnavailableError:  # the bridge wants a token, which commands do not send
            click.echo(printable(f"note: the bridge at {base} wants a token; {name} is started here as well"), err=True)
            published = None
        if published is not None:
            return published
    return Target(spec)


def _published(base: str, name: str, kind: str = "") -> Target | None:
    with imported_for_good():
        from gaia_bridge.model import HttpServerSpec, ServerOptions
        from gaia_bridge_cli.running_bridge import published_at

    url = published_at(base, name)
    if url is None or not url.startswith(f"{base}/{kind}"):
        return None
    click.echo(printable(f"note: {name} is published by the bridge at {base}, which is asked"), err=True)
    return Target(HttpServerSpec(name, url, options=ServerOptions(), oauth=None))


def _of_a_stranger(url: str) -> str:
    """Return a hint for a server that asks for authentication, where no entry provides any."""
    with imported_for_good():
        from gaia_bridge.client.oauth.errors import with_token

    login = f"gaia-bridge add NAME {shlex.quote(url)}; gaia-bridge login NAME"
    return f"it wants a login or a token; add it {with_token('NAME', url)}, or log in: {login}"


def _agent(reference: str) -> Target:
    """Return an agent, which runs in this process, with the others of its file: they may use each other."""
    with imported_for_good():
        from gaia_bridge.bridge.discovery.classes import is_bridge, is_mcp_server
        from gaia_bridge.config.process_rules import ONLY_SHOWN
        from gaia_bridge.contract import AgentLike
        from gaia_bridge.model import AgentServerSpec
        from gaia_bridge.sources.agent.parts import parts_of
        from gaia_bridge_cli.logs import keep_log
        from gaia_bridge_cli.output import stdout_to_stderr
        from gaia_bridge_cli.serving.agent_choice import told_of_slow_imports

    with stdout_to_stderr(), keep_log(), told_of_slow_imports(), ONLY_SHOWN.kept():
        chosen, others = _loaded(reference)
    agents = {
        each.name: each.agent
        for each in (*chosen, *others)
        if isinstance(each.agent, AgentLike)
        or is_mcp_server(each.agent)
        or is_bridge(each.agent)
        or parts_of(each.agent)
    }
    wanted = [each.name for each in chosen if each.name in agents]
    if not wanted:
        raise ConfigError(repr(reference), "the agent only converses, and has no tools", "gaia-bridge serve offers it")
    name = wanted[0] if len(wanted) == 1 else _short(Path(reference.partition(":")[0]).stem)
    return Target(AgentServerSpec(name, name), agents)


def _loaded(reference: str) -> tuple[list[LoadedAgent], list[LoadedAgent]]:
    """Return the agents that a reference names, and the others of the same file.

    Raises:
        AgentLoadError: None of the named agents can be loaded.
    """
    with imported_for_good():
        from gaia_bridge.bridge.discovery import find_agents, load_agent

    path, colon, attribute = reference.partition(":")
    if not colon or not path.endswith(".py"):
        return load_agent(reference), []
    [file] = find_agents([path])  # once for all, so that none is made twice
    chosen = [each for each in file.agents if each.reference.endswith(f".py:{attribute}")] or load_agent(reference)
    names = {each.name for each in chosen}  # a factory may make an agent of a class of the file
    return chosen, [each for each in file.agents if each.name not in names]


def _is_installed(name: str) -> bool:
    """Return whether an installed distribution announces an agent of that name."""
    from importlib.metadata import entry_points

    return bool(entry_points(group="gaia.agents", name=name))


def _spec(entry: JSON, name: str) -> ServerSpec:
    from gaia_bridge.config import EntryError, current_folder, parse_entry

    try:
        return parse_entry(name, entry, current_folder()).spec
    except EntryError as error:
        raise click.UsageError(f"{name}: {error}") from None


def _short(name: str) -> str:
    """Return a short name for a target without a name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:64] or "server"


def _refuse_slip(text: str) -> None:
    """Report what was probably meant, where a text has none of the expected forms.

    Raises:
        click.UsageError: The text is a URL without its scheme, a folder, or a command without `--`.
    """
    if any(character.isspace() for character in text.strip()):
        raise click.UsageError(f"{text!r} is a command; expected it behind --: ... -- {printable(text.strip())}")
    if os.path.isdir(text):
        raise click.UsageError(f"{text!r} is a folder; expected one agent: {Path(text) / 'file.py'}")
    url = _WITHOUT_SCHEME.fullmatch(text)
    if url is not None and (url["port"] or url["path"] or url["host"] == "localhost" or "." in url["host"].strip(".")):
        if os.path.exists(text):
            raise click.UsageError(f"{text!r} is a file and no agent (.py); to run it: ... -- {shlex.quote(text)}")
        scheme = "http" if is_loopback_host(url["host"].strip("[]")) else "https"
        raise click.UsageError(f"{text!r} has no scheme; did you mean {scheme}://{text}?")
