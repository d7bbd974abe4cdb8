"""The answers of a registry's API (v0.1) about servers, with their `server.json`. Strangers write these; pure.

Unknown fields are left out, and so is `null`, which some registries write for missing values.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import is_array, is_object

NAME: Final = re.compile(r"[A-Za-z0-9.-]{1,150}/[A-Za-z0-9._-]{1,150}")
"""The name of a server: reversed DNS, a slash, and a word."""

_OFFICIAL: Final = "io.modelcontextprotocol.registry/official"

Scalar = str | bool | int | float
"""A value; the API allows strings alone, and some registries send booleans and numbers."""


class RegistryFormatError(ValueError):
    """An answer that is not one of a registry; the text describes the answer."""


class Input(Struct, frozen=True, rename="camel"):
    """A value that a user may be asked for. If `value` is set, there is nothing to ask."""

    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    format: str = "string"
    value: Scalar | None = None
    default: Scalar | None = None
    placeholder: str = ""
    choices: tuple[Scalar, ...] = ()
    variables: dict[str, Input] = field(default_factory=dict[str, "Input"])
    """The inputs for each `{name}` in `value`."""


class KeyValueInput(Input, frozen=True, rename="camel", kw_only=True):
    """A variable of the environment, or a header."""

    name: str


class Argument(Input, frozen=True, rename="camel", kw_only=True):
    """An argument of a command line."""

    type: Literal["positional", "named"]
    name: str = ""
    value_hint: str = ""
    is_repeated: bool = False


class PackageTransport(Struct, frozen=True):
    """The transport of a package that runs."""

    type: str = "stdio"
    url: str = ""


class Remote(Struct, frozen=True):
    """A server on the network."""

    type: str
    url: str
    headers: tuple[KeyValueInput, ...] = ()
    variables: dict[str, Input] = field(default_factory=dict[str, Input])
    """The inputs for each `{name}` in `url`."""


class Package(Struct, frozen=True, rename="camel"):
    """A program that can be fetched and run."""

    registry_type: str
    identifier: str
    version: str = ""
    registry_base_url: str = ""
    file_sha256: str = field(default="", name="fileSha256")
    runtime_hint: str = ""
    transport: PackageTransport = PackageTransport()
    runtime_arguments: tuple[Argument, ...] = ()
    package_arguments: tuple[Argument, ...] = ()
    environment_variables: tuple[KeyValueInput, ...] = ()


class Repository(Struct, frozen=True):
    """The place of the source."""

    url: str = ""


class Server(Struct, frozen=True, rename="camel"):
    """`server.json`."""

    name: str
    description: str = ""
    version: str = ""
    title: str = ""
    website_url: str = ""
    repository: Repository = Repository()
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """The forms in which the server exists, each once, in the order of its author."""
        kinds = [package.registry_type for package in self.packages]
        return list(dict.fromkeys([*kinds, *(["remote"] if self.remotes else [])]))


class Official(Struct, frozen=True, rename="camel"):
    """The registry's own data about a version."""

    status: str = "active"
    status_message: str = ""
    is_latest: bool | None = None


class _Meta(Struct, frozen=True):
    official: Official = field(default=Official(), name=_OFFICIAL)


class Listed(Struct, frozen=True):
    """One version of a server, as a registry lists it."""

    server: Server
    meta: _Meta = field(default=_Meta(), name="_meta")

    @property
    def official(self) -> Official:
        """The registry's own data about this version."""
        return self.meta.official


class Page(Struct, frozen=True):
    """One page of a list.

    Args:
        servers: The servers on the page.
        cursor: The cursor of the next page; empty at the end.
        unread: The number of its servers that do not conform to the API.
    """

    servers: tuple[Listed, ...]
    cursor: str
    unread: int


def page_of(body: bytes) -> Page:
    """Parse one page of a list of servers.

    Raises:
        RegistryFormatError: The body is no such page.
    """
    document = _object(body)
    entries = document.get("servers", ())
    if not is_array(entries) and "servers" in document and document["servers"] is None:
        entries = []
    if not is_array(entries):
        raise RegistryFormatError("JSON without a list of 'servers'")
    servers: list[Listed] = []
    for entry in entries:
        try:
            servers.append(_listed(entry))
        except RegistryFormatError:
            continue
    metadata = document.get("metadata")
    cursor = metadata.get("nextCursor") if is_object(metadata) else None
    return Page(tuple(servers), cursor if isinstance(cursor, str) else "", len(entries) - len(servers))


def listed_of(body: bytes) -> Listed:
    """Parse one version of a server.

    Raises:
        RegistryFormatError: The body is no such version; the message names the wrong part.
    """
    return _listed(_object(body))


def _listed(value: object) -> Listed:
    try:
        return msgspec.convert(_without_null(value), Listed)
    except msgspec.ValidationError as error:
        raise RegistryFormatError(f"an entry that is not as the API says: {error}") from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        document: object = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise RegistryFormatError("what is no JSON") from None
    if not is_object(document):
        raise RegistryFormatError("JSON that is no object")
    return document


def _without_null(value: Any) -> Any:
    """Return the value without `null` in it. Its depth is bounded by the parser."""
    if is_object(value):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if is_array(value):
        return [_without_null(item) for item in value if item is not None]
    return value
