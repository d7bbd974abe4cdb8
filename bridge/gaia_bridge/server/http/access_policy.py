"""The conditions of access: the host names, page origins and credential that the guard compares requests with."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from starlette.types import Scope

from gaia_bridge.errors import ConfigError, ListenError
from gaia_bridge.server.http.proxies import DEFAULT_PORTS, LOOPBACK, Proxies, PublicUrl
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.web_addresses import is_loopback_address, is_loopback_host

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SHOWN_LENGTH = 80
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.+)")
_CREDENTIAL = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_WORDS: Final = """\
This is gaia-mcp-bridge, an MCP server. It is made for programs; there is nothing to see in a browser.

Give your MCP client {address} at its end. What is published is listed at /tools,
and how it is at /status.
"""


class LiveToken:
    """The token that clients must send, if any, which can be exchanged while the server runs.

    Raises:
        ConfigError: It is empty or holds characters that a header cannot carry (fail closed).
    """

    __slots__ = ("text",)

    def __init__(self, text: str | None) -> None:
        self.text: str | None = None
        if text is not None:
            self.exchange(text)

    def exchange(self, text: str) -> None:
        """Replace the token."""
        if not _CREDENTIAL.fullmatch(text):
            raise ConfigError(
                "the bearer token",
                "empty, or with characters outside A-Z a-z 0-9 - . _ ~ + / (RFC 6750 section 2.1)",
                "use --auth, which makes one",
            )
        self.text = text

    def __repr__(self) -> str:
        return "LiveToken(...)"


class AccessPolicy(Struct, frozen=True):
    """The conditions of access. Made by `for_address`, or by `for_hosts` where another program listens.

    Args:
        hosts: The accepted `Host` values, lower case, as `host` or `host:port`.
        origins: The accepted `Origin` values in the one form in which browsers serialise them.
        cross_origins: Those of them that are pages of another server and need CORS headers to read an answer.
        token: The bearer token that every request but the health check must carry, if any.
        limits: Sizes and deadlines.
        any_port: Hosts that are accepted with every port, lower case.
        served_elsewhere: Whether we do not listen ourselves: then a page from the very host that it calls may call.
        public: The address that clients use, where a proxy stands before us.
        only_direct: Whether requests that a proxy passed on are refused: they would make a local program of
            everybody. Not so where other machines reach us by themselves, some of them through a proxy of theirs.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    cross_origins: frozenset[str] = frozenset()
    token: LiveToken = LiveToken(None)
    limits: HttpLimits = HttpLimits()
    any_port: frozenset[str] = frozenset()
    served_elsewhere: bool = False
    public: PublicUrl | None = None
    proxies: Proxies = Proxies((), None)
    only_direct: bool = True

    @classmethod
    def for_address(
        cls,
        host: str,
        port: int,
        *,
        allow_hosts: Iterable[str] = (),
        allow_origins: Iterable[str] = (),
        token: str | LiveToken | None = None,
        limits: HttpLimits | None = None,
        public_url: str | None = None,
        proxies: Iterable[str] = (),
    ) -> AccessPolicy:
        """Derive the policy from the address that is listened on.

        A loopback address is reached as 127.0.0.1, localhost or [::1] with the port, and so is 0.0.0.0 or [::] from
        the machine itself. Any other is reached only under the names that are allowed explicitly, because "whatever
        name leads here" is what DNS rebinding abuses.

        `allow_hosts` are `host:port`, meant exactly, or `host` alone: that is the host with the bound port, and
        without one, as a reverse proxy on a standard port passes it on. Port 80 or 443 may always be left out,
        because clients do. Pages that this server itself serves (`http://` and an accepted host) are accepted as
        origins; `allow_origins` names all others in full, such as `https://tool.example` or `vscode-webview://id`.

        Args:
            host: The address, as it was given to `bind`.
            port: The port that is really bound.
            public_url: The address that clients use, where a proxy stands before us. It needs a token.
            proxies: Their addresses and networks; any on this machine, if there is a public URL and none is named.

        Raises:
            ListenError: The address is not loopback, and the token or the explicit hosts are missing.
            ConfigError: A host, an origin, the public URL or a proxy is not one.
        """
        allow_hosts = tuple(allow_hosts)
        given = token.text if isinstance(token, LiveToken) else token
        check_exposure(host, filter(None, (*allow_hosts, public_url)), given)
        token = token if isinstance(token, LiveToken) else LiveToken(token)
        public, behind = _proxied(public_url, proxies, token, ("--public-url", "--trust-proxy", "--auth"))
        hosts: set[str] = set()
        if _is_loopback(host):
            hosts |= _spellings(_bracketed(host).lower(), port)
        if _is_loopback(host) or _is_everywhere(host):  # who can reach us as that is on this machine
            for name in LOOPBACK_NAMES:
                hosts |= _spellings(name, port)
        for allowed in allow_hosts:
            hosts |= _allowed_host(allowed, port)
        cross_origins = frozenset(_canonical_origin(origin) for origin in allow_origins)
        origins = {_canonical_origin(f"http://{name}") for name in hosts}
        return cls(
            hosts=frozenset(hosts) | (public.hosts if public else frozenset[str]()),
            origins=cross_origins | origins | ({_canonical_origin(public.origin)} if public else set[str]()),
            cross_origins=cross_origins,
            token=token,
            limits=limits or HttpLimits(),
            public=public,
            proxies=behind,
            only_direct=behind.is_empty and _is_loopback(host),
        )

    @classmethod
    def for_hosts(
        cls,
        hosts: Iterable[str],
        *,
        origins: Iterable[str] = (),
        token: str | None = None,
        limits: HttpLimits | None = None,
        public_url: str | None = None,
        proxies: Iterable[str] = (),
    ) -> AccessPolicy:
        """Return the policy of an application that another program serves, at an address that we do not know.

        A page that comes from the very host that it calls may call it. All else is as for `for_address`.

        Args:
            hosts: Our names for clients: `host:port`, `host` for a standard port, or `host:*` for every port.
            proxies: Also `unix`, for whoever connects by a socket without an address.

        Raises:
            ConfigError: A host, an origin, the public URL or a proxy is not one.
        """
        live = LiveToken(token)
        public, behind = _proxied(public_url, proxies, live, ("public_url", "proxies", "token="))
        exact: set[str] = set()
        any_port: set[str] = set()
        for text in hosts:
            name = text.removesuffix(":*")
            (exact if name == text else any_port).add(_host(name, "hosts", "localhost:*"))
        cross_origins = frozenset(_canonical_origin(origin, "origins") for origin in origins)
        return cls(
            hosts=frozenset(exact) | (public.hosts if public else frozenset[str]()),
            origins=cross_origins | ({_canonical_origin(public.origin)} if public else frozenset[str]()),
            cross_origins=cross_origins,
            token=live,
            limits=limits or HttpLimits(),
            any_port=frozenset(any_port),
            served_elsewhere=True,
            public=public,
            proxies=behind,
            only_direct=behind.is_empty,
        )

    def accepts_host(self, host: bytes) -> bool:
        """Return whether a `Host` that is none of `hosts` is one with any port."""
        if not self.any_port:
            return False
        try:
            name, _ = split_authority(host.decode("latin-1"))
        except ValueError:
            return False
        return name.lower() in self.any_port


def _proxied(
    public_url: str | None, proxies: Iterable[str], token: LiveToken, names: tuple[str, str, str]
) -> tuple[PublicUrl | None, Proxies]:
    """Return the public address, and the proxies before us. The names are those of the three options, for errors."""
    url, proxy, auth = names
    given = tuple(proxies)
    if public_url is None:
        if given:
            raise ConfigError(proxy, f"without {url}, the address that clients use", f"add {url} https://...")
        return None, Proxies((), None)
    if token.text is None:
        raise ConfigError(url, "others reach the bridge there, so it needs a token", f"add {auth}")
    public = PublicUrl.of(public_url, url)
    return public, Proxies(given or LOOPBACK, public, proxy)


def check_exposure(host: str, allow_hosts: Iterable[str], token: str | None) -> None:
    """Refuse an address that other machines can reach, unless it is protected by a token and host names.

    A name other than `localhost` counts as reachable.

    Raises:
        ListenError: The address is not loopback, and the token or the explicit hosts are missing.
    """
    if _is_loopback(host):
        return
    missing = [option for option, given in (("--auth", token), ("--allow-host NAME", tuple(allow_hosts))) if not given]
    if missing:
        raise ListenError(
            host,
            "other machines can reach this address, so it needs a token and the host names that clients use",
            f"add {' and '.join(missing)}, or listen on 127.0.0.1",
        )


def reaches_beyond(host: str, allow_hosts: Iterable[str]) -> bool:
    """Return whether other machines can reach a bridge: by its address, or by a name of it that a proxy passes on."""
    names = (split_authority(_bracketed(allowed))[0] for allowed in allow_hosts)
    return not _is_loopback(host) or any(not is_loopback_host(name.strip("[]")) for name in names)


def quoted(value: bytes | str) -> str:
    """Return a peer's value, harmless in a message and in a log: ASCII, escaped, quoted, cut."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return ascii(text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "...")


def _is_loopback(host: str) -> bool:
    # Not every *.localhost: to listen, the name is resolved, and resolvers do not all know what it stands for.
    return host.lower() == "localhost" or is_loopback_address(host.strip("[]"))


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]") or "0.0.0.0").is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    """Return an IPv6 address as it is written in a URL, and any other text as it is."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def split_authority(text: str) -> tuple[str, int | None]:
    """Split `host` or `host:port`; raise `ValueError` for anything else.

    A user, a path or an empty port is refused: two parsers could read them differently.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError("expected HOST or HOST:PORT")
    host, digits = match.groups()
    if host.startswith("["):
        ipaddress.IPv6Address(host[1:-1])
    port = int(digits) if digits is not None else None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"expected a port from 1 to 65535, got {port}")
    return host, port


def _spellings(host: str, port: int) -> set[str]:
    return {f"{host}:{port}", host} if port in DEFAULT_PORTS.values() else {f"{host}:{port}"}


def _host(text: str, place: str, example: str) -> str:
    try:
        split_authority(_bracketed(text))
    except ValueError as error:
        problem = f"{quoted(text)} is not a host: {error}"
        raise ConfigError(place, problem, f"write it as clients do: {example}") from None
    return _bracketed(text).lower()


def _allowed_host(text: str, bound_port: int) -> set[str]:
    host, port = split_authority(_host(text, "--allow-host", "bridge.example:8765"))
    return _spellings(host, port) if port is not None else _spellings(host, bound_port) | {host}


def _canonical_origin(text: str, place: str = "--allow-origin") -> str:
    """Return an origin as browsers serialise it: lower case and without the default port, for http and https.

    `*` and `null` are none: they would accept every page.
    """
    match = _ORIGIN.fullmatch(text)
    try:
        if match is None:
            raise ValueError("expected SCHEME://HOST or SCHEME://HOST:PORT")
        host, port = split_authority(match[2])
    except ValueError as error:
        problem = f"{quoted(text)} is not an origin: {error}"
        raise ConfigError(place, problem, "write it as in https://tool.example") from None
    scheme = match[1].lower()
    default_port = DEFAULT_PORTS.get(scheme)
    if default_port is not None:
        host = host.lower()
    return f"{scheme}://{host}" if port in (None, default_port) else f"{scheme}://{host}:{port}"


def words_for_people(policy: AccessPolicy) -> str:
    """Return the text for people who open the address."""
    place = policy.public or "of this machine and port"
    return _WORDS.format(address=f"the address {place} with /mcp")


def is_person(scope: Scope) -> bool:
    """Return whether a person has opened the address in a browser: no MCP client takes HTML."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
