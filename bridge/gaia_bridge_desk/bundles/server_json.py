"""`server.json`: how a project is listed in the MCP registry, from where VS Code's gallery and others install it.

Format: https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/server-json, schema 2025-12-11. The
registry believes that a package on PyPI is of whoever publishes the name if its README says so: `mcp-name: NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.bundles.metadata import Metadata, Project
from gaia_bridge_desk.bundles.start import DISTRIBUTION, serve_arguments

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?/[a-zA-Z0-9](?:[a-zA-Z0-9._-]*[a-zA-Z0-9])?")
_LONGEST_NAME: Final = 200
_LONGEST_DESCRIPTION: Final = 100
_HOSTS: Final = {"github.com": "github", "gitlab.com": "gitlab"}
_SPACES: Final = {"github.com": "io.github", "gitlab.com": "io.gitlab"}
_PROGRAM: Final = "gaia_bridge.cli:main"
"""What a project's program calls that is the bridge with the project's agents."""


def server_document(
    project: Project, about: Metadata, name: str, arguments: Sequence[str], variables: Sequence[str] = ()
) -> JSON:
    """What the registry lists.

    Args:
        project: The project, which is a package on PyPI.
        about: What it says of itself.
        name: Its name in the registry.
        arguments: Those of its program.
        variables: Variables that it needs.

    Raises:
        ConfigError: The registry would refuse it, or clients could not start it.
    """
    if len(about.description) > _LONGEST_DESCRIPTION:
        problem = f"has {len(about.description)} characters; the registry takes {_LONGEST_DESCRIPTION}"
        raise ConfigError("the description", problem, "say a shorter one with --description")
    expect_program(project)
    package: JSON = {
        "registryType": "pypi",
        "identifier": project.distribution,
        "version": about.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
    }
    if arguments:
        package["packageArguments"] = [{"type": "positional", "value": word} for word in arguments]
    if variables:
        package["environmentVariables"] = [
            {"name": each, "description": f"{each}, for the agents", "isRequired": True, "isSecret": True}
            for each in dict.fromkeys(variables)
        ]
    host = urlsplit(about.repository or "").hostname or ""
    source = _HOSTS.get(host.removeprefix("www."))
    told: JSON = {
        "$schema": _SCHEMA,
        "name": name,
        "description": about.description,
        "version": about.version,
        "repository": {"url": about.repository, "source": source} if source is not None else None,
        "websiteUrl": about.homepage,
        "packages": [package],
    }
    return {key: value for key, value in told.items() if value is not None}


def project_arguments(project: Project) -> list[str]:
    """The arguments with which a project's program serves its agents; none, if it is a program of its own.

    Args:
        project: The project.

    Raises:
        ConfigError: It announces no agents.
    """
    if project.scripts.get(project.distribution) not in (_PROGRAM, None):
        return []
    if project.distribution == DISTRIBUTION:
        return serve_arguments((), None)
    if not project.agents:
        hint = 'announce them in [project.entry-points."gaia.agents"], or say the arguments after --'
        raise ConfigError(str(project.path), "it announces no agents", hint)
    return serve_arguments(project.agents, None)


def expect_program(project: Project) -> None:
    """Refuse a project that `uvx` could not start.

    Args:
        project: The project.

    Raises:
        ConfigError: It has no program of its own name.
    """
    if project.distribution not in project.scripts:
        hint = f'add to [project.scripts]: {project.distribution} = "{_PROGRAM}"'
        problem = "has no program of its own name, which is what uvx starts"
        raise ConfigError(f"{project.path}: {project.distribution}", problem, hint)


def registry_name(project: Project, about: Metadata, given: str | None) -> str:
    """The name in the registry: the one that is given, or that of the project below its owner on GitHub.

    Args:
        project: The project.
        about: What it says of itself.
        given: What somebody typed.

    Raises:
        ConfigError: There is none, or the registry would refuse it.
    """
    if given is None:
        parts = urlsplit(about.repository or "")
        space = _SPACES.get((parts.hostname or "").removeprefix("www."))
        owner = parts.path.strip("/").partition("/")[0]
        if space is None or not owner:
            hint = "say one with --name, or the address on GitHub in [project.urls] Repository"
            raise ConfigError(str(project.path), "nothing says its name in the registry", hint)
        given = f"{space}.{owner}/{project.distribution}"
    if not _NAME.fullmatch(given) or len(given) > _LONGEST_NAME:
        problem = f"{one_line(given, 80)!r}: expected NAMESPACE/NAME"
        raise ConfigError("--name", problem, "such as io.github.me/weather, or com.example/weather")
    return given


def claim_of(name: str) -> str:
    """The line in a README that says whose the package is. Nobody sees it.

    Args:
        name: The name in the registry.
    """
    return f"<!-- mcp-name: {name} -->"


def readme_claims(project: Project, name: str) -> bool:
    """Whether the README of a project says that name.

    Args:
        project: The project.
        name: The name in the registry.
    """
    if project.readme is None or not project.readme.is_file():
        return False
    text = read_bytes(project.readme, MIB)[0].decode("utf-8", "replace")
    return re.search(rf"mcp-name:\s*{re.escape(name)}(?![\w./-])", text) is not None
