"""What clients take: known by their names, as they introduce themselves."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gaia_bridge.protocol.names import known_name
from gaia_bridge.server.known_clients import KnownClient, known_client, tool_limit


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


RECORDED: Final[list[tuple[dict[str, Any], KnownClient]]] = [
    (
        {
            "name": "claude-code",
            "title": "Claude Code",
            "version": "2.1.332",
            "description": "Anthropic's agentic coding tool",
            "websiteUrl": "https://claude.com/claude-code",
        },
        KnownClient(instructions=4_096, lists_again=True),
    ),
    (
        {"name": "codex-mcp-client", "title": "Codex", "version": "0.171.0"},
        KnownClient(result=10_000, prefers_structured=True),
    ),
    ({"name": "copilot-cli", "version": "1.0.102"}, KnownClient(lists_again=True, wants_link_ids=True)),
    ({"name": "opencode", "version": "1.18.33"}, KnownClient(lists_again=True)),
    ({"name": "gemini-cli-mcp-client", "version": "0.61.0"}, KnownClient(lists_again=True)),
    ({"name": "mcporter", "version": "0.12.3"}, KnownClient()),
    ({"name": "mcp-test-client", "version": "0.0.1"}, KnownClient()),  # Gemini CLI 0.61.0, for `gemini mcp list`
]
"""What programs said of themselves to a server that wrote it down, and what is known of them."""


def test_clients_that_were_recorded_are_known_by_what_they_say() -> None:
    for info, facts in RECORDED:
        assert known_client(info["name"]) == facts, info["name"]


def test_early_copilot_is_known_by_the_name_that_its_program_has() -> None:
    facts = known_client("github-copilot-developer")
    assert (facts.result, facts.reads_resources) == (10_240, False)
