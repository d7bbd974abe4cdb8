"""Which HTTP proxy leads to a server: what its entry says, and what variables say for all of them. Pure.

Variables are read as curl and httpx read them: `https_proxy` or `HTTPS_PROXY` for servers over https, `http_proxy` or
`HTTP_PROXY` for those over http, else `all_proxy` or `ALL_PROXY`; and `no_proxy` or `NO_PROXY` for those that are
reached directly. Lower case wins, also if it is empty. This machine is never reached by a proxy.
"""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

from msgspec import Struct

from gaia_bridge.text.web_addresses import is_loopback_host

OF_ENTRY: Final = "'proxy' in its entry"
"""What names the proxy of one server."""

_SCHEMES: Final = ("http", "https", "all")
_PORTS: Final = {"http": 80, "https": 443}
_ITEM: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?")
"""A host of `NO_PROXY`, and perhaps its port."""

_IN_USERINFO: Final = "%:!$&'()*+,;=~"
"""What needs no encoding in user and password; what is encoded there stays as it is."""

_Address = IPv4Address | IPv6Address


class ProxyAddressError(ValueError):
    """What names a proxy holds no address of one. The text does not repeat it: it may hold a password."""


class SocksError(ProxyAddressError):
    """It is a proxy of another kind than the bridge speaks to."""


class Proxy(Struct, frozen=True):
    """An HTTP proxy."""

    scheme: Literal["http", "https"]
    """How it is spoken to, whatever is asked of it."""
    host: str
    port: int
    named_by: str
    """The variable or the key that says so, for people."""
    userinfo: str = ""
    """User and password as they are written: for the proxy alone."""

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization`, which is for the proxy alone (RFC 7617)."""
        if not self.userinfo:
            return None
        user, _, password = self.userinfo.partition(":")
        return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode("ascii")

    @property
    def url(self) -> str:
        """Its address with who we are to it. For no log."""
        return str(self).replace("//", f"//{quote(self.userinfo, safe=_IN_USERINFO)}@") if self.userinfo else str(self)

    def __str__(self) -> str:
        """Its address, without who we are to it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({str(self)!r}, named by {self.named_by})"


class NamedProxy(Struct, frozen=True):
    """A variable with a proxy."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"NamedProxy({self.name!r})"


def proxy_for(
    scheme: str, host: str, port: int, named: str | Literal[False] | None, environ: Mapping[str, str]
) -> Proxy | None:
    """The proxy by which a server is reached; `None` if it is reached directly.

    Args:
        scheme: Of the server's URL.
        host: The same, in ASCII and without brackets.
        port: The same.
        named: The `proxy` of its entry: an address, or `False` for none; `None` if variables decide.
        environ: Where the variables are.

    Raises:
        ProxyAddressError: It is no address of an HTTP proxy.
    """
    if named is False or _is_this_machine(host):
        return None
    if named is not None:
        return proxy_at(named, OF_ENTRY)
    found = _named(scheme, environ) or _named("all", environ)
    if found is None or _goes_round(host, port, _value("no", environ)[1]):
        return None
    return proxy_at(found.value, found.name)


def proxy_at(text: str, named_by: str) -> Proxy:
    """Understand the address of a proxy; without a scheme, it is one of http.

    Args:
        text: `http://USER:PASSWORD@HOST:PORT`; what is special in a user or a password is percent-encoded.
        named_by: The variable or the key that has it.

    Raises:
        ProxyAddressError: It is none.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), "", None
    if parts.scheme.startswith("socks") and host:
        raise SocksError(
            f"{named_by} names a SOCKS proxy, and the bridge speaks to HTTP proxies alone; "
            'name one as http://HOST:PORT, or write "proxy": false into the entry of a server that needs none'
        )
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    if parts.scheme != scheme or port == 0 or not re.fullmatch(r"[!-~]+", host):
        raise ProxyAddressError(f"{named_by} is no address of a proxy; expected http://HOST:PORT")
    return Proxy(scheme, host, port or _PORTS[scheme], named_by, parts.netloc.rpartition("@")[0])


def named_proxies(environ: Mapping[str, str]) -> Iterator[NamedProxy]:
    """The variables that name proxies, as far as they count."""
    for scheme in _SCHEMES:
        if (found := _named(scheme, environ)) is not None:
            yield found


def _named(scheme: str, environ: Mapping[str, str]) -> NamedProxy | None:
    name, value = _value(scheme, environ)
    if name == "HTTP_PROXY" and "REQUEST_METHOD" in environ:
        return None  # a CGI program is told a header `Proxy` of its clients by this name
    return NamedProxy(name, value) if value else None


def _value(kind: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name = f"{kind}_proxy"
    name = name if name in environ else name.upper()
    return name, environ.get(name, "").strip()


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    if address is None:
        return is_loopback_host(host.rstrip("."))
    return address.is_loopback or address.is_unspecified


def _address(host: str) -> _Address | None:
    """The address that a host is, however it is spelled; `None` if it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        # The system takes 127.1, 0x7f000001 and 2130706433 for addresses, and connects to them.
        if not re.fullmatch(r"[0-9a-fx.]*[0-9a-f]", host, re.IGNORECASE):
            return None
        try:
            return IPv4Address(socket.inet_aton(host))
        except OSError:
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _goes_round(host: str, port: int, left_out: str) -> bool:
    """Whether a server is among those that are reached directly."""
    name, address = host.lower().rstrip("."), _address(host)
    return any(_is_meant(item, name, address, port) for item in re.split(r"[\s,]+", left_out.lower()) if item)


def _is_meant(item: str, name: str, address: _Address | None, port: int) -> bool:
    """Whether one item of `NO_PROXY` stands for a server: `*`, a name with all below it, an address, a network."""
    if item == "*":
        return True
    if (found := _is_within(item, address)) is not None:
        return found
    parts = _ITEM.fullmatch(item)
    if parts is None or (parts[2] is not None and int(parts[2]) != port):
        return False
    if (found := _is_within(parts[1], address)) is not None:
        return found
    domain = parts[1].removeprefix("*").strip(".")
    return bool(domain) and (name == domain or name.endswith(f".{domain}"))


def _is_within(text: str, address: _Address | None) -> bool | None:
    """Whether an address is in a network, or is the one that is written; `None` if none is."""
    try:
        network = ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
    return address is not None and address in network
