"""The options of `add` and `search` that are about the registry of MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

from gaia_bridge.constants import OFFICIAL_REGISTRY

F = TypeVar("F", bound=Callable[..., Any])

PREFIX: Final = "registry:"
"""Begins what `add` looks up in the registry."""

_KINDS: Final = ("npm", "pypi", "oci", "nuget", "remote")


class RegistryOptions(Struct, frozen=True):
    """What was said of a server in the registry.

    Args:
        registry: The registry.
        package: The only kind of package that will do.
        values: Values that are asked for, as `NAME=VALUE`.
        name: What the server is called here.
        yes: Whether nothing is asked.
    """

    registry: str | None
    package: str | None
    values: tuple[str, ...]
    name: str | None
    yes: bool

    @property
    def used(self) -> list[str]:
        """The options that were given and mean nothing without the registry."""
        given = {"--package": self.package, "--set": self.values, "--name": self.name, "--yes": self.yes}
        return [option for option, value in given.items() if value]


def registry_option(command: F) -> F:
    """`--registry URL`: which one."""
    return click.option(
        "--registry",
        metavar="URL",
        envvar="GAIA_BRIDGE_REGISTRY",
        help=f"The registry of MCP servers; also in GAIA_BRIDGE_REGISTRY.  [default: {OFFICIAL_REGISTRY}]",
    )(command)


def registry_options(command: F) -> F:
    """What `add` has for `registry:NAME`, as one parameter `from_registry`."""

    @wraps(command)
    def with_options(
        *args: Any,
        registry: str | None,
        package: str | None,
        values: tuple[str, ...],
        called: str | None,
        yes: bool,
        **others: Any,
    ) -> Any:
        return command(*args, from_registry=RegistryOptions(registry, package, values, called, yes), **others)

    for option in reversed(
        (
            click.option("--package", type=click.Choice(_KINDS), help="With registry: take this kind alone."),
            click.option(
                "--set", "values", multiple=True, metavar="NAME=VALUE", help="With registry: a value it asks for."
            ),
            click.option("--name", "called", metavar="NAME", help="With registry: what the server is called here."),
            click.option(
                "--yes",
                "-y",
                is_flag=True,
                help="Ask nothing: add it as it is shown.",
            ),
            registry_option,
        )
    ):
        with_options = option(with_options)
    return with_options  # type: ignore[return-value]


def registry_base(url: str | None) -> str:
    """The address of the registry.

    Args:
        url: `--registry`.

    Raises:
        click.UsageError: It cannot be one.
    """
    from gaia_bridge_desk.server_registry.client import base_of

    try:
        return base_of(url or OFFICIAL_REGISTRY)
    except ValueError as error:
        raise click.UsageError(f"--registry {url!r} {error}") from None


def reference_in(name: str, command: tuple[str, ...]) -> tuple[str, str | None] | None:
    """What is to be looked up in the registry, and what it is called here if that was said.

    Args:
        name: The first word that `add` was given.
        command: The others.

    Raises:
        click.UsageError: There is a command beside.
    """
    place = 0 if name.startswith(PREFIX) else 1
    words = (name, *command)
    if len(words) <= place or not words[place].startswith(PREFIX):
        return None
    if len(words) > place + 1:
        raise click.UsageError(
            f"{words[place]} says itself how it is started: leave out what comes after it, and put options before it"
        )
    return words[place].removeprefix(PREFIX), name if place else None
