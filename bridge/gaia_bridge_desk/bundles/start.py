"""How the contents of a bundle are started elsewhere: by the bridge from PyPI, in a compatible version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.version import __version__

DISTRIBUTION: Final = "gaia-mcp-bridge"
_PROGRAM: Final = "gaia-bridge"
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[(?P<extras>[A-Za-z0-9,\s._-]*)\])?\s*(?P<rest>(?:[<>=!~;(][^/\\@]*)?)"
)


def own_requirement(extras: Sequence[str] = ()) -> str:
    """Return the requirement of the bridge, in this version or a later one that promises to be compatible.

    Args:
        extras: The extras that are needed.
    """
    release = _RELEASE.match(__version__)
    assert release is not None  # ours always is
    major, minor = map(int, release.groups())
    end = f"{major + 1}" if major else f"0.{minor + 1}"
    named = f"[{','.join(sorted(extras))}]" if extras else ""
    return f"{DISTRIBUTION}{named}>={__version__},<{end}"


def all_requirements(wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the packages to install: the bridge first, with the extras that are wanted.

    Args:
        wanted: Requirements as for pip: `httpx>=0.27`, `gaia-mcp-bridge[llm]`.

    Raises:
        ConfigError: One of them is no requirement, or names a path or an address.
    """
    others: set[str] = set()
    extras: set[str] = set()
    for text in wanted:
        requirement = _REQUIREMENT.fullmatch(text.strip())
        if requirement is None:
            problem = f"{one_line(text, 80)!r}: expected a package that others can install"
            raise ConfigError("--with", problem, "such as httpx or 'httpx>=0.27'")
        if plain_name(requirement["name"]) == DISTRIBUTION:
            extras |= {extra.strip() for extra in (requirement["extras"] or "").split(",")} - {""}
        else:
            others.add(text.strip())
    return own_requirement(sorted(extras)), *sorted(others)


def plain_name(requirement: str) -> str:
    """Return the normalized name of the package that a requirement names."""
    match = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", match["name"] if match is not None else requirement).lower()


def uvx_arguments(requirements: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the arguments with which `uvx` starts the bridge.

    Args:
        requirements: The packages to install: the bridge first.
        arguments: The arguments of the bridge.
    """
    own, *others = requirements
    return ["--from", own, *(word for each in others for word in ("--with", each)), _PROGRAM, *arguments]


def serve_arguments(agents: Sequence[str], config: str | None) -> list[str]:
    """Return the arguments with which the bridge publishes the contents of a bundle.

    Args:
        agents: The agents, as the other machine finds them.
        config: The configuration, as the other machine finds it.
    """
    words = ["serve", "--stdio"]
    if config is not None:
        words += ["--config", config]
    if not agents:
        return [*words, "--no-agents"]
    return [*words, *([] if config else ["--no-servers"]), *agents]  # the other machine has its own servers
