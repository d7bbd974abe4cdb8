"""Editors in the terminal, from npm, that show their MCP servers without an account.

They are installed on first use, and kept (700 MB).
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final, NamedTuple

from tests.conformance.runner import CannotRunError
from tests.support.installed_programs import CACHE, place_for

__all__ = ["COLUMNS", "EDITORS", "ROWS", "TerminalEditor", "home_of", "installed", "shown", "words_of"]

COLUMNS: Final = 160
ROWS: Final = 50
"""How large the terminal is: no line of theirs is as long."""

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
    TerminalEditor("claude-code", "@anthropic-ai/claude-code@2.1.332", ("claude", "mcp", "list"), "✔ Connected"),
    TerminalEditor(
        "gemini-cli", "@google/gemini-cli@0.61.0", ("gemini", "mcp", "list"), "Connected",
        {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    TerminalEditor("opencode", "opencode-ai@1.18.33", ("opencode", "mcp", "list"), "connected"),
    TerminalEditor("codex", "@openai/codex@0.171.0", ("codex", "mcp", "get", "gaia-bridge"), "enabled: true"),
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


def shown(
    command: Sequence[str],
    folder: Path,
    environ: dict[str, str],
    meanwhile: Mapping[str, Callable[[], object]] | None = None,
) -> bytes:
    """Run a command in a terminal; returns what it wrote there.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        environ: Its whole environment.
        meanwhile: What is done as soon as it has written a text, one after the other; then it is ended. Without it, it
            ends by itself.
    """
    ours, theirs = pty.openpty()
    try:
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environ
        )
    finally:
        os.close(theirs)
    try:
        written = b""
        for text, action in (meanwhile or {}).items():
            while text.encode() not in written:
                part = _read(ours)
                assert part, f"it ended without {text!r}: {written.decode()}"
                written += part
            action()
        if meanwhile:
            process.terminate()
            return written
        while part := _read(ours):
            written += part
        return written
    finally:
        os.close(ours)
        process.wait(_SECONDS)


def words_of(written: bytes) -> str:
    """What was written to a terminal, without the sequences that move and colour it, and with one blank for many.

    Args:
        written: What it was.
    """
    return " ".join(re.sub(r"\x1b\[[\d;?<>]*[A-Za-z]", " ", written.decode()).split())


def _read(terminal: int) -> bytes:
    if not select.select([terminal], [], [], _SECONDS)[0]:
        raise TimeoutError("a command in a terminal says nothing, and does not end")
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux, when the last program has closed its end
        return b""


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
