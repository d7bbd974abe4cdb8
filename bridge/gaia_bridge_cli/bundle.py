"""`gaia-bridge bundle`: agents and servers in forms that others install."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config import current_folder
from gaia_bridge.config.documents import is_disabled, servers_of, to_text
from gaia_bridge.config.file_reader import read_json
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.options import agent_option
from gaia_bridge_desk.bundles import (
    EDITORS_WITH_LINKS,
    Contents,
    Metadata,
    PluginForm,
    Project,
    claim_of,
    described,
    differences,
    expect_program,
    gathered,
    install_links,
    mcpb_bytes,
    mcpb_files,
    of_package,
    plugin_files,
    project_arguments,
    read_project,
    readme_claims,
    registry_name,
    server_document,
    written,
)
from gaia_bridge_desk.editors.entries import program_entry
from gaia_bridge_desk.editors.table import EDITORS

F = TypeVar("F", bound=Callable[..., Any])

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Target(Struct, frozen=True):
    """The destination of a bundle.

    Args:
        output: The path to write to, if one was named.
        only_print: Whether to print the bundle, and write nothing.
        check: Whether to compare the bundle with the existing files.
        force: Whether to overwrite existing files.
    """

    output: Path | None
    only_print: bool
    check: bool
    force: bool


@click.group(short_help="Make plugins, bundles and links that others install.")
def bundle() -> None:
    """Make forms of agents and servers that others install without a configuration of their own.

    On another machine, a bundle starts gaia-mcp-bridge from PyPI, by uv, with the agents' files inside of the bundle.
    No path of this machine and no secret of its configuration is in it.
    """


def _about_options(command: F) -> F:
    """Add the options for the metadata."""
    for option in (
        click.option("--author", metavar="NAME", help="Who made it.  [default: as pyproject.toml says]"),
        click.option(
            "--description",
            metavar="TEXT",
            help="What it is for.  [default: the same, or the agent's docstring]",
        ),
        click.option("--version", metavar="VERSION", help="Its version.  [default: the same, or 0.1.0]"),
    ):
        command = option(command)
    return command


def _content_options(command: F) -> F:
    """Add the options for the contents."""
    for option in (
        click.option("--env", "variables", metavar="NAME", multiple=True, help="A variable that the agents need."),
        click.option("--with", "requirements", metavar="PACKAGE", multiple=True, help="A package that they need."),
        click.option("--only", metavar="NAME", multiple=True, help="This server of the configuration; repeatable."),
        click.option(
            "--config", type=click.Path(path_type=Path, dir_okay=False), help="With the servers of this configuration."
        ),
        click.option("--package", is_flag=True, help="With the agents of the project here, by its package on PyPI."),
        agent_option,
        click.option(
            "--name", metavar="NAME", help="What it is called.  [default: as the project, or the first agent]"
        ),
    ):
        command = option(command)
    return click.argument("agents", nargs=-1, metavar="[FILE.py[:NAME]]...")(command)


def _target_options(command: F) -> F:
    """Add the options for the destination."""
    for option in (
        click.option("--force", is_flag=True, help="Write over what is there."),
        click.option("--check", is_flag=True, help="Write nothing; say what is otherwise there, and fail."),
        click.option("--print", "only_print", is_flag=True, help="Show it, and write nothing."),
        click.option("--output", metavar="PATH", type=click.Path(path_type=Path), help="Where it goes."),
    ):
        command = option(command)
    return command


@bundle.command("plugin", short_help="An Agent Plugin, for VS Code, Copilot, Cursor and others.")
@_content_options
@_about_options
@click.option(
    "--form",
    type=click.Choice([form.value for form in PluginForm]),
    default=PluginForm.AGENT_PLUGIN.value,
    show_default=True,
    help="The open form, or Claude Code's, which VS Code and Copilot read too.",
)
@_target_options
def _plugin(form: str, output: Path | None, only_print: bool, check: bool, force: bool, **options: Any) -> int:
    """Write an Agent Plugin into a folder: plugin.json, mcp.json, the agents, and their skills.

    A folder `skills` beside an agent is taken along. The folder is called as the plugin.
    """
    about, contents = _wanted(**options)
    files = plugin_files(about, contents, PluginForm(form))
    code = _put(files, _Target(output or Path(about.name), only_print, check, force), contents)
    has_files = contents.package is None and PluginForm(form) is PluginForm.AGENT_PLUGIN
    if has_files and not only_print and not check:
        click.echo("VS Code up to 1.139 does not say to such a plugin where it is: for it, add --form claude", err=True)
    return code


@bundle.command("mcpb", short_help="An MCPB bundle, for Claude Desktop.")
@_content_options
@_about_options
@_target_options
def _mcpb(output: Path | None, only_print: bool, check: bool, force: bool, **options: Any) -> int:
    """Write an MCPB bundle: a file that Claude Desktop installs when it is opened.

    Claude Desktop asks for the variables of the configuration, and keeps those without a default as secrets.
    """
    about, contents = _wanted(has_author=True, **options)
    files = mcpb_files(about, contents)
    target = _Target(output or Path(f"{about.name}.mcpb"), only_print, check, force)
    if only_print:
        return _put(files, target, contents)
    path = target.output
    assert path is not None
    return _put({path.name: mcpb_bytes(files)}, replace(target, output=path.parent), contents)


@bundle.command("server-json", short_help="server.json, for the MCP registry.")
@click.option("--project", "folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Its folder.")
@click.option("--name", metavar="NAME", help="Its name in the registry: io.github.OWNER/NAME")
@_about_options
@click.option("--env", "variables", metavar="NAME", multiple=True, help="A variable that it needs.")
@_target_options
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]")
def _server_json(
    folder: Path,
    name: str | None,
    author: str | None,
    description: str | None,
    version: str | None,
    variables: tuple[str, ...],
    output: Path | None,
    only_print: bool,
    check: bool,
    force: bool,
    arguments: tuple[str, ...],
) -> int:
    """Write server.json for a project that is a package on PyPI, to be sent off with `mcp-publisher publish`.

    ARGUMENT are those of its program, where that is not the bridge.
    """
    project, about = _project(folder, author=author, description=description, version=version)
    called = registry_name(project, about, name)
    document = server_document(project, about, called, arguments or project_arguments(project), _checked(variables))
    target = _Target(output.parent if output else folder, only_print, check, force)
    code = _put({output.name if output else "server.json": to_text(document).encode()}, target, None)
    if not readme_claims(project, called):
        readme = project.readme or folder / "README.md"
        line = f"{readme} does not say whose the package is; the registry wants this line in it: {claim_of(called)}"
        click.echo(printable(line, None), err=True)
        return ExitCode.CONFIG if check else code
    return code


@bundle.command("link", short_help="Links by which VS Code and Cursor install a project.")
@click.argument("editors", nargs=-1, metavar="[EDITOR]...")
@click.option("--project", "folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Its folder.")
@click.option("--version", metavar="VERSION", help="Its version.  [default: as pyproject.toml says]")
@click.option("--markdown", is_flag=True, help="As they are written in a README.")
def _link(editors: tuple[str, ...], folder: Path, version: str | None, markdown: bool) -> int:
    """Print links by which editors install a project that is a package on PyPI.

    EDITOR is vscode, vscode-insiders or cursor; all three, if none is named.
    """
    if unknown := next((editor for editor in editors if editor not in EDITORS_WITH_LINKS), None):
        names = ", ".join(EDITORS_WITH_LINKS)
        raise click.UsageError(f"{one_line(unknown, 40)!r} installs by no link that is known; expected one of {names}")
    project, about = _project(folder, version=version, description="-")
    words = [f"{project.distribution}=={about.version}", *project_arguments(project)]
    for editor in (each for each in EDITORS if each.name in (editors or EDITORS_WITH_LINKS)):
        entry = program_entry(editor.shape, "uvx", words)
        link, on_the_web = install_links(editor.name, about.name, entry)
        click.echo(f"[Install in {editor.title}]({on_the_web})" if markdown else link)
    return ExitCode.OK


def _project(folder: Path, has_author: bool = False, **given: str | None) -> tuple[Project, Metadata]:
    """Return a project, and its metadata.

    Raises:
        ConfigError: There is no project.
    """
    project = read_project(folder)
    if project is None:
        raise ConfigError(str(folder), "there is no pyproject.toml with a [project]", "name its folder with --project")
    return project, described(project, project.distribution, given, has_author=has_author)


def _wanted(
    name: str | None,
    agents: tuple[str, ...],
    more: tuple[str, ...],
    package: bool,
    config: Path | None,
    only: tuple[str, ...],
    requirements: tuple[str, ...],
    variables: tuple[str, ...],
    author: str | None,
    description: str | None,
    version: str | None,
    has_author: bool = False,
) -> tuple[Metadata, Contents]:
    """Return the contents of a bundle, and its metadata."""
    agents = (*agents, *more)
    folder = Path(current_folder())
    given = {"name": name, "author": author, "description": description, "version": version}
    if package:
        if agents or config or requirements:
            raise click.UsageError("--package brings its own agents: leave out files, --config and --with")
        project, about = _project(Path(), has_author, **given)
        expect_program(project)
        return about, of_package(project.distribution, about.version, project.agents, folder, _checked(variables))
    entries = _entries(config, only)
    contents = gathered(agents, folder, entries, config or Path("--config"), requirements, _checked(variables))
    beside = folder / expanded(Path((agents[0].partition(":")[0]) if agents else config or "")).parent
    first = Path(contents.agents[0].partition(":")[0]).stem if contents.agents else next(iter(entries))
    around = read_project(beside)
    return described(around, first, given, docstring=contents.description, has_author=has_author), contents


def _entries(config: Path | None, only: tuple[str, ...]) -> dict[str, Any]:
    """Return the servers to take from a configuration.

    Raises:
        ConfigError: One of the names is not there.
    """
    if config is None:
        if only:
            raise click.UsageError("--only chooses among the servers of a configuration: name it with --config")
        return {}
    path = expanded(config)
    entries = servers_of(read_json(path).document, path)
    if missing := [name for name in only if name not in entries]:
        raise ConfigError(
            str(config), f"there is no server {one_line(missing[0], 80)!r}", f"there are: {', '.join(entries)}"
        )
    return {name: entry for name, entry in entries.items() if (name in only) or (not only and not is_disabled(entry))}


def _checked(variables: Iterable[str]) -> list[str]:
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise click.UsageError(f"--env {one_line(name, 40)!r}: expected the name of a variable")
    return list(variables)


def _put(files: Mapping[str, bytes], target: _Target, contents: Contents | None) -> int:
    """Show, compare or write the files."""
    folder = target.output or Path()
    if target.only_print:
        for name, content in files.items():
            if len(files) > 1:
                click.echo(f"--- {printable(name)}")
            click.echo(content, nl=not content.endswith(b"\n"))
        return ExitCode.OK
    if target.check:
        changed = list(differences(folder, files))
        for line in changed:
            click.echo(printable(f"{folder}: {line}", None), err=True)
        return ExitCode.CONFIG if changed else ExitCode.OK
    done = written(folder, files, force=target.force)
    shown = folder / next(iter(files)) if len(files) == 1 else folder
    click.echo(printable(f"{'wrote' if done else 'nothing to do:'} {shown}", None), err=True)
    for line in () if contents is None else _remarks(contents):
        click.echo(printable(line, None), err=True)
    return ExitCode.OK


def _remarks(contents: Contents) -> Iterable[str]:
    """Yield remarks on the contents for the user."""
    if contents.variables:
        yield f"whoever installs it says: {', '.join(each.name for each in contents.variables)}"
    for module in contents.unknown:
        yield f"an agent imports {module}, which is not installed with the bundle; if it needs it, add --with PACKAGE"
