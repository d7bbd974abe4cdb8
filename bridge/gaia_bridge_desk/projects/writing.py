"""The files of a new project or agent: written all or none, and never over what is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable
from gaia_bridge.version import __version__
from gaia_bridge_desk.editors.vscode import document, stdio_server, to_text
from gaia_bridge_desk.projects.names import AgentNames

_TEMPLATES: Final = Path(__file__).parent / "templates"

_PROGRAM: Final = "${workspaceFolder}/.venv/bin/gaia-bridge"
"""The bridge that the project has installed: VS Code knows nothing of environments that a terminal has activated."""


def project_files(names: AgentNames) -> dict[str, str]:
    """The files of a project with one agent: path to text.

    Args:
        names: What the agent is called.
    """
    server = document(stdio_server(["."], command=_PROGRAM), names.published)
    return {
        ".gitignore": _filled("gitignore", names),
        ".vscode/mcp.json": to_text(server),
        "README.md": _filled("README.md", names),
        "pyproject.toml": _filled("pyproject.toml", names),
        **agent_files(names, tests="tests/"),
    }


def agent_files(names: AgentNames, *, tests: str = "") -> dict[str, str]:
    """The file of an agent, and that of its test: path to text.

    Args:
        names: What it is called.
        tests: The folder of tests, with a slash at its end.
    """
    return {
        f"{names.module}.py": _filled("agent.py", names),
        f"{tests}test_{names.module}.py": _filled("test_agent.py", names),
    }


def _filled(template: str, names: AgentNames) -> str:
    from string import Template

    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(
        title=names.title,
        published=names.published,
        distribution=names.distribution,
        module=names.module,
        class_name=names.class_name,
        bridge=__version__,
    )


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write a new folder. It has its name when everything is written, so that nobody finds half of it.

    Args:
        folder: Where; the folder that it is to be in is there.
        files: Path in it to text.

    Raises:
        ConfigError: It is there already, or cannot be written.
    """
    place = printable(str(folder))
    if os.path.lexists(folder):
        raise ConfigError(place, "it is there already; expected the name of a new folder", "choose another name")
    if not folder.parent.is_dir():
        problem = f"there is no folder {printable(str(folder.parent))}; expected a name, or a path in a folder"
        raise ConfigError(place, problem, "make that folder first, or choose another")
    hidden = folder.with_name(f".new-project-{os.getpid()}")
    try:
        hidden.mkdir()
    except OSError as error:
        raise _unwritable(place, error) from None
    try:
        for name, text in files.items():
            file = hidden / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        hidden.rename(folder)
    except BaseException as error:
        import shutil

        shutil.rmtree(hidden, ignore_errors=True)
        if isinstance(error, OSError):
            raise _unwritable(place, error) from None
        raise


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write new files into a folder.

    Args:
        folder: Where; it is there.
        files: Path in it to text.

    Raises:
        ConfigError: One of them is there already, or cannot be written.
    """
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = folder / name
            with file.open("x", encoding="utf-8") as opened:
                written.append(file)
                opened.write(text)
    except BaseException as error:
        for file in written:
            with suppress(OSError):
                file.unlink()
        if isinstance(error, FileExistsError):
            problem = "it is there already, and is left as it is; expected a new file"
            hint = "choose another name, or another file: --file FILE"
            raise ConfigError(printable(str(error.filename)), problem, hint) from None
        if isinstance(error, OSError):
            raise _unwritable(printable(str(error.filename or folder)), error) from None
        raise


def _unwritable(place: str, error: OSError) -> ConfigError:
    return ConfigError(place, f"cannot be written: {error.strerror}", "nothing was written; choose another place")
