"""Something to make bundles of: an agent with a module beside it, its skill, and a server that wants a token."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gaia_bridge_desk.bundles import Contents, Metadata, gathered

__all__ = ["ABOUT", "ENTRIES", "SECRET", "contents", "document", "stand_ins", "write_project"]

TESTS: Final = Path(__file__).parents[1]

AGENT: Final = '''
from gaia.agents.base import MCPAgent, tool

import greetings


class HelloAgent(MCPAgent):
    @tool
    def greet(self, name: str) -> str:
        """Greet somebody by name."""
        return greetings.greeting(name)
'''
SKILL: Final = (
    "---\nname: greet\ndescription: Greets people as they like it.\n---\n\n# Greet\n\nAsk for the name first.\n"
)

SECRET: Final = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
ENTRIES: Final[dict[str, Any]] = {
    "files": {"command": "/usr/local/bin/npx", "args": ["-y", "@modelcontextprotocol/server-filesystem"]},
    "github": {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-github"],
        "env": {"GITHUB_TOKEN": SECRET},
        "timeout": 20,
    },
}
"""Servers, as somebody has configured them on one machine."""

ABOUT: Final = Metadata(
    "hello",
    "1.2.0",
    "Greets people, and looks into their files.",
    author="Ada",
    email="ada@example.com",
    license="MIT",
    homepage="https://example.com/hello",
    repository="https://github.com/ada/hello",
    keywords=("greeting",),
)


def write_project(folder: Path) -> Path:
    """Write the agent, and what lies beside it; returns its file."""
    (folder / "skills" / "greet" / "references").mkdir(parents=True)
    (folder / "skills" / "greet" / "SKILL.md").write_text(SKILL, "utf-8")
    (folder / "skills" / "greet" / "references" / "names.md").write_text("Bob\n", "utf-8")
    (folder / "greetings.py").write_text('def greeting(name: str) -> str:\n    return f"Hello, {name}!"\n', "utf-8")
    (folder / "unrelated.py").write_text("", "utf-8")
    agent = folder / "hello_agent.py"
    agent.write_text(AGENT, "utf-8")
    return agent


def contents(folder: Path, entries: dict[str, Any] | None = None, variables: Sequence[str] = ()) -> Contents:
    """What is in a bundle of all that."""
    agent = write_project(folder)
    return gathered(
        [agent.name], folder, ENTRIES if entries is None else entries, folder / "servers.json", (), variables
    )


def stand_ins(folder: Path) -> None:
    """Put programs into a folder that stand in for `uv`, `uvx` and `npx`, which fetch packages."""
    for name, script, words in (("uv", "uv", "uv"), ("uvx", "uv", "uvx"), ("npx", "npx", "")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TESTS}/servers/{script}.py" {words} "$@"\n', "utf-8")
        program.chmod(0o755)


def document(content: bytes) -> Any:
    """The JSON that a file holds."""
    return json.loads(content)
