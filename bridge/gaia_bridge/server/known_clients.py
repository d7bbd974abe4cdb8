"""What clients take, as far as that is known: how many tools, how long instructions, how large results. Facts.

Who is not in the table takes anything. The names are those with which programs introduce themselves, recorded where a
version is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gaia_bridge.protocol.names import known_name


class KnownClient(Struct, frozen=True):
    """What one client takes; `None` is any number."""

    tools: int | None = None
    """Definitions of tools, of all its servers together."""
    instructions: int | None = None
    """UTF-16 units of a server's instructions: the rest never reaches its model."""
    result: int | None = None
    """Bytes of the text of a result, in JSON. Of more, its model never gets the rest: a client that puts it into a
    file, and says so, loses nothing and has no number here."""
    reads_resources: bool = True
    """Whether its model can read a resource by its URI."""
    lists_again: bool = False
    """Whether it lists again when it is told that a list changed. Who does not, or is not known to, has a first list
    that waits longer for servers that are starting."""
    prefers_structured: bool = False
    """Whether its model is shown structured content in place of all other, and nothing holds it against a schema."""

    wants_link_ids: bool = False
    """Whether it refuses a question with a link that has no `elicitationId`, which 2026-07-28 took out."""


_VS_CODE: Final = KnownClient(tools=128, lists_again=True)
"""One chat request of VS Code has at most 128 tools, of all servers together (microsoft/vscode#255585; still so in
1.138, microsoft/vscode#337428). Of larger results it keeps a file (microsoft/vscode#329276)."""

_WINDSURF: Final = KnownClient(tools=100)
"""Windsurf's Cascade has access to at most 100 tools at a time (its documentation, "Model Context Protocol")."""

_CURSOR: Final = KnownClient(tools=40, lists_again=True)
"""Cursor gives its model some 40 tools and leaves out the others (mcpproxy-go's README, and those of many servers)."""

_CLAUDE_CODE: Final = KnownClient(instructions=4_096, lists_again=True)
"""Claude Code cuts instructions, and the description of each tool, at 4,096 characters of JavaScript (seen in 2.1.332;
up to 2.1.197 at 2,048, anthropics/claude-code#81268). Of a result with more than 25,000 tokens or 50,000 characters it
keeps a file and tells its model where; of the text of a failed one, both ends stay, 5,000 characters each."""

_CODEX: Final = KnownClient(result=10_000, prefers_structured=True)
"""Codex shows its model both ends of a result, some 12,000 characters, and keeps the rest nowhere (openai/codex#14466;
seen in 0.171.0, also that structured content takes the place of everything else, and that it never lists again).
Instructions are whole there."""

_EARLY_COPILOT: Final = KnownClient(result=10_240, reads_resources=False)
"""Copilot CLI drops what a result has beyond 10 KiB, without a word (github/copilot-cli#1732; its code before 0.0.423).
For some time after that it still gave this name, and the version 1.0.0. Today it is `copilot-cli`."""

_LISTS_AGAIN: Final = KnownClient(lists_again=True)
"""Programs that lose nothing else that is known. Copilot CLI (1.0.102) keeps a file of more than 20 KB and tells its
model where, drops links to resources, and shows no instructions unless told to. Gemini CLI (0.61.0) keeps a file and
shows its model 40,000 characters of it; opencode (1.18.33) one with the first 50 KiB, and drops links."""

_LISTS_ONCE: Final = KnownClient()
"""mcporter (0.12.3) starts a process for each of its commands."""

_COPILOT: Final = KnownClient(lists_again=True, wants_link_ids=True)
"""Copilot CLI refuses the whole result of a call that asks by such a link (seen in 1.0.102)."""

_CLIENTS: Final[Mapping[str, KnownClient]] = {
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
    "claude-code": _CLAUDE_CODE,  # 2.1.332
    "codex-mcp-client": _CODEX,  # 0.171.0
    "copilot-cli": _COPILOT,  # 1.0.102
    "gemini-cli-mcp-client": _LISTS_AGAIN,  # 0.61.0
    "opencode": _LISTS_AGAIN,  # 1.18.33
    "mcporter": _LISTS_ONCE,  # 0.12.3
    "github-copilot-developer": _EARLY_COPILOT,  # 0.0.420
}
"""By `clientInfo.name` in lower case. Those without blanks are in the registry apify/mcp-client-capabilities."""

_ANY: Final = KnownClient()


def known_client(client: str) -> KnownClient:
    """What a client takes, as far as that is known."""
    return _CLIENTS.get(known_name(client), _ANY)


def tool_limit(client: str) -> int | None:
    """How many tools a client takes, as far as that is known."""
    return known_client(client).tools


def result_limits() -> tuple[int, ...]:
    """How much those clients pass on of a result that pass on only so much."""
    return tuple(client.result for client in _CLIENTS.values() if client.result is not None)
