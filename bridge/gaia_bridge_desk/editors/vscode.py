"""VS Code's `mcp.json`: the document that tells VS Code which MCP servers there are.

Only keys of VS Code's own schema are written: it refuses all others. Secrets are never written into the document: in
the examples, the token of an HTTP bridge is taken from an environment variable, because VS Code does not lend a server
that asks for input (`${input:...}`) to other programs.

Format: https://code.visualstudio.com/docs/agents/reference/mcp-configuration
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.editors.entries import address_entry, program_entry
from gaia_bridge_desk.editors.table import VSCODE

SERVER_NAME = "gaia-bridge"
"""What the bridge is called in VS Code's list of servers."""

TOKEN_VARIABLE = "GAIA_BRIDGE_TOKEN"
"""The environment variable from which VS Code takes the token of `gaia-bridge serve --auth`."""


def stdio_server(agents: Sequence[str] = (), *, command: str = "gaia-bridge") -> JSON:
    """A server that VS Code starts itself and talks to over stdio, in the folder that is open in it.

    Args:
        agents: Agent references, as on the command line; none at all means the shipped agents.
        command: The program: a name that is on VS Code's `PATH`, or a whole path.
    """
    return program_entry(VSCODE, command, ["serve", "--stdio", *agents], cwd="${workspaceFolder}")


def http_server(url: str, *, token_variable: str | None = None) -> JSON:
    """A server that runs already and is reached over Streamable HTTP.

    Args:
        url: Where: `http://127.0.0.1:8765/mcp`.
        token_variable: The environment variable that holds the bearer token, if the server asks for one.
    """
    server = address_entry(VSCODE, url, token_variable=token_variable)
    assert server is not None  # VS Code takes addresses
    return server


def document(server: JSON, name: str = SERVER_NAME) -> JSON:
    """The `mcp.json` with that one server."""
    return {"servers": {name: server}}


def to_text(content: JSON) -> str:
    """The text of an `mcp.json`, ready to be saved."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def examples() -> dict[str, str]:
    """The files of `vscode-config/` that are made here: name to text."""
    url = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/mcp"
    return {
        "stdio.mcp.json": to_text(document(stdio_server())),
        "http.mcp.json": to_text(document(http_server(url))),
        "http-token.mcp.json": to_text(document(http_server(url, token_variable=TOKEN_VARIABLE))),
    }


def write_examples(folder: Path) -> list[Path]:
    """Write the example files into `folder` and return their paths."""
    written: list[Path] = []
    for name, text in examples().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
