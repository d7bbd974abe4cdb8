"""Editors in the terminal, from npm, that show their MCP servers without an account. They are installed on first use, and kept."""

from __future__ import annotations

import os
import pty
import shutil
import struct
import subprocess
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final, NamedTuple

from tests.conformance.runner import CannotRunError
from tests.support.installed_programs import CACHE, place_for

__all__ = ["EDITORS", "TerminalEditor", "home_of", "installed", "shown"]

_INSTALL_SECONDS: Final = 600
_SECONDS: Final = 60
_PLACE: Final = CACHE / "terminal-editors"


class TerminalEditor(NamedTuple):
    """One of them."""

    name: str
    """As `gaia-bridge install` knows it."""
    package: str
    command: tuple[str, ...]
    """What shows its servers."""
    says: str
    """What it then says of one that it can use."""
    variables: dict[str, str] = {}
    """What it needs besides: the folder is one that the user trusts."""


EDITORS: Final = (
    TerminalEditor("claude-code", "@anthropic-ai/claude-code@2.1.197", ("claude", "mcp", "list"), "✔ Connected"),
    TerminalEditor(
        "gemini-cli", "@google/gemini-cli@0.61.0", ("gemini", "mcp", "list"), "Connected",
        {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    TerminalEditor("opencode", "opencode-ai@1.18.33", ("opencode", "mcp", "list"), "connected"),
    TerminalEditor("codex", "@openai/codex@0.169.0", ("codex", "mcp", "get", "gaia-bridge"), "enabled: true"),
    TerminalEditor(
        "copilot-cli", "@github/copilot@1.0.102", ("copilot", "mcp", "get", "gaia-bridge"), "Status: Enabled"
    ),
)  # fmt: skip
"""Those that start the server to see whether it works say that it is connected; Codex and Copilot CLI do so when a
conversation begins, which takes an account."""


def installed() -> Path:
    """The folder of their programs.

    Raises:
        CannotRunError: They cannot be installed.
    """
    wanted = " ".join(editor.package for editor in EDITORS)
    stamp = _PLACE / "installed"
    with place_for(_PLACE, _INSTALL_SECONDS):
        if not stamp.exists() or stamp.read_text("utf-8") != wanted:
            shutil.rmtree(_PLACE, ignore_errors=True)
            _PLACE.mkdir(parents=True)
            (_PLACE / "package.json").write_text('{"private": true}', encoding="utf-8")
            _install(wanted.split())
            stamp.write_text(wanted, encoding="utf-8")
    return _PLACE / "node_modules" / ".bin"


def home_of(name: str) -> Path:
    """An empty home folder; one of them refuses those among temporary files.

    Args:
        name: Whose.
    """
    home = CACHE / "homes" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return home


def shown(command: list[str], folder: Path, environ: dict[str, str], columns: int = 160, rows: int = 50) -> bytes:
    """Run a command in a terminal; returns what it wrote there.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        environ: Its whole environment.
        columns: How wide the terminal is.
        rows: How high it is.
    """
    ours, theirs = pty.openpty()
    try:
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environ
        ) as process:
            os.close(theirs)
            theirs = -1
            written = _until_closed(ours)
            process.wait(_SECONDS)
        return written
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


def _until_closed(terminal: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # Linux, when the last program has closed its end
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _install(packages: list[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotRunError("npm is not on PATH; install Node.js")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", *packages],
        cwd=_PLACE,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise CannotRunError(f"npm could not install {' '.join(packages)}:\n{done.stderr[-2000:]}")
