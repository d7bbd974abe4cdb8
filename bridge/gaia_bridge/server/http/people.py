"""What somebody sees who opens the address of an MCP server in a browser."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

__all__ = ["FOR_PEOPLE", "is_person"]

FOR_PEOPLE: Final = """\
This is gaia-mcp-bridge, an MCP server. It is made for programs; there is nothing to see in a browser.

Give your MCP client the address of this machine and port with /mcp at its end. What is published is listed at /tools,
and how it is at /status.
"""


def is_person(scope: Scope) -> bool:
    """Whether somebody has opened the address in a browser: no MCP client takes HTML."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
