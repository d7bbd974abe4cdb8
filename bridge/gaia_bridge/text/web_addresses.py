"""Tells addresses on the web from texts that are none: what others publish is judged by schemas that ask for one."""

from __future__ import annotations

import re
from typing import Final

ADDRESS_CHARACTER: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
"""A pattern: what may be in an address behind its machine (RFC 3986)."""

_WEB: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?"
    rf"(?:[/?]{ADDRESS_CHARACTER}*)?(?:#{ADDRESS_CHARACTER}*)?"
)


def is_web_address(text: object) -> bool:
    """Whether it is an address of the web, whole, without a user.

    Args:
        text: Anything.
    """
    return isinstance(text, str) and _WEB.fullmatch(text) is not None
