"""Clients of other hands, on the real command: every one of them is told the same.

`tests/support/installed_programs.py` installs them. Where they cannot be had the tests are skipped, unless `CI` is set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

import pytest

from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import node_binary, serving
from tests.foreign.smoke_agent import ANSWERS
from tests.support.installed_programs import MCP1, NodePackages, PythonPackages, needs, required

pytestmark = pytest.mark.timeout(600)  # many programs start, on a machine that may be busy

Play = Callable[[str, str, Sequence[str]], JSON]
"""Plays one round over a transport, in a mode, with a target; returns what the client was told."""

HERE = Path(__file__).resolve().parent
TYPESCRIPT = (NodePackages(HERE.parent / "conformance"), NodePackages(HERE))
"""The Inspector, and a node for all of them; the SDK of both generations."""
PYTHON = PythonPackages((MCP1,))
AGENT = HERE / "smoke_agent.py"

ROUND_SECONDS = 120

TRANSPORTS = ("stdio", "sse", "http")
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""What a client that is left to its defaults, and one that may probe, agrees on with the bridge."""
ROUNDS = [
    *product(["python"], TRANSPORTS, ["legacy"]),
    *product(["typescript1"], TRANSPORTS, ["legacy"]),
    *product(["typescript2"], TRANSPORTS, ["legacy", "auto"]),
]
QUICK = [("python", "stdio", "legacy"), ("typescript1", "http", "legacy"), ("typescript2", "stdio", "auto")]
"""One round of each client; the others are thorough tests."""
INSPECTIONS: dict[str, Sequence[str]] = {
    "tools": ["tools/list"],
    "prompts": ["prompts/list"],
    "resources": ["resources/list"],
    "called": [
        "tools/call",
        "--tool-name",
        "add-lengths",
        "--tool-args-json",
        json.dumps({"unit": "m", "lengths": [{"value": 1.5}, {"value": 2}]}),
    ],
}
"""What the Inspector is asked for each part of its round: one process each."""


@pytest.fixture(scope="session")
@needs(*TYPESCRIPT[:1])
def node() -> str:
    with required("the Inspector, and a node for all TypeScript clients"):
        return node_binary(TYPESCRIPT[0].install().parent)


@pytest.fixture(scope="session")
def typescript(node: str) -> list[str]:
    with required("the TypeScript SDK of both generations"):
        TYPESCRIPT[1].install()
    return [node, str(HERE / "typescript_client.mjs")]


@pytest.fixture(scope="session")
def typescript1(typescript: list[str]) -> Play:
    return lambda transport, mode, target: _told([*typescript, "sdk", transport, mode, *target])


@pytest.fixture(scope="session")
def typescript2(typescript: list[str]) -> Play:
    return lambda transport, mode, target: _told([*typescript, "client", transport, mode, *target])


@pytest.fixture(scope="session")
def python() -> Play:
    with required(f"the Python SDK {MCP1}"):
        interpreter = PYTHON.install()
    return lambda transport, mode, target: _told([interpreter, str(HERE / "python_client.py"), transport, *target])


@pytest.fixture(scope="session")
def inspector(node: str) -> Play:
    return lambda transport, mode, target: _inspected(node, transport, mode, target)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with serving(str(AGENT), tmp_path_factory.mktemp("server") / "server.log") as served:
        yield served


@pytest.mark.parametrize(
    ("client", "transport", "mode"),
    [pytest.param(*each, marks=() if each in QUICK else pytest.mark.thorough) for each in ROUNDS],
)
@pytest.mark.requirement("P-2", "P-9", "P-12")
@needs(PYTHON, *TYPESCRIPT)
def test_every_client_is_told_the_same(
    client: str, transport: str, mode: str, url: str, request: pytest.FixtureRequest
) -> None:
    play: Play = request.getfixturevalue(client)

    assert play(transport, mode, target(transport, url)) == ANSWERS | {"version": VERSIONS[mode]}


@pytest.mark.parametrize(
    ("transport", "era"),
    [
        ("http", "modern"),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in [
                ("stdio", "legacy"),
                ("stdio", "modern"),
                ("http", "legacy"),
                ("sse", "legacy"),
                ("sse", "modern"),
            ]
        ),
    ],
)
@pytest.mark.requirement("P-9", "P-12")
def test_the_inspector_is_told_the_same(transport: str, era: str, url: str, inspector: Play) -> None:
    assert inspector(transport, era, target(transport, url)) == {part: ANSWERS[part] for part in INSPECTIONS}


def target(transport: str, url: str) -> list[str]:
    """What a client connects to, or starts."""
    match transport:
        case "stdio":
            return [sys.executable, "-m", "gaia_bridge", "serve", str(AGENT), "--stdio"]
        case "sse":
            return [urljoin(url, "/sse")]
        case _:
            return [url]


def _told(command: Sequence[str]) -> JSON:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=ROUND_SECONDS, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    document: JSON = json.loads(done.stdout)
    return document


def inspections(node: str, transport: str, era: str, server: Sequence[str]) -> list[list[str]]:
    """The commands of the Inspector's round."""
    script = TYPESCRIPT[0].folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    command = [node, str(script), "--cli", "--transport", transport, "--protocol-era", era, "--format", "json", "-q"]
    return [[*command, "--method", *method, "--", *server] for method in INSPECTIONS.values()]


def _inspected(node: str, transport: str, era: str, server: Sequence[str]) -> JSON:
    asks = inspections(node, transport, era, server)
    with ThreadPoolExecutor(len(asks)) as pool:
        told = dict(zip(INSPECTIONS, (document["result"] for document in pool.map(_told, asks)), strict=True))
    called = told.pop("called")
    told = {part: result[part] for part, result in told.items()}
    told["called"] = {
        "structured": called["structuredContent"],
        "text": json.loads(called["content"][0]["text"]),
        "failed": called.get("isError", False),
    }
    return told
