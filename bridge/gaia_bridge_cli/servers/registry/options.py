"""The options of `add` and `search` that are about the registry of MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

F = TypeVar("F", bound=Callable[..., Any])

_OFFICIAL_REGISTRY: Final = "https://registry.modelcontextprotocol.io"
"""The address of the public registry of MCP servers; `--registry` and `GAIA_BRIDGE_REGISTRY` name another one."""

PREFIX: Final = "registry:"
"""The prefix of a name that `add` looks up in the registry."""

_KINDS: Final = ("npm", "pypi", "oci", "nuget", "remote")


class RegistryOptions(Struct, frozen=True):
    """The options of `add` about a server in the registry.

    Args:
        registry: The registry.
        package: The only kind of package to use.
        values: Values that the server asks for, as `NAME=VALUE`.
        name: The server's name here.
        yes: Whether to ask no questions.
    """

    registry: str | None
    package: str | None
    values: tuple[str, ...]
    name: str | None
    yes: bool

    @property
    def used(self) -> list[str]:
        """The options that were given and have no meaning without the registry."""
        given = {"--package": self.package, "--set": self.values, "--name": self.name, "--yes": self.yes}
        return [option for option, value in given.items() if value]


def registry_option(command: F) -> F:
    """Add `--registry URL`: the registry."""
    return click.option(
        "--registry",
        metavar="URL",
        envvar="GAIA_BRIDGE_REGISTRY",
        help=f"The registry of MCP servers; also in GAIA_BRIDGE_REGISTRY.  [default: {_OFFICIAL_REGISTRY}]",
    )(command)


def registry_options(command: F) -> F:
    """Add the options of `add` for `registry:NAME`, as one parameter `from_registry`."""

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
    """Return the address of the registry.

    Args:
        url: `--registry`.

    Raises:
        click.UsageError: The URL is not valid.
    """
    from gaia_bridge_desk.server_registry.client import base_of

    try:
        return base_of(url or _OFFICIAL_REGISTRY)
    except ValueError as error:
        raise click.UsageError(f"--registry {url!r} {error}") from None


def reference_in(name: str, command: tuple[str, ...]) -> tuple[str, str | None] | None:
    """Return the name to look up in the registry, and the server's name here if one was given.

    Args:
        name: The first word after `add`.
        command: The other words.

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
