"""Recognises loopback addresses and host names."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 loopback address.

    Args:
        text: Such as `127.0.0.1`, `::1` or `::ffff:127.0.0.1`, without brackets.
    """
    try:
        parsed = ip_address(text)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def is_loopback_host(host: str) -> bool:
    """Whether the host of a URL is a loopback address or a `localhost` name (RFC 6761, section 6.3)."""
    name = host.lower()
    return is_loopback_address(name) or name == "localhost" or name.endswith(".localhost")
