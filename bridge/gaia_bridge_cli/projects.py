"""`gaia-bridge init` and `gaia-bridge new`: a project, or one more agent, to begin with."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from gaia_bridge.config import current_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.origin import installed_from
from gaia_bridge_desk.projects import agent_files, names_of, names_of_file, project_files, write_files, write_folder

_TESTS = "tests"
"""The folder of tests, where the current folder has one."""


@click.command(short_help="Write a new project with an agent and its test.")
@click.argument("name")
def init(name: str) -> int:
    """Write a new project into the folder NAME: an agent, its test, and what VS Code and pip need.

    The agent, its module and its class are called after the folder, in names that Python takes. A folder that exists is
    never written to.
    """
    folder = Path(name)
    names = names_of(folder.name or name)
    write_folder(folder, project_files(names, installed_from()))
    _tell(f"wrote {printable(name)}, with the agent {names.published} in {names.module}.py and its test")
    # The folder's name may begin with a hyphen, or hold a space.
    _tell(f"next: cd -- {shlex.quote(name)} && {_test()} && gaia-bridge dev {names.module}.py")
    _tell(
        "VS Code starts the bridge of .venv in it (.vscode/mcp.json): README.md begins with the command that makes it"
    )
    return ExitCode.OK


class _Kind(click.Choice[str]):
    """The kinds of files that `new` writes."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind. It is easily forgotten, so the error shows the whole command."""
        if value not in self.choices:
            raise click.UsageError(f"{value!r} is not 'agent'; expected: gaia-bridge new agent NAME", ctx)
        return super().convert(value, param, ctx)


@click.command(short_help="Add an agent and its test to the current folder.")
@click.argument("kind", type=_Kind(["agent"]), metavar="agent")
@click.argument("name")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="The file.  [default: NAME_agent.py]")
def new(kind: str, name: str, file: Path | None) -> int:
    """Add an agent to the current folder, and its test: to the folder `tests` if there is one, else beside it.

    Files that exist are never written to.
    """
    names, folder = names_of(name), Path()
    if file is not None:
        if file.suffix != ".py":
            problem = f"{file.name!r} is no Python file; expected a name that ends in .py"
            raise ConfigError("--file", problem, f"write --file {names.module}.py")
        names, folder = names_of_file(names, file.stem), file.parent
    current_folder()  # fails if the folder is gone
    tests = f"{_TESTS}/" if folder == Path() and Path(_TESTS).is_dir() else ""
    files = agent_files(names, tests=tests)
    write_files(folder, files)
    agent, test = (str(folder / path) for path in files)
    _tell(f"wrote {printable(agent)}, with the agent {names.published}, and {printable(test)}")
    _tell(f"next: {_test()} {shlex.quote(test)} && gaia-bridge serve {shlex.quote(agent)}")
    if folder == Path() and Path("pyproject.toml").is_file():
        line = f'{names.published} = "{names.module}:{names.class_name}"'
        _tell(f'to have it found once it is installed, add to [project.entry-points."gaia.agents"]: {line}')
    return ExitCode.OK


def _test() -> str:
    """Return the command that runs tests, with the installation of pytest if it is missing."""
    return "python -m pytest" if find_spec("pytest") is not None else "pip install pytest && python -m pytest"


def _tell(line: str) -> None:
    click.echo(line, err=True)
