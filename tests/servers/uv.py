"""Stands in for `uv` and `uvx`, which fetch the bridge from PyPI: starts this one, in no time, with the same words."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

DISTRIBUTION = re.compile(r"gaia-mcp-bridge(\[[a-z,]+\])?>=([0-9.]+),<([0-9.]+)")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check(requirement: str) -> None:
    """End unless a requirement is for a bridge like this one."""
    from gaia_bridge.version import __version__

    found = DISTRIBUTION.fullmatch(requirement)
    if found is None or not numbers(found[2]) <= numbers(__version__) < numbers(found[3]):
        sys.exit(f"{requirement!r} is not for gaia-mcp-bridge {__version__}")


program, *words = sys.argv[1:]
if program == "uvx" and re.fullmatch(r"[a-z-]+==[0-9.]+", words[0]):  # a package whose program is the bridge
    os.execv(sys.executable, [sys.executable, "-m", "gaia_bridge", *words[1:]])
if program == "uvx":
    assert words[0] == "--from"
    check(words[1])
    place = words.index("gaia-bridge")
    assert all(option == "--with" for option in words[2:place:2])
    os.execv(sys.executable, [sys.executable, "-m", "gaia_bridge", *words[place + 1 :]])
assert (words[0], words[1], words[3:]) == ("run", "--directory", ["server.py"])
os.chdir(words[2])
for requirement in re.findall(
    r'^  "(gaia-mcp-bridge[^"]*)",$', Path("pyproject.toml").read_text("utf-8"), re.MULTILINE
):
    check(requirement)
os.execv(sys.executable, [sys.executable, "server.py"])
