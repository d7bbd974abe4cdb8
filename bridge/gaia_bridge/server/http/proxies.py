"""Requests that come by way of a proxy: which proxies are trusted, and their statements about the client.

A proxy that ends TLS is a client on this machine like any other: nothing but the headers that it adds tells its
requests from those of a local program. They are believed of proxies that were named. Where none was named, they are the
sign that others than local programs reach the bridge, which was not made safe for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from gaia_bridge.errors import ConfigError
from gaia_bridge.server.transports.scope_keys import MOUNTED_AT

if TYPE_CHECKING:
    from starlette.types import Scope

FORWARDED_FOR: Final = b"x-forwarded-for"
FORWARDED_HOST: Final = b"x-forwarded-host"
FORWARDED_PROTO: Final = b"x-forwarded-proto"
LOOPBACK: Final = ("127.0.0.0/8", "::1")
"""The proxies of a bridge with a public URL for which none is named: those on the same machine."""
UNIX: Final = "unix"
"""The name for clients that connect by a socket that has no address."""
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class PublicUrl(Struct, frozen=True):
    """The address that clients use, where that is not the one that is listened on."""

    scheme: str
    host: str
    """The host as it is written in a URL, in lower case."""
    port: int | None
    prefix: str
    """The path of everything that is served, without a slash at its end."""

    @classmethod
    def of(cls, text: str, place: str = "--public-url") -> PublicUrl:
        """Parse a public URL, such as `https://bridge.example` or `https://tools.example/bridge/`.

        Args:
            place: The name of the option, for the error.

        Raises:
            ConfigError: The text is no address of a server.
        """
        try:
            parts = urlsplit(text)
            _check(parts)
            port = parts.port
        except ValueError as error:
            problem = f"{text!r:.200} is no address of a server: {error}"
            cure = "write it as in https://bridge.example or https://a.example/bridge"
            raise ConfigError(place, problem, cure) from None
        host = (parts.hostname or "").lower()
        host = f"[{host}]" if ":" in host else host
        port = None if port == DEFAULT_PORTS[parts.scheme] else port
        return cls(parts.scheme, host, port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """Host and port, without a default port."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The forms of this authority in `Host`."""
        return frozenset((self.authority, f"{self.host}:{self.port or DEFAULT_PORTS[self.scheme]}"))

    @property
    def origin(self) -> str:
        """The origin of its pages."""
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.prefix


def _check(parts: SplitResult) -> None:
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("expected http:// or https://")
    if not parts.hostname or parts.username is not None or not re.fullmatch(r"[A-Za-z0-9.:_-]+", parts.hostname):
        raise ValueError("expected a host, and no user")
    if parts.port == 0 or parts.query or parts.fragment or not _PATH.fullmatch(parts.path.rstrip("/")):
        raise ValueError("expected nothing but scheme, host, port and path")


class Forwarded(NamedTuple):
    """The trusted statements of a proxy about a request that it passed on."""

    host: bytes | None = None
    """The host that the client asked for, if the proxy names it."""
    changes: Mapping[str, Any] = {}


DIRECT: Final = Forwarded()


class Proxies:
    """The trusted proxies.

    Args:
        named: Addresses and networks, such as `10.0.0.0/8`; `unix` for whoever has no address.
        place: The name of the option, for the error.

    Raises:
        ConfigError: One is no address.
    """

    def __init__(self, named: Iterable[str], public: PublicUrl | None, place: str = "--trust-proxy") -> None:
        texts = tuple(named)
        try:
            self._networks = tuple(ip_network(text) for text in texts if text != UNIX)
        except ValueError as error:
            cure = "write an address, or a network as in 10.0.0.0/8 with the first address of it"
            raise ConfigError(place, str(error), cure) from None
        self._has_unix = UNIX in texts
        self._prefix = "" if public is None else public.prefix
        self._always: dict[str, Any] = {} if public is None else {MOUNTED_AT: public.prefix}

    @property
    def is_empty(self) -> bool:
        """Whether no proxy is trusted."""
        return not self._networks and not self._has_unix

    def of(self, scope: Scope, values: Mapping[bytes, Sequence[bytes]]) -> Forwarded:
        """Return the trusted statements about a request; its proxy headers are given, each as often as it came."""
        if self.is_empty:
            return DIRECT
        changes = dict(self._always)
        path: str = scope["path"]
        if self._prefix and path.startswith(f"{self._prefix}/"):  # where the proxy passes paths on as they are
            changes["path"] = path[len(self._prefix) :]
        peer = scope.get("client")
        if not self._trusts(peer[0] if peer else ""):
            return Forwarded(None, changes)
        if (client := self._client(_items(values, FORWARDED_FOR))) is not None:
            changes["client"] = (client, 0)
        if (schemes := _items(values, FORWARDED_PROTO)) and schemes[-1].lower() in DEFAULT_PORTS:
            changes["scheme"] = schemes[-1].lower()
        hosts = _items(values, FORWARDED_HOST)
        return Forwarded(hosts[-1].encode("latin-1") if hosts else None, changes)

    def _client(self, passed: Sequence[str]) -> str | None:
        """Return the last address on the way that is no proxy of ours: earlier ones may be made up."""
        client: str | None = None
        for text in reversed(passed):
            address = _address(text)
            if address is None:
                break
            client = str(address)
            if not self._trusts(client):
                break
        return client

    def _trusts(self, host: str) -> bool:
        address = _address(host)
        if address is None:
            return self._has_unix and not host
        return any(address in network for network in self._networks)


def _items(values: Mapping[bytes, Sequence[bytes]], name: bytes) -> list[str]:
    text = b",".join(values.get(name, ())).decode("latin-1")
    return [item.strip() for item in text.split(",")] if text else []


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, with or without a port; `None` for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def at_root(scope: Scope) -> Scope:
    """Return the scope as it is for an application that is not mounted.

    The `path` of a mounted one begins with `root_path`, except for what a proxy took away, which Starlette remembers as
    `app_root_path`.
    """
    root: str = scope.get("root_path", "").rstrip("/")
    if not root or scope["type"] != "http":
        return scope
    path: str = scope["path"]
    mounted = root.removeprefix(scope.get("app_root_path", "").rstrip("/"))
    for prefix in (root, mounted):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :] or "/"
            break
    return {**scope, "path": path, "root_path": "", MOUNTED_AT: root}
