"""Which model of which server is meant: from arguments, else from the environment.

The first of these that is set decides on the server:

1. the arguments `base_url` and `provider`
2. `GAIA_BASE_URL`
3. `GAIA_PROVIDER`, or `PROVIDER` as document 004 has it: a row of `gaia.llm.servers`
4. `OPENAI_BASE_URL`, then `LEMONADE_BASE_URL`
5. nothing: the first known server that answers on this machine. Never one elsewhere, whatever keys there are.

The model is the argument `model` or `GAIA_MODEL`, else the only one that the server has. The key is the argument
`api_key` or `GAIA_API_KEY`, else the one that belongs to the server, such as `OPENAI_API_KEY`: it is sent to OpenAI and
to `OPENAI_BASE_URL`, and to nobody else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from gaia.llm.servers import KNOWN, KnownServer, Lookup, complete_url, known_server, server_at
from gaia_bridge.errors import ModelCredentialsError

__all__ = ["Place", "Wanted", "from_environment", "wanted"]


def from_environment(name: str) -> str | None:
    """One variable of the environment; nothing if it is empty."""
    return (os.environ.get(name) or "").strip() or None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server may be."""

    url: str
    server: KnownServer | None = None
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user wants."""

    places: tuple[Place, ...]
    """Where to look, in this order."""
    model: str | None
    is_guess: bool
    """Whether the server was not named: what it is has to be found out and told."""


def wanted(
    base_url: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    provider: str | None = None,
    look_up: Lookup = from_environment,
) -> Wanted:
    """Put arguments and environment together.

    Args:
        base_url: Where the server has its API.
        model: The model's name.
        api_key: What the server wants to be shown.
        provider: A row of `gaia.llm.servers`.
        look_up: Reads the environment.

    Raises:
        ModelError: An address that is none, or an unknown provider.
        ModelCredentialsError: A key that is none.
    """
    key = _key(api_key or look_up("GAIA_API_KEY"))
    server = known_server(provider) if provider else None
    url = base_url or (None if server else look_up("GAIA_BASE_URL"))
    if not url and not server and (name := look_up("GAIA_PROVIDER") or look_up("PROVIDER")):
        server = known_server(name)
    if not url and not server:
        url = look_up("OPENAI_BASE_URL") or look_up("LEMONADE_BASE_URL")
    if url:
        url = complete_url(url)
        server = server or server_at(url, look_up)
        found = [(server, url)]
    else:
        rows = (server,) if server else tuple(row for row in KNOWN if row.is_local)
        found = [(row, place) for row in rows for place in row.places(look_up)]
    places = tuple(Place(place, row, key or _own_key(row, look_up)) for row, place in found)
    return Wanted(places, model or look_up("GAIA_MODEL"), is_guess=not url and server is None)


def _own_key(server: KnownServer | None, look_up: Lookup) -> str:
    return _key(look_up(server.key_variable)) if server and server.key_variable else ""


def _key(text: str | None) -> str:
    key = (text or "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelCredentialsError(
            "The API key has characters that no key has.",
            "Set GAIA_API_KEY to the key alone, without quotes or blanks.",
        )
    return key
