"""Programs that start a server, and download it first if it is missing. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_LAUNCHERS: Final = frozenset(
    {"bun", "bunx", "deno", "dnx", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"}
)
"""Programs that download the program that they start."""

_BEFORE: Final = frozenset({"cmd", "env", "nice", "sudo"})
"""Programs that start the program that follows their options."""

DOWNLOADING: Final = re.compile(
    r"(?i)\b(?:build|download|fetch|install|prepar|pull|resolv)(?:ed|ing|e)?\b|Unable to find image"
)
"""Words of launchers while they download. npx writes none, and complains when it is ended."""

_OF_LAUNCHERS: Final = re.compile(
    r"(?i)^(?:(?:npm|pnpm|yarn|bun) |warn(?:ing)?\b|Progress: |Packages: |[0-9a-f]{12}: |Digest: |Status: )"
)
"""Beginnings of other lines of launchers: warnings, tables of progress, layers of images."""


def program_name(command: str) -> str:
    """Return a program's name in lower case, without its folder, and without its ending on Windows."""
    return re.split(r"[/\\]", command)[-1].lower().removesuffix(".exe").removesuffix(".cmd")


def launcher_in(words: Sequence[str]) -> str:
    """Return the launcher that a line begins with, perhaps after `env NAME=VALUE` or `cmd /c`; empty if none."""
    for word in words:
        name = program_name(word)
        if name in _LAUNCHERS:
            return name
        if not (name in _BEFORE or word.startswith(("-", "/c", "/C")) or "=" in word):
            return ""
    return ""


def is_of_launcher(line: str) -> bool:
    """Return whether a line of error output comes from a launcher, and not from the server that it starts."""
    return _OF_LAUNCHERS.match(line.strip()) is not None or DOWNLOADING.search(line) is not None
