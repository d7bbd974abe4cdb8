"""How many tools clients take, as far as that is known. Facts; who is not in the table takes any number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["known_name", "tool_limit"]

_VS_CODE: Final = 128
"""One chat request of VS Code has at most 128 tools, of all servers together (microsoft/vscode#255585; still so in
1.138, microsoft/vscode#337428)."""

_WINDSURF: Final = 100
"""Windsurf's Cascade has access to at most 100 tools at a time (its documentation, "Model Context Protocol")."""

_CURSOR: Final = 40
"""Cursor gives its model some 40 tools and leaves out the others (mcpproxy-go's README, and those of many servers)."""

_LIMITS: Final[Mapping[str, int]] = {
    "visual studio code": _VS_CODE,  # the product's long name, in VS Code's mcpServerRequestHandler.ts
    "visual-studio-code": _VS_CODE,
    "code - oss": _VS_CODE,
    "code-oss": _VS_CODE,
    "vscodium": _VS_CODE,
    "code-server": _VS_CODE,  # 1.139 introduces itself so
    "openvscode server": _VS_CODE,
    "openvscode-server": _VS_CODE,
    "windsurf": _WINDSURF,
    "windsurf-client": _WINDSURF,
    "cursor-vscode": _CURSOR,
}
"""How many tools a client takes, by `clientInfo.name` in lower case. Those without blanks are in the registry
apify/mcp-client-capabilities."""

_EDITIONS: Final = (" - insiders", " - exploration", " insiders", " dev")
"""What early editions of an editor have behind its name."""

_VIA: Final = " (via "
"""What mcp-remote appends to the name of the client that it speaks for, before its own."""


def known_name(client: str) -> str:
    """The name of a client as the table has it, if it is there: without the edition, and without who speaks for it.

    Args:
        client: Its name, as it introduces itself.
    """
    name = client.partition(_VIA)[0].strip().casefold()
    edition = next((edition for edition in _EDITIONS if name.endswith(edition)), "")
    return name.removesuffix(edition)


def tool_limit(client: str) -> int | None:
    """How many tools a client takes, as far as that is known.

    Args:
        client: Its name, as it introduces itself.
    """
    return _LIMITS.get(known_name(client))
