"""The HTTP proxy for a server: by its entry, or by variables for all servers. Pure.

Variables are read as curl and httpx read them: `https_proxy` or `HTTPS_PROXY` for servers over https, `http_proxy` or
`HTTP_PROXY` for those over http, else `all_proxy` or `ALL_PROXY`; and `no_proxy` or `NO_PROXY` for those that are
reached directly. Lower case wins, also if it is empty. This machine is never reached by a proxy.
"""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

from msgspec import Struct

from gaia_bridge.text.web_addresses import is_loopback_host

OF_ENTRY: Final = "'proxy' in its entry"
"""The source of the proxy of one server, for messages."""

_PORTS: Final = {"http": 80, "https": 443}
_ITEM: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?")
"""A host of `NO_PROXY`, and perhaps its port."""

_IN_USERINFO: Final = "%:!$&'()*+,;=~"
"""Characters that need no encoding in user and password; a part that is encoded there stays as it is."""

_Address = IPv4Address | IPv6Address


class ProxyAddressError(ValueError):
    """A setting for a proxy holds no valid address. The text does not repeat it: it may hold a password."""


class SocksError(ProxyAddressError):
    """The proxy is a SOCKS proxy, which the bridge does not support."""


class Proxy(Struct, frozen=True):
    """An HTTP proxy."""

    scheme: Literal["http", "https"]
    """The scheme of the connection to the proxy, whatever the scheme of the request."""
    host: str
    port: int
    named_by: str
    """The variable or the key that names it, for people."""
    userinfo: str = ""
    """User and password as they are written; they are sent to the proxy alone."""

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization`, which is sent to the proxy alone (RFC 7617)."""
        if not self.userinfo:
            return None
        user, _, password = self.userinfo.partition(":")
        return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode("ascii")

    @property
    def url(self) -> str:
        """The proxy's address with user and password. For no log."""
        return str(self).replace("//", f"//{quote(self.userinfo, safe=_IN_USERINFO)}@") if self.userinfo else str(self)

    def __str__(self) -> str:
        """Return the proxy's address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({str(self)!r}, named by {self.named_by})"


def proxy_for(
    scheme: str, host: str, port: int, named: str | Literal[False] | None, environ: Mapping[str, str]
) -> Proxy | None:
    """Return the proxy for a server; `None` if it is reached directly.

    Args:
        scheme: The scheme of the server's URL.
        host: The host of that URL, in ASCII and without brackets.
        port: The port of that URL.
        named: The `proxy` of its entry: an address, or `False` for none; `None` if variables decide.
        environ: The variables.

    Raises:
        ProxyAddressError: The setting is no address of an HTTP proxy.
    """
    if named is False or _is_this_machine(host):
        return None
    if named is not None:
        return proxy_at(named, OF_ENTRY)
    name, address = _named(scheme, environ)
    if not address:
        name, address = _named("all", environ)
    if not address or _goes_round(host, port, _named("no", environ)[1]):
        return None
    return proxy_at(address, name)


def proxy_at(text: str, named_by: str) -> Proxy:
    """Parse the address of a proxy; without a scheme, it is an http one.

    Args:
        text: `http://USER:PASSWORD@HOST:PORT`; special characters in a user or a password are percent-encoded.
        named_by: The variable or the key that has it.

    Raises:
        ProxyAddressError: The text is no address of a proxy.
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


def _named(kind: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that counts for `http`, `https`, `all` or `no`, and its value; empty if there is none."""
    name = f"{kind}_proxy"
    name = name if name in environ else name.upper()
    if name == "HTTP_PROXY" and "REQUEST_METHOD" in environ:
        return name, ""  # a CGI program gets the header `Proxy` of its clients in this variable
    return name, environ.get(name, "").strip()


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    if address is None:
        return is_loopback_host(host.rstrip("."))
    return address.is_loopback or address.is_unspecified


def _address(host: str) -> _Address | None:
    """Return the address that a host is, however it is spelled; `None` if it is a name."""
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
    """Return whether a server is among those that are reached directly."""
    name, address = host.lower().rstrip("."), _address(host)
    return any(_is_meant(item, name, address, port) for item in re.split(r"[\s,]+", left_out.lower()) if item)


def _is_meant(item: str, name: str, address: _Address | None, port: int) -> bool:
    """Return whether one item of `NO_PROXY` covers a server: `*`, a name with all below it, an address, a network."""
    if item == "*":
        return True
    if (is_within := _is_within(item, address)) is not None:
        return is_within
    parts = _ITEM.fullmatch(item)
    if parts is None or (parts[2] is not None and int(parts[2]) != port):
        return False
    if (is_within := _is_within(parts[1], address)) is not None:
        return is_within
    domain = parts[1].removeprefix("*").strip(".")
    return bool(domain) and (name == domain or name.endswith(f".{domain}"))


def _is_within(text: str, address: _Address | None) -> bool | None:
    """Return whether an address is in a network, or equal to an address; `None` if the text is neither."""
    try:
        network = ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
    return address is not None and address in network
