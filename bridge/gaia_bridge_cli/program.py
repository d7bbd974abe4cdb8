"""The program: its commands, and its handling of errors. Commands import their modules when they run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from traceback import walk_tb
from typing import Any

import click

from gaia_bridge.config.process_rules import APPROVALS_NEEDED
from gaia_bridge.errors import BridgeError
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.text.escaping import printable
from gaia_bridge.version import __version__
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.exit_codes import ExitCode, exit_code_of, is_of_output
from gaia_bridge_cli.options import is_debug
from gaia_bridge_cli.origin import installed_from
from gaia_bridge_cli.streams import queue_stderr


def run(args: Sequence[str] | None, prog_name: str, deadline: ExitDeadline | None = None) -> int:
    """Run the command line; called by `gaia_bridge_cli.main` once everything is imported.

    Args:
        args: The arguments; those of the process if `None`.
        prog_name: The program's name in its messages.
        deadline: Bounds the end of the process for commands that run agents; `None` if the process is not ours.
    """
    put_back = queue_stderr()
    try:
        with APPROVALS_NEEDED.kept():
            code: Any = program.main(args=args, prog_name=prog_name, standalone_mode=False, obj=deadline)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except click.Abort:
        return ExitCode.INTERRUPTED
    except OSError as error:  # from --help and --version, which are no commands
        if not is_of_output(error):
            raise
        click.echo(f"{prog_name}: error: {_no_output(error)}", err=True)
        return ExitCode.OUTPUT
    finally:
        put_back()
    return int(code or ExitCode.OK)


class _Commands(MutableMapping[str, click.Command]):
    """The commands by their names, each imported at its first use."""

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._commands: dict[str, click.Command | str] = dict(places)

    def __getitem__(self, name: str) -> click.Command:
        command = self._commands[name]
        if isinstance(command, str):
            module, _, attribute = command.partition(":")
            command = self._commands[name] = _imported(module, attribute)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __contains__(self, name: object) -> bool:
        return name in self._commands

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


def _imported(module: str, attribute: str) -> click.Command:
    with imported_for_good():
        command: click.Command = getattr(import_module(f"gaia_bridge_cli.{module}"), attribute)
    return command


class _Program(click.Group):
    """A group that ends every error in one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own business
        except Exception as error:
            return _report(ctx, only_error_in(error))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups by their purpose."""
        width = max(len(name) for name in self.commands)
        limit = formatter.width - width - 6
        for heading, commands in _GROUPS.items():
            with formatter.section(heading):
                rows = ((name.ljust(width), click.Command(name, help=text)) for name, (_, text) in commands.items())
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in rows])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Give an example, and the place of the documentation."""
        folder = installed_from()
        begin, reference = (str(folder / page) if folder and (folder / page).is_file() else page for page in _PAGES)
        with formatter.section("Example"):
            formatter.write_text("gaia-bridge serve hello_agent.py")
        with formatter.section("Documentation"):
            formatter.write_dl([("first steps", begin), ("commands, exit codes", reference)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or fail with a suggestion."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {printable(name)!r}.{self._suggestion(name)}")
        return super().resolve_command(ctx, args)

    def _suggestion(self, name: str) -> str:
        if name.endswith(".py") or "/" in name:
            return f" Did you mean 'serve {printable(name)}'?"
        import difflib

        close = difflib.get_close_matches(name, self.commands, 1)
        if suggested := _CALLED_ELSEWHERE.get(name.lower()) or next(iter(close), None):
            return f" Did you mean {suggested!r}?"
        return ""


_PAGES = ("docs/five-minutes.md", "docs/reference/commands.md")
"""The page for newcomers, and the one with each option and exit code."""


_GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Begin": {
        "init": ("projects:init", "Write a new project with an agent and its test."),
        "new": ("projects:new", "Add an agent and its test to the current folder."),
    },
    "Run": {
        "serve": ("serving.serve:serve", "Publish agents, over HTTP or over stdio."),
        "dev": ("serving.dev:dev", "Serve agents over HTTP while they are being written."),
        "acp": ("acp:acp", "Serve an agent to Zed, JetBrains or Neovim."),
        "agents": ("agents:agents", "Show which agents would be published."),
        "status": ("servers.status_commands:status", "Show how a running bridge is."),
        "doctor": ("doctor:doctor", "Look for what is wrong on this machine, and say what to do."),
    },
    "Editors": {
        "install": ("install:install", "Put the bridge into the configuration of an editor."),
        "import": ("import_command:import_servers", "Take over the servers that an editor has."),
        "bundle": ("bundle:bundle", "Make plugins, bundles and links that others install."),
    },
    "One bridge for all editors": {
        "connect": ("background:connect", "Serve an editor by the bridge that runs in the background."),
        "up": ("background:up", "Start the bridge for all editors, unless it runs."),
        "down": ("background:down", "End the bridge for all editors."),
        "restart": ("background:restart", "Start a bridge that runs anew; editors stay connected."),
        "ps": ("background:ps", "Show the bridges in the background, and who uses them."),
    },
    "Servers": {
        "search": ("servers.registry.search_command:search", "Find servers in the public registry."),
        "add": ("servers.entry_commands:add", "Try a server, and keep it in the configuration if it works."),
        "list": ("servers.list_commands:list_servers", "Show the configured servers."),
        "remove": ("servers.entry_commands:remove", "Take a server out of the configuration."),
        "enable": ("servers.entry_commands:enable", "Use a server again that was disabled."),
        "disable": ("servers.entry_commands:disable", "Keep a server in the configuration, and do not use it."),
        "trust": ("servers.trust_commands:trust", "Approve the servers of a project."),
        "login": ("servers.trust_commands:login", "Log in to a server on the network, in the browser."),
    },
    "Try servers and agents": {
        "tools": ("servers.tool_commands:tools", "Show the tools of a server or agent."),
        "call": ("servers.tool_commands:call", "Call a tool of a server or agent."),
        "read": ("servers.offer_commands:read", "Read a resource of a server or agent."),
        "prompt": ("servers.offer_commands:prompt", "Get a prompt of a server or agent."),
        "skills": ("servers.offer_commands:skills", "Show the skills of a server or agent."),
        "test-client": (
            "servers.tool_commands:test_client",
            "Test a server or agent: connect, list, ping; with timings.",
        ),
        "logs": ("servers.list_commands:logs", "Show what a server wrote to its error output."),
        "generate": ("servers.generate_command:generate", "Write a typed Python client of a server or agent."),
    },
    "Shell": {"completion": ("servers.status_commands:completion", "Make a shell complete commands and names.")},
}
"""The place of each command, below `gaia_bridge_cli`, and the first sentence of its help, which needs no import."""

_HIDDEN = (("background", "background:background"),)
"""Commands that no person types."""

_CALLED_ELSEWHERE = {
    **dict.fromkeys(("develop", "reload", "watch"), "dev"),
    **dict.fromkeys(("run", "serve-http", "start"), "serve"),
    **dict.fromkeys(("attach", "front"), "connect"),
    **dict.fromkeys(("daemon",), "up"),
    **dict.fromkeys(("stop", "kill", "shutdown"), "down"),
    **dict.fromkeys(("add-json",), "add"),
    **dict.fromkeys(("mcpb", "pack", "package", "plugin"), "bundle"),
    **dict.fromkeys(("create", "scaffold", "startproject"), "init"),
    **dict.fromkeys(("browse", "discover", "find", "registry"), "search"),
    **dict.fromkeys(("get", "ls", "servers"), "list"),
    **dict.fromkeys(("delete", "rm", "uninstall"), "remove"),
    **dict.fromkeys(("inspect", "inspector", "ping", "probe", "test"), "test-client"),
    **dict.fromkeys(("check", "diagnose", "troubleshoot", "verify"), "doctor"),
    **dict.fromkeys(("exec", "invoke", "call-tool"), "call"),
    **dict.fromkeys(("codegen", "generate-client"), "generate"),
    **dict.fromkeys(("read-resource", "resource", "cat"), "read"),
    **dict.fromkeys(("get-prompt", "prompts"), "prompt"),
    **dict.fromkeys(("health", "info"), "status"),
    **dict.fromkeys(("auth", "signin"), "login"),
    **dict.fromkeys(("approve",), "trust"),
    **dict.fromkeys(("pause", "stop"), "disable"),
    **dict.fromkeys(("resume", "unpause"), "enable"),
    **dict.fromkeys(("log", "tail"), "logs"),
    **dict.fromkeys(("config", "configuration", "settings"), "list"),
    "list-tools": "tools",
    "version": "--version",
    "help": "--help",
}
"""Names of commands in other programs, with their counterparts here."""


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=_Commands(
        [*((name, place) for group in _GROUPS.values() for name, (place, _) in group.items()), *_HIDDEN]
    ),
)
@click.version_option(__version__, prog_name="gaia-bridge", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Publish Python agents and MCP servers to editors, and use MCP servers."""
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        ctx.color = False


def _report(ctx: click.Context, error: BaseException) -> ExitCode:
    debug = is_debug(ctx)
    if debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, BridgeError):
        line = str(error)
    elif is_of_output(error):
        line = _no_output(error)
    else:
        line = f"internal error: {type(error).__name__}: {error}"
        if not debug:
            line += f"; {_where_from(ctx, error)}"
    click.echo(f"{ctx.command_path}: error: {printable(' '.join(line.split()), None)}", err=True)
    return exit_code_of(error)


def _where_from(ctx: click.Context, error: BaseException) -> str:
    """Return how the user can learn where an internal error comes from."""
    command = program.commands.get(ctx.invoked_subcommand or "")
    if command is not None and any(parameter.name == "debug" for parameter in command.params):
        return "run with --debug for the traceback"
    frames = [f"{frame.f_code.co_filename}:{line}" for frame, line in walk_tb(error.__traceback__)]
    return f"it comes from {frames[-1]}" if frames else "nothing says where it comes from"


def _no_output(error: BaseException) -> str:
    return f"standard output cannot be written: {getattr(error, 'strerror', None) or error}"
