"""The tools that an agent has in one turn beside its own: the client's, and some of this bridge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from gaia_bridge.text.json_types import JSON

EVERYTHING: Final = "*"
"""The label that stands for all agents and servers of the bridge."""


class Borrowing(Struct, frozen=True):
    """Tools of this bridge that a request wants the agent to have."""

    param: str
    """Where the request says so."""
    label: str
    """The name of an agent or server, or `EVERYTHING`."""
    names: frozenset[str] | None
    """Which of its tools; `None` for all."""


class RequestedTools(Struct, frozen=True):
    """The tools of a request."""

    client: tuple[JSON, ...] = ()
    """Run by the client, in OpenAI's shape."""
    borrowings: tuple[Borrowing, ...] = ()
    """Run by the bridge."""
    names_at: tuple[str, ...] = ()
    """Where the request has the names of those that the client runs."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """For functions in a namespace, by the names that the agent knows: the namespace, and the name in it."""
