"""`server.json`: a project's entry in the MCP registry, from which VS Code's gallery and others install it.

Format: https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/server-json, schema 2025-12-11. The
registry accepts a name for a package on PyPI if the package's README has the line `mcp-name: NAME`.
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
"""The entry point that makes a project's program the bridge with the project's agents."""


def server_document(
    project: Project, about: Metadata, name: str, arguments: Sequence[str], variables: Sequence[str] = ()
) -> JSON:
    """Return the `server.json` of a project.

    Args:
        project: The project, which is a package on PyPI.
        about: The project's metadata.
        name: The server's name in the registry.
        arguments: The arguments of the project's program.
        variables: The environment variables that the program needs.

    Raises:
        ConfigError: The registry would refuse the document, or clients could not start the server.
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
    document: JSON = {
        "$schema": _SCHEMA,
        "name": name,
        "description": about.description,
        "version": about.version,
        "repository": {"url": about.repository, "source": source} if source is not None else None,
        "websiteUrl": about.homepage,
        "packages": [package],
    }
    return {key: value for key, value in document.items() if value is not None}


def project_arguments(project: Project) -> list[str]:
    """Return the arguments with which a project's program serves its agents; none, if it is a program of its own.

    Args:
        project: The project.

    Raises:
        ConfigError: The project announces no agents.
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
        ConfigError: The project has no program of its own name.
    """
    if project.distribution not in project.scripts:
        hint = f'add to [project.scripts]: {project.distribution} = "{_PROGRAM}"'
        problem = "has no program of its own name, which is what uvx starts"
        raise ConfigError(f"{project.path}: {project.distribution}", problem, hint)


def registry_name(project: Project, about: Metadata, given: str | None) -> str:
    """Return the name in the registry: the given one, or the project's name below its owner on GitHub or GitLab.

    Args:
        project: The project.
        about: The project's metadata.
        given: The name that the user typed.

    Raises:
        ConfigError: There is no name, or the registry would refuse it.
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
    """Return the line in a README that proves the ownership of a package. Readers do not see the line.

    Args:
        name: The name in the registry.
    """
    return f"<!-- mcp-name: {name} -->"


def readme_claims(project: Project, name: str) -> bool:
    """Return whether the README of a project claims that name.

    Args:
        project: The project.
        name: The name in the registry.
    """
    if project.readme is None or not project.readme.is_file():
        return False
    text = read_bytes(project.readme, MIB)[0].decode("utf-8", "replace")
    return re.search(rf"mcp-name:\s*{re.escape(name)}(?![\w./-])", text) is not None
