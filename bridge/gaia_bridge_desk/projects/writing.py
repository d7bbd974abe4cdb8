"""Writes the files of a new project or agent, and derives all its names from the one that the user typed.

The files are written all or none, and never over existing ones.
"""

from __future__ import annotations

import keyword
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from gaia_bridge.constants import OWN_PACKAGES, SHIPPED_AGENTS
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import agent_name, words_of
from gaia_bridge.text.escaping import printable
from gaia_bridge.version import __version__
from gaia_bridge_desk.editors.vscode import document, stdio_server, to_text

_LONGEST: Final = 40
"""Characters of a name: twice its length fits in one line of code."""

_FIRST: Final = "my"
"""The first word where a name has none that is valid in Python: `3d-print`, or a name that is all Chinese."""

_TESTS: Final = "test"
"""The beginning of names of files and classes that pytest takes for tests."""

_OWN_MODULES: Final = frozenset({"conftest", "gaia_agents", "setup", *OWN_PACKAGES})
"""Modules that an agent's file would hide, or be mistaken for."""


class AgentNames(Struct, frozen=True):
    """The names of one agent.

    Args:
        title: For people: `My weather`.
        published: The name to publish it as, which is also that of its entry point: `my-weather`.
        distribution: The name of its project as a package: `my-weather-agent`.
        module: Its file, without `.py`: `my_weather_agent`.
        class_name: `MyWeatherAgent`.
    """

    title: str
    published: str
    distribution: str
    module: str
    class_name: str


def names_of(name: str) -> AgentNames:
    """Return the names of an agent; its module and class get valid Python names, whatever the typed name is.

    Args:
        name: The name that the user typed: `my-weather`, `MyWeatherAgent`, `My weather!`.

    Raises:
        ConfigError: The name is not usable, or is that of an agent that ships with the bridge.
    """
    shown = f"the name {printable(name, _LONGEST)!r}"
    expected = f"expected 1 to {_LONGEST} printable characters"
    if not name.strip():
        raise ConfigError(shown, f"it is blank; {expected}", "choose a name such as my-weather")
    if len(name) > _LONGEST:
        raise ConfigError(shown, f"it has {len(name)} characters; {expected}", "choose a shorter one")
    if not name.isprintable():
        raise ConfigError(shown, f"it has characters that cannot be printed; {expected}", "leave them out")
    words = [word.lower() for word in words_of(name)]
    if words[-1:] == ["agent"]:
        words.pop()
    if not words or words[0][0].isdigit() or words[0].startswith(_TESTS):
        words.insert(0, _FIRST)
    class_name = "".join(word.capitalize() for word in words) + "Agent"
    published = agent_name(class_name)
    if published in SHIPPED_AGENTS:
        taken = " and ".join(SHIPPED_AGENTS)
        problem = f"an agent that ships with the bridge is called {published}; expected any name but {taken}"
        raise ConfigError(shown, problem, f"choose another, such as my-{published}")
    module = "_".join((*words, "agent"))
    return AgentNames(" ".join(words).capitalize(), published, module.replace("_", "-"), module, class_name)


def names_of_file(names: AgentNames, module: str) -> AgentNames:
    """Return the names of an agent whose file has another name.

    Args:
        names: Its names.
        module: The name of its file, without `.py`.

    Raises:
        ConfigError: The file could not be imported, or would hide another module.
    """
    place = f"--file {printable(module)}.py"
    hint = f"choose another file, such as {names.module}.py"
    if not module.isidentifier() or keyword.iskeyword(module):
        kind = "a keyword of Python" if keyword.iskeyword(module) else "no name that Python can import"
        raise ConfigError(place, f"{module!r} is {kind}; expected letters, digits and _, no digit first", hint)
    if module in sys.stdlib_module_names or module in _OWN_MODULES:
        raise ConfigError(place, f"{module!r} is the name of another module; expected one that hides none", hint)
    if module.startswith(("_", f"{_TESTS}_")) or module.endswith("_test"):
        kind = "left out where a folder is served" if module.startswith("_") else "taken for tests"
        raise ConfigError(place, f"files called so are {kind}; expected the file of an agent", hint)
    return AgentNames(names.title, names.published, names.distribution, module, names.class_name)


_TEMPLATES: Final = Path(__file__).parent / "templates"

_PROGRAM: Final = "${workspaceFolder}/.venv/bin/gaia-bridge"
"""The bridge that the project has installed: VS Code knows nothing of environments that a terminal has activated."""


def project_files(names: AgentNames, clone: Path | None = None) -> dict[str, str]:
    """Return the files of a project with one agent: path to text.

    Args:
        names: The agent's names.
        clone: The folder that the bridge was installed from, whose version may be in no package index.
    """
    origin = (
        "If no package index that you use has gaia-mcp-bridge, put the path of a clone before `--editable`."
        if clone is None
        else "The path is the clone of gaia-mcp-bridge on the machine where this project was begun; elsewhere, put\n"
        "another clone there, or nothing if your package index has gaia-mcp-bridge."
    )
    installed = {"clone": "" if clone is None else f"{shlex.quote(str(clone))} ", "origin": origin}
    server = document(stdio_server(["."], command=_PROGRAM), names.published)
    return {
        ".gitignore": _filled("gitignore", names),
        ".vscode/mcp.json": to_text(server),
        "README.md": _filled("README.md", names, **installed),
        "pyproject.toml": _filled("pyproject.toml", names),
        **agent_files(names, tests="tests/"),
    }


def agent_files(names: AgentNames, *, tests: str = "") -> dict[str, str]:
    """Return the file of an agent, and that of its test: path to text.

    Args:
        names: The agent's names.
        tests: The folder of tests, with a slash at its end.
    """
    return {
        f"{names.module}.py": _filled("agent.py", names),
        f"{tests}test_{names.module}.py": _filled("test_agent.py", names),
    }


def _filled(template: str, names: AgentNames, **more: str) -> str:
    from string import Template

    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(
        title=names.title,
        published=names.published,
        distribution=names.distribution,
        module=names.module,
        class_name=names.class_name,
        bridge=__version__,
        **more,
    )


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write a new folder. It gets its name when all files are written, so that it is never seen incomplete.

    Args:
        folder: The new folder; its parent folder exists.
        files: Path in it to text.

    Raises:
        ConfigError: The folder exists already, or cannot be written.
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
        folder: The folder, which exists.
        files: Path in it to text.

    Raises:
        ConfigError: One of the files exists already, or cannot be written.
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
