"""How many tools clients take: known by their names, as they introduce themselves."""

from __future__ import annotations

import pytest

from gaia_bridge.server.known_clients import known_name, tool_limit


@pytest.mark.parametrize(
    ("client", "limit"),
    [
        ("Visual Studio Code", 128),
        ("Visual Studio Code - Insiders", 128),
        ("visual studio code", 128),
        ("Visual Studio Code - Exploration", 128),
        (" VSCodium ", 128),
        ("VSCodium - Insiders", 128),
        ("Code - OSS", 128),
        ("Code - OSS Dev", 128),
        ("code-server", 128),
        ("OpenVSCode Server", 128),
        ("OpenVSCode Server Insiders", 128),
        ("Windsurf", 100),
        ("windsurf-client", 100),
        ("cursor-vscode", 40),
        ("cursor-vscode (via mcp-remote 0.1.37)", 40),
        ("Visual Studio Code 2", None),
        ("claude-code", None),
        ("mcp", None),
        ("", None),
    ],
)
def test_a_client_is_known_by_its_name(client: str, limit: int | None) -> None:
    assert tool_limit(client) == limit


def test_a_client_behind_mcp_remote_is_known_by_its_own_name() -> None:
    assert known_name("Windsurf (via mcp-remote 0.1.37)") == "windsurf"
