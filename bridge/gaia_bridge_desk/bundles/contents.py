"""What is in a bundle, whatever its form: agents, their skills, servers, and what has to be said for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.config.documents import SERVERS_KEY, to_text
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.bundles.agent_files import AgentFiles, agent_files, skill_files
from gaia_bridge_desk.bundles.start import DISTRIBUTION, all_requirements, plain_name
from gaia_bridge_desk.bundles.travelling import Variable, travelling, variables_in

CONFIG_FILE: Final = "servers.json"
"""The configuration of the servers in a bundle."""


class Contents(Struct, frozen=True):
    """What is in a bundle.

    Args:
        agents: How the agents are named beside their files.
        files: Files of agents and the configuration: path to content.
        skills: Files of skills, below `skills`.
        servers: The entries of servers.
        variables: What has to be said.
        requirements: What is to be installed: the bridge first.
        unknown: Modules that agents import, and nothing that is installed is known to bring.
        package: The package on PyPI that brings the agents, in its version, where no file of them is in the bundle.
        description: What the first agent says of itself.
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
    """Collect what is to be in a bundle.

    Args:
        agents: The files of agents.
        folder: Where relative paths begin.
        entries: The entries of servers.
        place: The file that they are from.
        requirements: What agents need besides.
        variables: Variables that agents need.

    Raises:
        ConfigError: Something cannot be taken, or would not work on another machine.
    """
    if not agents and not entries:
        raise ConfigError("the bundle", "there is nothing in it", "name the file of an agent, or servers with --config")
    found = [agent_files(agent, folder) for agent in agents]
    files = _joined(each.files for each in found)
    skills = _joined(each.skills for each in found)
    servers = travelling(entries, place)
    if servers:
        if CONFIG_FILE in files:
            raise ConfigError(
                CONFIG_FILE, "an agent has a file of this name, which is the configuration's", "rename it"
            )
        files = {**files, CONFIG_FILE: to_text({SERVERS_KEY: servers}).encode()}
    needed = all_requirements((*requirements, *_said(found)))
    asked = {variable.name: variable for variable in variables_in(servers)}
    asked |= {name: Variable(name) for name in variables if name not in asked}
    return Contents(
        tuple(each.reference for each in found),
        dict(sorted(files.items())),
        dict(sorted(skills.items())),
        servers,
        tuple(asked[name] for name in sorted(asked)),
        needed,
        tuple(sorted(_unknown(found, needed))),
        description=next((each.description for each in found if each.description), ""),
    )


def of_package(
    distribution: str, version: str, agents: Sequence[str], folder: Path, variables: Sequence[str] = ()
) -> Contents:
    """What is in the bundle of a package on PyPI: the skills in its folder; the agents come with the package.

    Args:
        distribution: What it is installed as.
        version: Its version.
        agents: The agents that it announces.
        folder: Where its source is.
        variables: Variables that agents need.

    Raises:
        ConfigError: It announces no agents, or a skill cannot be taken.
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


def _said(found: Sequence[AgentFiles]) -> list[str]:
    return [requirement for each in found for requirement in each.requirements]


def _unknown(found: Sequence[AgentFiles], needed: Sequence[str]) -> set[str]:
    """Modules that agents import and that neither a requirement nor the bridge brings, as far as is known here."""
    imports = set[str]().union(*(each.imports for each in found))
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
