"""Servers of other hands that the official suite is run against: which there are, and how they are started.

The everything-servers of both generations of the Python SDK, and the fixture of FastMCP, are in the source
distributions of their packages, and are run from there. What npm has of the TypeScript SDK has examples, but not its
fixtures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import HERE, HOST, free_port, running
from tests.support.installed_programs import MCP1, MCP2, PythonPackages, Source
from tests.upstreams.servers import EVERYTHING_ON_PIPES, entry_of, everything_of, everything_servers

__all__ = ["FASTMCP_WITH_TASKS", "NAMES", "ForeignServer", "start_all"]

ROOT: Final = HERE.parent.parent
FASTMCP: Final = "fastmcp==4.1.2"
"""Its fixture imports the package of tasks, which has no release for FastMCP 4.2: 4.1.4 asks for 4.1.4."""
FASTMCP_WITH_TASKS: Final = PythonPackages((FASTMCP, "fastmcp-tasks==4.1.2"))
NAMES: Final = ("foreign", "mcp1", "mcp2", "fastmcp", "everything")
"""`foreign` is `foreign_fixture.py`."""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """One that runs, and how a bridge reaches it."""

    name: str
    """One of `NAMES`."""
    url: str
    """Where it speaks Streamable HTTP."""
    launch: JSON | None
    """The entry of `mcp_servers.json` that has it speak on pipes; `None` where it cannot."""
    has_fixtures: bool = True
    """Whether it has the tools that the suite asks for; without them nothing is learnt on further ways."""


@dataclass(frozen=True, slots=True)
class _Program:
    name: str
    python: str
    http: Sequence[str]
    """Arguments, followed by a port."""
    stdio: Sequence[str] | None
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def start_all(stack: ExitStack, folder: Path) -> list[ForeignServer]:
    """Start all of them, in the order of `NAMES`.

    Args:
        stack: Ends them.
        folder: Where everything goes that they print.

    Raises:
        CannotRunError: Something could not be installed, or did not start.
    """
    found: list[ForeignServer] = []
    for program in _programs():
        port = free_port()
        command = [program.python, *program.http, str(port)]
        log = folder / f"{program.name}.log"
        stack.enter_context(running(command, port, log, ROOT, env=program.env))
        launch: JSON | None = None
        if program.stdio is not None:
            launch = {"command": program.python, "args": [*program.stdio], "env": dict(program.env)}
        found.append(ForeignServer(program.name, f"http://{HOST}:{port}/mcp", launch))
    everything = entry_of(stack.enter_context(everything_servers())["everything-http"])
    return [*found, ForeignServer("everything", str(everything["url"]), None, has_fixtures=False)]


def _programs() -> list[_Program]:
    fixture = (str(HERE / "foreign_fixture.py"), "--transport")
    return [
        _Program("foreign", sys.executable, (*fixture, "http", "--port"), (*fixture, "stdio")),
        *(
            _Program(
                name,
                PythonPackages((sdk,)).install(),
                ("-m", "mcp_everything_server", "--port"),
                EVERYTHING_ON_PIPES,
                everything_of(sdk),
            )
            for name, sdk in (("mcp1", MCP1), ("mcp2", MCP2))
        ),
        _Program(
            "fastmcp",
            FASTMCP_WITH_TASKS.install(),
            (str(Source(FASTMCP).install() / "tests" / "conformance" / "server.py"),),
            None,
        ),
    ]
