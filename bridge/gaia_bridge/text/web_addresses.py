"""Which texts are addresses on the web, and which hosts are this machine."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Final

ADDRESS_CHARACTER: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
"""A pattern: what may be in an address behind its machine (RFC 3986)."""

_WEB: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?"
    rf"(?:[/?]{ADDRESS_CHARACTER}*)?(?:#{ADDRESS_CHARACTER}*)?"
)


def is_web_address(text: object) -> bool:
    """Whether it is an address of the web, whole, without a user."""
    return isinstance(text, str) and _WEB.fullmatch(text) is not None


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
