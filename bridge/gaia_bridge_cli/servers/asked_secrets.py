"""Asks where to keep the secrets of new entries, and for the values of variables. Shared by `add` and `import`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.kept_secrets import KEEPERS, Secret, replaced, secrets_in

F = TypeVar("F", bound=Callable[..., Any])

IN_CLEAR: Final = "clear"
"""Stands for secrets that are written as they are."""

USUAL: Final = "file"
"""The place of secrets by default."""


def secrets_option(command: F) -> F:
    """Add `--secrets`: the place of secrets."""
    return click.option(
        "--secrets",
        type=click.Choice([*KEEPERS, IN_CLEAR]),
        help="Where passwords and tokens go: into files of ~/.gaia/secrets, the keyring, or as they are.  "
        "[default: asks]",
    )(command)


def keeper_for(wanted: str | None, entries: Mapping[str, JSON], undone: str) -> str:
    """Return the place for the secrets of entries, asking for it if there are any.

    Args:
        wanted: The place that the user named.
        entries: The entries, by the names of their servers.
        undone: The action that needs the answer, for the message: "taken".

    Raises:
        click.UsageError: The user named none, and there is no terminal to ask on.
    """
    places = [f"{name}: {secret.label}" for name, entry in entries.items() for secret in secrets_in(entry)]
    if wanted is not None or not places:
        return wanted or IN_CLEAR
    shown = printable(", ".join(places), 400)
    if not can_ask():
        raise NobodyToAskError(
            f"nothing was {undone}: there are secrets ({shown}), and no terminal to ask on where they are to go; "
            "say --secrets file, --secrets keyring, or --secrets clear"
        )
    click.echo(f"these look like secrets: {shown}", err=True)
    return asked_keeper()


def asked_keeper() -> str:
    """Ask on the terminal where to keep secrets."""
    question = "Put them into files of ~/.gaia/secrets, the keyring, or write them as they are?"
    answer: str = click.prompt(question, default=USUAL, type=click.Choice([*KEEPERS, IN_CLEAR]), err=True)
    return answer


def sealed(name: str, entry: JSON, keeper: str) -> JSON:
    """Return the entry with its secrets stored in their place, and references instead of them.

    Args:
        name: The name of the server.
        entry: Its entry.
        keeper: The place of secrets.
    """
    for secret in secrets_in(entry) if keeper in KEEPERS else ():
        entry = replaced(entry, secret, KEEPERS[keeper](name, secret))
    return entry


def with_asked(name: str, entry: JSON, asked: Mapping[str, str], keeper: str) -> JSON:
    """Return the entry with values that the user types on a terminal, in place of variables that are not set.

    Args:
        name: The name of the server.
        entry: Its entry, which refers to the variables.
        asked: The variables, with their descriptions.
        keeper: The place of secrets; a typed value never goes into the entry itself.
    """
    for variable, about in asked.items() if can_ask() else ():
        label = printable(f"{name}: {about} (empty: {variable} is set later)", None)
        answer: str = click.prompt(label, "", hide_input=True, show_default=False, err=True)
        if answer:
            reference = KEEPERS[keeper if keeper in KEEPERS else USUAL](name, Secret((), variable, answer))
            entry = _referring(entry, f"${{env:{variable}}}", reference)
    return entry


def _referring(entry: JSON, old: str, new: str) -> JSON:
    """Return the entry with one reference in the place of another."""

    def changed(value: object) -> object:
        if isinstance(value, str):
            return value.replace(old, new)
        if is_array(value):
            return [changed(item) for item in value]
        return {key: changed(item) for key, item in value.items()} if is_object(value) else value

    return {key: changed(value) for key, value in entry.items()}
