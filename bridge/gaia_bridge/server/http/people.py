"""What somebody sees who opens the address of an MCP server in a browser."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from gaia_bridge.server.http.access_policy import AccessPolicy

_WORDS: Final = """\
This is gaia-mcp-bridge, an MCP server. It is made for programs; there is nothing to see in a browser.

Give your MCP client {address} at its end. What is published is listed at /tools,
and how it is at /status.
"""

_HERE: Final = "the address of this machine and port with /mcp"


def words_for_people(policy: AccessPolicy) -> str:
    """What they are told.

    Args:
        policy: Says which address clients use.
    """
    return _WORDS.format(address=f"the address {policy.public} with /mcp" if policy.public else _HERE)


def is_person(scope: Scope) -> bool:
    """Whether somebody has opened the address in a browser: no MCP client takes HTML."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
