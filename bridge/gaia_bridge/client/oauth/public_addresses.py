"""Which network addresses are on the public internet, and which URLs may lead there. Pure.

A server's words must not make us knock at what only we can reach: this machine, its network, the metadata service of
its cloud. IPv6 has several ways to carry an IPv4 address to where it came from, so the carried one counts too. The
tables are those of IANA's special-purpose address registries, where Python's `ipaddress` is behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx2

LONGEST_URL: Final = 8_192
"""Characters; more than any server's metadata needs."""

_NEVER: Final = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments; metadata services of some clouds
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("168.63.129.16/32"),  # looks public, is the host of every Azure machine
    IPv6Network("3fff::/20"),  # documentation (RFC 9637)
)
_UNICAST: Final = IPv6Network("2000::/3")
"""All that IANA has given away of IPv6's global unicast space."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""How a network without IPv4 reaches it (RFC 6052). The local variant, 64:ff9b:1::/48, is never global."""
_ISATAP: Final = 0x0000_5EFE
_UNIVERSAL: Final = 0x0200_0000
"""The bit of an ISATAP interface identifier that says whether the carried address is unique (RFC 5214)."""
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def is_public(address: str) -> bool:
    """Whether an address is on the public internet, and carries no other that is not.

    Args:
        address: An IPv4 or IPv6 address as `getaddrinfo` gives it.
    """
    parsed = ip_address(address)
    if any(parsed.version == network.version and parsed in network for network in _NEVER):
        return False
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    if parsed.ipv4_mapped is not None:
        return is_public(str(parsed.ipv4_mapped))
    if parsed in _NAT64:
        return is_public(str(_low_half(parsed)))
    if parsed.scope_id or parsed not in _UNICAST or not parsed.is_global:
        return False
    return all(is_public(str(carried)) for carried in _carried(parsed))


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFFFF_FFFF & ~_UNIVERSAL == _ISATAP:
        yield _low_half(address)


def _low_half(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def url_problem(url: httpx2.URL, *, allow_http: bool) -> str:
    """What keeps a URL from being fetched or opened, whatever its host stands for; empty if nothing does.

    An odd spelling is not interpreted: where two programs may read it differently, one of them is the guard.

    Args:
        url: The URL.
        allow_http: Whether it may do without TLS.
    """
    if url.scheme != "https" and not (allow_http and url.scheme == "http"):
        return "not https"
    if len(str(url)) > LONGEST_URL:
        return "too long"
    if url.userinfo:
        return "with a user name in it"
    if url.port is not None and not 0 < url.port < 65_536:
        return "with an impossible port"
    return "" if _is_plain_host(url.raw_host.decode("ascii", "replace").lower()) else "with an odd host"


def _is_plain_host(host: str) -> bool:
    """Whether it is an address in its usual spelling, or a name that no resolver takes for one."""
    try:
        return "%" not in host and bool(ip_address(host))
    except ValueError:
        pass
    labels = host.split(".")
    # A last label that is a number makes an address of it for some: 127.1, 0x7f000001 (WHATWG URL, section 3.5).
    numeric = labels[-1].isdigit() or labels[-1].startswith("0x")
    return len(host) <= 253 and not numeric and all(_LABEL.fullmatch(label) for label in labels)
