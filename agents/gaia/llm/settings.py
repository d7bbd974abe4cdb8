"""The choice of model and server: from arguments, else from the environment, else from `.env`.

The first of these that is set decides on the server:

1. the arguments `base_url` and `provider`
2. `GAIA_BASE_URL`
3. `GAIA_PROVIDER`, or `PROVIDER` as GAIA has it: a row of `gaia.llm.servers`
4. `OPENAI_BASE_URL`, then `LEMONADE_BASE_URL`
5. nothing: the first known server that answers on this machine. Never one elsewhere, whatever keys there are.

The model is the argument `model` or `GAIA_MODEL`, else the only one that the server has. The key is the argument
`api_key` or `GAIA_API_KEY`, else the one that belongs to the server, such as `OPENAI_API_KEY`: it is sent to OpenAI and
to `OPENAI_BASE_URL`, and to nobody else.

What the environment does not have may be in `.env` (`gaia.environment`). An address in it decides only where the
process names no server at all, and is sent keys of that file only.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from msgspec import Struct

from gaia.environment import file_setting
from gaia.llm.servers import KNOWN, KnownServer, Lookup, complete_url, known_server, server_at
from gaia_bridge.errors import ModelCredentialsError
from gaia_bridge.model import repr_without

__all__ = ["Place", "Wanted", "from_environment", "wanted"]


_ADDRESSES: Final = ("GAIA_BASE_URL", "OPENAI_BASE_URL", "LEMONADE_BASE_URL")
_PLACES: Final = tuple(row.url_variable for row in KNOWN if row.url_variable)
_PROVIDERS: Final = ("GAIA_PROVIDER", "PROVIDER")


def from_environment(name: str) -> str | None:
    """Return a variable of the environment; `None` if it is empty."""
    return (os.environ.get(name) or "").strip() or None


class Place(Struct, frozen=True):
    """Where a server may be."""

    url: str
    """May have a user and a password in it; `shown_url` does not."""
    server: KnownServer | None = None
    key: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "url", "key")


class Wanted(Struct, frozen=True):
    """The user's choice of servers and model."""

    places: tuple[Place, ...]
    """Where to look, in this order."""
    model: str | None
    is_guess: bool
    """Whether no server was named: one has to be looked for, and reported."""


def wanted(
    base_url: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    provider: str | None = None,
    look_up: Lookup = from_environment,
    in_file: Lookup = file_setting,
) -> Wanted:
    """Put arguments, the environment, and `.env` behind it, together.

    Args:
        base_url: Where the server has its API.
        model: The model's name.
        api_key: What the server wants to be shown.
        provider: A row of `gaia.llm.servers`.
        look_up: Reads the environment.
        in_file: Reads `.env`.

    Raises:
        ModelError: An address that is none, or an unknown provider.
        ModelCredentialsError: A key that is none, or that is not for the address that `.env` names.
    """
    source = _source(look_up, in_file, named=bool(base_url or provider))
    if api_key and source.is_address_of_file:
        raise ModelCredentialsError(
            "The model's server is named by an address in .env alone, which is sent no key that is not in that file.",
            "Give base_url together with api_key, or set GAIA_API_KEY in .env instead.",
        )
    key = _key(api_key or source.key("GAIA_API_KEY"))
    server = known_server(provider) if provider else None
    url = base_url or (None if server else source.address("GAIA_BASE_URL"))
    if not url and not server and (name := source.address("GAIA_PROVIDER") or source.address("PROVIDER")):
        server = known_server(name)
    if not url and not server:
        url = source.address("OPENAI_BASE_URL") or source.address("LEMONADE_BASE_URL")
    if url:
        url = complete_url(url)
        server = server or server_at(url, source.place)
        candidates = [(server, url)]
    else:
        rows = (server,) if server else tuple(row for row in KNOWN if row.is_local)
        candidates = [(row, place) for row in rows for place in row.places(source.place)]
    places = tuple(Place(place, row, key or _own_key(row, source.key)) for row, place in candidates)
    model = model or look_up("GAIA_MODEL") or in_file("GAIA_MODEL")
    return Wanted(places, model, is_guess=not url and server is None)


class _Source(NamedTuple):
    """The look-ups that settings come from."""

    address: Lookup
    """Reads the variables that name the server, by its address or its provider."""
    place: Lookup
    """Reads the variable with a known server's own address."""
    key: Lookup
    is_address_of_file: bool = False
    """Whether an address in `.env` decides."""


def _source(look_up: Lookup, in_file: Lookup, *, named: bool) -> _Source:
    """Let `.env` name the server where nothing else does, and never send that server a key from elsewhere.

    The file may lie in a folder of somebody else's. An address in it must not get the keys of this user.
    """

    def either(name: str) -> str | None:
        return look_up(name) or in_file(name)

    if named or any(map(look_up, _ADDRESSES)) or any(map(look_up, _PROVIDERS)):
        return _Source(look_up, look_up, either)
    is_address = any(map(in_file, (*_ADDRESSES, *_PLACES)))
    return _Source(in_file, either, in_file if is_address else either, is_address)


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
