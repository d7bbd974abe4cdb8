"""Asks where the secrets of new entries are to go, and for those that are only named. What `add` and `import` share."""

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
"""Says that secrets are written as they are."""

USUAL: Final = "file"
"""Where they go if nobody says anything else."""


def secrets_option(command: F) -> F:
    """`--secrets`: where secrets are kept."""
    return click.option(
        "--secrets",
        type=click.Choice([*KEEPERS, IN_CLEAR]),
        help="Where passwords and tokens go: into files of ~/.gaia/secrets, the keyring, or as they are.  "
        "[default: asks]",
    )(command)


def keeper_for(wanted: str | None, entries: Mapping[str, JSON], undone: str) -> str:
    """Where secrets are to go, if there are any.

    Args:
        wanted: What was said of it.
        entries: The entries, by the names of their servers.
        undone: What does not happen without an answer: "taken".

    Raises:
        click.UsageError: Nobody said so, and there is nobody to ask.
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
    """Where secrets are to go, as somebody answers on the terminal."""
    question = "Put them into files of ~/.gaia/secrets, the keyring, or write them as they are?"
    answer: str = click.prompt(question, default=USUAL, type=click.Choice([*KEEPERS, IN_CLEAR]), err=True)
    return answer


def sealed(name: str, entry: JSON, keeper: str) -> JSON:
    """The entry with its secrets put where they are to go, and references in their places.

    Args:
        name: The server.
        entry: Its entry.
        keeper: Where they are to go.
    """
    for secret in secrets_in(entry) if keeper in KEEPERS else ():
        entry = replaced(entry, secret, KEEPERS[keeper](name, secret))
    return entry


def with_asked(name: str, entry: JSON, asked: Mapping[str, str], keeper: str) -> JSON:
    """The entry with what its user types in, where there is a terminal, in place of variables that are not there.

    Args:
        name: The server.
        entry: Its entry, which refers to the variables.
        asked: The variables, with what they are.
        keeper: Where secrets go; what is typed in here never goes into the entry.
    """
    for variable, about in asked.items() if can_ask() else ():
        label = printable(f"{name}: {about} (empty: {variable} is set later)", None)
        answer: str = click.prompt(label, "", hide_input=True, show_default=False, err=True)
        if answer:
            reference = KEEPERS[keeper if keeper in KEEPERS else USUAL](name, Secret((), variable, answer))
            entry = _referring(entry, f"${{env:{variable}}}", reference)
    return entry


def _referring(entry: JSON, old: str, new: str) -> JSON:
    """The entry with one reference in the place of another."""

    def changed(value: object) -> object:
        if isinstance(value, str):
            return value.replace(old, new)
        if is_array(value):
            return [changed(item) for item in value]
        return {key: changed(item) for key, item in value.items()} if is_object(value) else value

    return {key: changed(value) for key, value in entry.items()}
