"""The MCP servers of other hands, ready to be connected to: which there are, how they are started, and who has them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.conformance import runner
from tests.support.installed_programs import (
    FASTMCP,
    MCP1,
    MCP2,
    NodePackages,
    PythonPackages,
    Source,
    required,
)
from tests.support.waiting import comes_true

__all__ = [
    "ALL",
    "EVERYTHING",
    "EVERYTHING_ON_PIPES",
    "FURTHER",
    "PYTHON",
    "PYTHON1",
    "SERVERS",
    "SMALL",
    "TYPESCRIPT",
    "Fixtures",
    "entry_of",
    "everything_of",
    "everything_servers",
    "node",
    "script",
    "started",
]

HERE: Final = Path(__file__).resolve().parent

PYTHON: Final = PythonPackages(
    ("mcp-server-fetch>=2026.10,<2027", "mcp-server-git>=2026.10,<2027", "mcp-server-time>=2026.10,<2027", FASTMCP)
)
"""They agree on version 2 of the Python SDK, and so share an environment."""
PYTHON1: Final = PythonPackages((MCP1,))
TYPESCRIPT: Final = (NodePackages(runner.HERE), NodePackages(HERE))
"""A node, and the servers that it runs."""
NATIVE: Final = PythonPackages(("mcp-grafana==2.1.1", "logseq-mcp-server==2.1.0"))
"""A program written in Go, and one in Rust: each with the official SDK of its language, and in a wheel."""
ALL: Final = (PYTHON, PYTHON1, NATIVE, *TYPESCRIPT, Source(MCP1), Source(MCP2))
"""What `started` needs."""

SMALL: Final = {
    "mcp1": "mcp.server.fastmcp:FastMCP",
    "mcp2": "mcp.server.mcpserver:MCPServer",
    "fastmcp": "fastmcp:FastMCP",
}
"""What `small_server.py` is written with."""
EVERYTHING: Final = ("everything", "everything-sse", "everything-http")
"""One server, over each transport."""
SERVERS: Final = ("time", "fetch", "git", "filesystem", "memory", *EVERYTHING, *SMALL)
FURTHER: Final = ("thinking", "everything-2025", "mcp1-everything", "mcp2-everything", "grafana", "logseq")
"""Those of which only answers are compared: two of npm, what both generations of the Python SDK are tested with, and
`NATIVE`."""
EVERYTHING_ON_PIPES: Final = ("-c", "from mcp_everything_server.server import mcp; mcp.run('stdio')")
"""Its own command line knows HTTP alone."""
HOST: Final = "127.0.0.1"
NOWHERE: Final = f"http://{HOST}:9"
"""Where nobody listens."""
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Fixtures:
    """All servers, and what they work on."""

    specs: Mapping[str, ServerSpec]
    """By the names in `SERVERS` and `FURTHER`."""
    folder: Path
    """A git repository with the file `README.md` committed and `new.txt` not; the filesystem server has it too."""


@contextmanager
def started(place: Path) -> Generator[Fixtures]:
    """All servers, installed; those that speak HTTP run until the end.

    Args:
        place: An empty folder.
    """
    with required("MCP servers written in Python, Go and Rust"):
        python, python1, native = PYTHON.install(), PYTHON1.install(), NATIVE.install()
    folder = _repository(place / "project")
    with everything_servers() as everything:
        program = node()
        memory = {"MEMORY_FILE_PATH": str(place / "memory.jsonl")}
        specs: list[ServerSpec] = [
            StdioServerSpec("time", python, ("-m", "mcp_server_time", "--local-timezone", "UTC")),
            StdioServerSpec("fetch", python, ("-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips")),
            StdioServerSpec("git", python, ("-m", "mcp_server_git", "--repository", str(folder))),
            StdioServerSpec("filesystem", program, (script("server-filesystem"), str(folder))),
            StdioServerSpec("memory", program, (script("server-memory"),), memory),
            StdioServerSpec("thinking", program, (script("server-sequential-thinking"),)),
            StdioServerSpec("everything-2025", program, (_script("server-everything-2025"), "stdio")),
            *everything.values(),
            *(
                StdioServerSpec(f"{name}-everything", interpreter, EVERYTHING_ON_PIPES, everything_of(sdk))
                for name, interpreter, sdk in (("mcp1", python1, MCP1), ("mcp2", python, MCP2))
            ),
            *(
                StdioServerSpec(name, python1 if name == "mcp1" else python, (str(HERE / "small_server.py"), framework))
                for name, framework in SMALL.items()
            ),
        ]
        yield Fixtures({spec.name: spec for spec in [*specs, *_native(native, place)]}, folder)


def _native(python: str, place: Path) -> list[ServerSpec]:
    """The servers of `NATIVE`. Nobody listens where what they are about would be, so each says that it fails."""
    config = place / "logseq.json"
    config.write_text(json.dumps({"apiUrl": NOWHERE, "authToken": "none"}), "utf-8")
    return [
        StdioServerSpec("grafana", python, ("-m", "mcp_grafana"), {"GRAFANA_URL": NOWHERE, "DO_NOT_TRACK": "1"}),
        StdioServerSpec(
            "logseq", str(Path(python).with_name("logseq-mcp-server")), (), {"LOGSEQ_MCP_CONFIG": str(config)}
        ),
    ]


@contextmanager
def everything_servers() -> Generator[Mapping[str, ServerSpec]]:
    """Those in `EVERYTHING`, by their names; those that speak HTTP run until the end."""
    with required("MCP servers written in TypeScript"):
        command = [node(), script("server-everything")]
    with _listening([*command, "sse"]) as sse, _listening([*command, "streamableHttp"]) as http:
        specs: list[ServerSpec] = [
            StdioServerSpec("everything", command[0], (command[1], "stdio")),
            HttpServerSpec("everything-sse", f"{sse}/sse", sse=True),
            HttpServerSpec("everything-http", f"{http}/mcp"),
        ]
        yield {spec.name: spec for spec in specs}


def node() -> str:
    """The program that runs servers written in TypeScript."""
    TYPESCRIPT[0].install()
    return runner.node_binary(runner.HERE)


def script(package: str) -> str:
    """The file to run for one of the official packages that are pinned here."""
    return _script(f"@modelcontextprotocol/{package}")


def _script(package: str) -> str:
    return str(TYPESCRIPT[1].install() / package / "dist" / "index.js")


def everything_of(sdk: str) -> dict[str, str]:
    """The variables with which Python finds `mcp_everything_server` of a generation of the SDK, of `installing`.

    It shows sets in its errors; their order is to be the same each time.
    """
    return {
        "PYTHONPATH": str(Source(sdk).install() / "examples" / "servers" / "everything-server"),
        "PYTHONHASHSEED": "0",
    }


def entry_of(spec: ServerSpec) -> JSON:
    """The entry of `mcp_servers.json` for a server."""
    if isinstance(spec, HttpServerSpec):
        return {"url": spec.url, "type": "sse" if spec.sse else "http"}
    assert isinstance(spec, StdioServerSpec)
    return {"command": spec.command, "args": list(spec.args), "env": dict(spec.env)}


def _repository(folder: Path) -> Path:
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None, "git is needed"
    (folder / "README.md").write_text("# Milk\n", "utf-8")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "Begin"]):
        subprocess.run([git, *command], cwd=folder, check=True)
    (folder / "new.txt").write_text("new\n", "utf-8")
    return folder


@contextmanager
def _listening(command: list[str]) -> Generator[str]:
    """Run a server that listens on the port in its environment; its URL."""
    port = runner.free_port()
    process = subprocess.Popen(
        command,
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        listens = comes_true(lambda: _accepts(port) or process.poll() is not None)(START_SECONDS)
        assert listens and process.poll() is None, f"{command} does not listen on {port}"
        yield f"http://{HOST}:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
