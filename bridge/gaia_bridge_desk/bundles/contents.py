"""Collects the contents of a bundle, whatever its form: agents, their skills, servers, and the variables they need.

An agent consists of its own file, the modules beside it that it imports, and its skills.
"""

from __future__ import annotations

import ast
import os
import re
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.config.documents import SERVERS_KEY, to_text
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.constants import MIB, OWN_PACKAGES
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.skills import SKILL_FILE
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.skills.frontmatter import FrontmatterError, read_frontmatter
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge.text.likeness import did_you_mean
from gaia_bridge_desk.bundles.start import DISTRIBUTION, all_requirements, plain_name
from gaia_bridge_desk.bundles.travelling import Variable, travelling, variables_in

_SKILLS: Final = "skills"
_DESCRIPTION: Final = 300
"""Characters of a description: editors show it in one line."""
_MAX_FILES: Final = 1_000
_MAX_BYTES: Final = 16 * MIB
"""Bytes of one file. A larger file is data, and belongs where it is downloaded from."""

_MAX_FOLDER: Final = 64 * MIB
"""Bytes of all files of one folder."""
_NOT_TAKEN: Final = frozenset({"__pycache__", "node_modules"})
_ENVIRONMENT: Final = "pyvenv.cfg"
"""The file that each virtual environment has, whatever the environment is called."""
_KEY_FILE: Final = re.compile(
    r"(?i)id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|.*\.(?:env|jks|kdbx|key|keystore|p12|pfx|ppk)|credentials(?:\.json)?"
)
"""Names of files that hold keys and passwords."""
_KEY: Final = re.compile(rb"^-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----", re.MULTILINE)


_SCRIPT: Final = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$")
"""The header in which a script lists its requirements (PEP 723)."""

_OUR_MODULES: Final = frozenset({"gaia_agents", *OWN_PACKAGES})


class AgentFiles(Struct, frozen=True):
    """The files and requirements of an agent.

    Args:
        reference: Its reference, relative to its files: `weather.py`, `weather.py:Weather`.
        files: Its files: path to content.
        skills: The files of its skills: path below `skills` to content.
        requirements: The requirements in the header of its file.
        imports: Other modules that it imports.
        description: The first paragraph of its docstring.
    """

    reference: str
    files: dict[str, bytes]
    skills: dict[str, bytes]
    requirements: tuple[str, ...]
    imports: frozenset[str]
    description: str = ""


def agent_files(reference: str, folder: Path) -> AgentFiles:
    """Collect the files of an agent.

    Args:
        reference: `FILE.py` or `FILE.py:NAME`.
        folder: The folder of relative paths.

    Raises:
        ConfigError: There is no such file, or one of them cannot be taken.
    """
    name, colon, attribute = reference.partition(":")
    path = folder / expanded(Path(name))
    place = f"--agent {one_line(reference, 200)}"
    if path.suffix != ".py":
        raise ConfigError(place, "is no Python file; a bundle holds the files of its agents", "name the file: agent.py")
    if not path.is_file():
        raise ConfigError(place, "there is no such file", "name the file of an agent")
    root = _root(path)
    modules = _Modules(root)
    modules.follow(path)
    if colon:
        _expect_name(attribute, modules.files[path.relative_to(root).as_posix()], place)
    if root != path.parent:  # all of its package, however a module is imported
        for each in _files_below(root / path.relative_to(root).parts[0]):
            modules.follow(each)
    name = path.relative_to(root).as_posix()
    return AgentFiles(
        f"{name}{colon}{attribute}",
        dict(sorted(modules.files.items())),
        skill_files(path.parent),
        tuple(_script_requirements(modules.files[name].decode("utf-8", "replace"), place)),
        frozenset(modules.others),
        _description(ast.parse(modules.files[name]), attribute),
    )


def skill_files(folder: Path) -> dict[str, bytes]:
    """Return the files of the skills that lie beside an agent: path below `skills` to content.

    Args:
        folder: The agent's folder.

    Raises:
        ConfigError: A file cannot be taken.
    """
    return dict(sorted(_skills(folder / _SKILLS)))


def _expect_name(dotted: str, source: bytes, place: str) -> None:
    """Refuse the name of an agent that its file does not have, as far as this is visible without running the file.

    Raises:
        ConfigError: There is no such name; the message lists those that exist.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes):
        return
    table = symtable.symtable(source.decode("utf-8-sig", "replace"), place, "exec")
    names = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    names.update(name for node in nodes if isinstance(node, ast.Global) for name in node.names)
    wanted = dotted.partition(".")[0]
    if wanted in names or "__getattr__" in names:
        return
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    public = [name for name in defined if not name.startswith("_")]
    hint = did_you_mean(wanted, public) or (f"it defines {', '.join(public[:20])}" if public else "")
    raise ConfigError(place, f"there is no {one_line(wanted, 80)!r} in the file", hint)


def _description(tree: ast.Module, attribute: str) -> str:
    """Return the first paragraph of a docstring: of the named class, else of the first public one, or of the file."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    named = [node for node in classes if node.name == attribute] if attribute else classes
    nodes: list[ast.ClassDef | ast.Module] = [*named[:1], tree]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    return next((one_line(text.partition("\n\n")[0], _DESCRIPTION) for text in texts if text.strip()), "")


def _root(path: Path) -> Path:
    """Return the folder where the modules of an agent begin: that of its file, or the one around its package."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


class _Modules:
    """The modules of one folder that are reached from a first one.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, bytes] = {}
        self.others: set[str] = set()

    def follow(self, path: Path) -> None:
        """Collect a file, and the modules of the folder that it imports."""
        name = path.relative_to(self._folder).as_posix()
        if name in self.files:
            return
        content = self.files[name] = _content(path, self._folder)
        if path.suffix != ".py":
            return
        try:
            tree = ast.parse(content, str(path))
        except (SyntaxError, ValueError) as error:
            raise ConfigError(str(path), f"is not valid Python: {error}", "mend it") from None
        for module in _imported(tree):
            self._take_module(module)

    def _take_module(self, module: str) -> None:
        file, package = self._folder / f"{module}.py", self._folder / module
        if file.is_file():
            self.follow(file)
        elif (package / "__init__.py").is_file():
            for each in _files_below(package):
                self.follow(each)
        elif module not in sys.stdlib_module_names and module not in _OUR_MODULES:
            below = _files_below(package)
            if any(each.suffix == ".py" for each in below):  # a package without an __init__.py
                for each in below:
                    self.follow(each)
            else:
                self.others.add(module)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the first words of the modules that are imported, wherever in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _skills(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the skills in a folder: those of each folder in it that has a `SKILL.md`."""
    for skill in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (skill / SKILL_FILE).is_file():
            _check_skill(skill)
            yield from ((f.relative_to(folder).as_posix(), _content(f, folder)) for f in _files_below(skill))


def _check_skill(folder: Path) -> None:
    """Refuse a skill that clients would leave out.

    Raises:
        ConfigError: Its frontmatter is not valid, or has another name than its folder.
    """
    path = folder / SKILL_FILE
    try:
        name = read_frontmatter(_content(path, folder), AgentLimits().skill_frontmatter_bytes)["name"]
    except FrontmatterError as error:
        raise ConfigError(str(path), f"{error}, so that clients leave the skill out") from None
    if name != folder.name:
        problem = f"says the name {name!r} in the folder {folder.name!r}"
        raise ConfigError(str(path), problem, "give both the same name")


def _files_below(folder: Path) -> list[Path]:
    """Return the files below a folder, without hidden ones, and without those that programs install or make there."""
    paths: list[Path] = []
    size = 0
    for root, folders, names in os.walk(folder):
        if _ENVIRONMENT in names and root != str(folder):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_TAKEN)
        here = [Path(root, name) for name in sorted(names) if not name.startswith(".") and not name.endswith(".pyc")]
        paths += here
        size += sum(path.stat().st_size for path in here if path.is_file())
        if len(paths) > _MAX_FILES or size > _MAX_FOLDER:
            problem = f"has more than {_MAX_FILES} files, or {_MAX_FOLDER // MIB} MiB"
            raise ConfigError(str(folder), problem, "keep data elsewhere")
    return paths


def _content(path: Path, folder: Path) -> bytes:
    """Read a file, unless it is a key, or a link to a place from which nothing is taken.

    Raises:
        ConfigError: The file cannot be taken.
    """
    within, own = path.resolve(), folder.resolve()
    if not within.is_relative_to(own):
        raise ConfigError(str(path), f"leads out of {folder}", "put the file itself there")
    if path.is_symlink() and any(part.startswith(".") for part in within.relative_to(own).parts):
        raise ConfigError(str(path), "leads to a hidden file, which is not taken", "put the file itself there")
    content = read_bytes(path, _MAX_BYTES)[0]
    if _KEY_FILE.fullmatch(path.name) or (path.suffix != ".py" and _KEY.search(content)):
        hint = "keep it elsewhere, and name a variable for it with --env"
        raise ConfigError(str(path), "looks like a key or a file of passwords, which nobody else is to have", hint)
    return content


def _script_requirements(text: str, place: str) -> list[str]:
    """Return the requirements that a file lists in its own header.

    Raises:
        ConfigError: The header is not valid TOML.
    """
    header = _SCRIPT.search(text)
    if header is None:
        return []
    import tomllib

    try:
        table = tomllib.loads("".join(line[2:] + "\n" for line in header["content"].splitlines()))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(place, f"its header '# /// script' is not valid TOML: {error}", "mend it") from None
    needed = table.get("dependencies", [])
    return [each for each in needed if isinstance(each, str)] if is_array(needed) else []


CONFIG_FILE: Final = "servers.json"
"""The configuration of the servers in a bundle."""


class Contents(Struct, frozen=True):
    """The contents of a bundle.

    Args:
        agents: The references of the agents, relative to their files.
        files: Files of agents and the configuration: path to content.
        skills: Files of skills, below `skills`.
        servers: The entries of servers, by name.
        variables: The variables that the user has to set.
        requirements: The packages to install: the bridge first.
        unknown: Modules that agents import, and that no package to install is known to bring.
        package: The package on PyPI that brings the agents, in its version, where no file of them is in the bundle.
        description: The description of the first agent that has one.
    """

    agents: tuple[str, ...]
    files: Mapping[str, bytes]
    skills: Mapping[str, bytes]
    servers: Mapping[str, JSON]
    variables: tuple[Variable, ...]
    requirements: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    package: str | None = None
    description: str = ""

    @property
    def config(self) -> str | None:
        """The file of the configuration, if there are servers."""
        return CONFIG_FILE if self.servers else None


def gathered(
    agents: Sequence[str],
    folder: Path,
    entries: Mapping[str, Any],
    place: Path,
    requirements: Sequence[str] = (),
    variables: Sequence[str] = (),
) -> Contents:
    """Collect the contents of a bundle.

    Args:
        agents: The files of agents.
        folder: The folder of relative paths.
        entries: The entries of servers.
        place: The file that holds the entries.
        requirements: Further requirements of the agents.
        variables: Environment variables that agents need.

    Raises:
        ConfigError: Something cannot be taken, or would not work on another machine.
    """
    if not agents and not entries:
        raise ConfigError("the bundle", "there is nothing in it", "name the file of an agent, or servers with --config")
    collected = [agent_files(agent, folder) for agent in agents]
    files = _joined(each.files for each in collected)
    skills = _joined(each.skills for each in collected)
    servers = travelling(entries, place)
    if servers:
        if CONFIG_FILE in files:
            raise ConfigError(
                CONFIG_FILE, "an agent has a file of this name, which is the configuration's", "rename it"
            )
        files = {**files, CONFIG_FILE: to_text({SERVERS_KEY: servers}).encode()}
    needed = all_requirements((*requirements, *_requirements_of(collected)))
    asked = {variable.name: variable for variable in variables_in(servers)}
    asked |= {name: Variable(name) for name in variables if name not in asked}
    return Contents(
        tuple(each.reference for each in collected),
        dict(sorted(files.items())),
        dict(sorted(skills.items())),
        servers,
        tuple(asked[name] for name in sorted(asked)),
        needed,
        tuple(sorted(_unknown(collected, needed))),
        description=next((each.description for each in collected if each.description), ""),
    )


def of_package(
    distribution: str, version: str, agents: Sequence[str], folder: Path, variables: Sequence[str] = ()
) -> Contents:
    """Return the contents of the bundle of a package on PyPI: the skills in its folder; the package brings the agents.

    Args:
        distribution: The package's name on PyPI.
        version: Its version.
        agents: The agents that it announces.
        folder: The folder of its source.
        variables: Environment variables that agents need.

    Raises:
        ConfigError: The package announces no agents, or a skill cannot be taken.
    """
    if not agents:
        hint = 'announce them in pyproject.toml: [project.entry-points."gaia.agents"]'
        raise ConfigError(distribution, "the package announces no agents", hint)
    skills = skill_files(folder)
    asked = tuple(Variable(name) for name in sorted(set(variables)))
    package = f"{distribution}=={version}"
    return Contents(tuple(agents), {}, skills, {}, asked, all_requirements([package]), package=package)


def _joined(parts: Iterable[Mapping[str, bytes]]) -> dict[str, bytes]:
    joined: dict[str, bytes] = {}
    for part in parts:
        for name, content in part.items():
            if joined.setdefault(name, content) != content:
                raise ConfigError(name, "two agents have different files of this name", "rename one of them")
    return joined


def _requirements_of(agents: Sequence[AgentFiles]) -> list[str]:
    return [requirement for each in agents for requirement in each.requirements]


def _unknown(agents: Sequence[AgentFiles], needed: Sequence[str]) -> set[str]:
    """Return the modules that agents import and that neither a requirement nor the bridge is known to bring."""
    imports = set[str]().union(*(each.imports for each in agents))
    if not imports:
        return set()
    from importlib.metadata import PackageNotFoundError, packages_distributions, requires

    try:
        own = [each for each in requires(DISTRIBUTION) or () if "extra ==" not in each]
    except PackageNotFoundError:
        own = []
    given = {plain_name(each) for each in (*needed, *own)}
    brought = packages_distributions()
    return {
        module
        for module in imports
        if plain_name(module) not in given and given.isdisjoint(plain_name(each) for each in brought.get(module, ()))
    }
