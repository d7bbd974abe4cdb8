"""Runs the programs of `docs/examples` as their readers would, with an `npx` and a `uvx` that have all packages.

    reader = Reader(tmp_path, runners, server)
    server.play(script(call("mcp_time_get_current_time", timezone="UTC"), say("It is late.")))
    assert reader.run("configuration/display_names.py").printed == [..., "It is late."]

The MCP servers are the real ones, as `tests/upstreams` installs them, but for those that
`tests/servers/replacements.py` stands in for. The model is the scripted one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.installed_programs import required
from tests.support.scripted_model import ModelHandle
from tests.upstreams.servers import PYTHON, TYPESCRIPT, node, script

__all__ = ["EXAMPLES", "RUNNERS", "Ran", "Reader", "write_runners"]

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "docs" / "examples"
RUNNERS: Final = (PYTHON, *TYPESCRIPT)
"""What `write_runners` needs."""
DEADLINE: Final = 45.0
"""Seconds for one program; only a broken one needs them."""


def write_runners(folder: Path) -> Path:
    """Write the programs `npx` and `uvx`.

    Args:
        folder: Where to; it is returned.
    """
    with required("MCP servers that the examples name"):
        python, files = PYTHON.install(), script("server-filesystem")
        programs = {
            "@modelcontextprotocol/server-filesystem": [node(), files],
            "mcp-server-time": [python, "-m", "mcp_server_time", "--local-timezone", "UTC"],
            "mcp-server-fetch": [python, "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"],
        }
    other = [sys.executable, "-S", str(ROOT / "tests" / "servers" / "replacements.py")]
    cases = "\n".join(f'{name}) exec {shlex.join(command)} "$@" ;;' for name, command in programs.items())
    for name, begin in (("npx", "shift\n"), ("uvx", "")):
        program = folder / name
        lines = ["#!/bin/sh", f'{begin}package="$1"', "shift", 'case "$package" in', cases]
        lines += [f'*) exec {shlex.join(other)} "$package" "$@" ;;', "esac", ""]
        program.write_text("\n".join(lines), "utf-8")
        program.chmod(0o755)
    return folder


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a program."""

    code: int
    output: str
    errors: str

    @property
    def printed(self) -> list[str]:
        """The lines of its standard output; it succeeded, and no warning was swallowed."""
        assert self.code == 0 and "Exception ignored" not in self.errors, self.errors
        return self.output.splitlines()


class Reader:
    """Somebody who tries the examples.

    Args:
        folder: For all that the programs read and write.
        runners: Where `npx` and `uvx` are.
        model: What they think with.
    """

    def __init__(self, folder: Path, runners: Path, model: ModelHandle) -> None:
        self.home, self.here, self.files = folder / "home", folder / "here", folder / "files"
        """`~`; the current folder; and where the examples have `/tmp`."""
        for place in (self.home, self.here, self.files):
            place.mkdir()
        self.model = model
        self.environment = {
            "HOME": str(self.home),
            "TMPDIR": str(self.files),
            "PATH": f"{runners}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "GAIA_BASE_URL": model.base_url,
            "GAIA_MODEL": "scripted",
        }

    def run(self, example: str, *arguments: str, **environment: str) -> Ran:
        """Run a program to its end; warnings are errors.

        Args:
            example: Its file, below `docs/examples`.
            *arguments: Of its command line.
            **environment: More variables.
        """
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments],
            cwd=self.here,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=DEADLINE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)
