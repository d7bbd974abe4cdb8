"""The official tool for the bundles of Claude Desktop takes ours, and fills in what it has asked for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gaia_bridge_desk.bundles import mcpb_bytes, mcpb_files
from tests.conformance.runner import node_binary
from tests.foreign.test_foreign_clients import TYPESCRIPT
from tests.support.bundled import ABOUT, contents
from tests.support.installed_programs import needs, required

pytestmark = pytest.mark.timeout(600)  # many programs start, on a machine that may be busy

SECONDS = 60

FILL_IN = """
import { readFileSync } from "node:fs";
const [module, folder, said] = process.argv.slice(1);
const { getMcpConfigForManifest } = await import(module);
const manifest = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf-8"));
const options = { manifest, extensionPath: folder, systemDirs: {}, userConfig: JSON.parse(said), pathSeparator: "/" };
console.log(JSON.stringify((await getMcpConfigForManifest(options)) ?? null));
"""
"""What Claude Desktop makes of a manifest and of what its user has said."""


@pytest.fixture(scope="module")
@needs(*TYPESCRIPT)
def tool() -> tuple[str, Path]:
    """The node, and the package."""
    with required("the tool for MCPB bundles"):
        suite, ours = (packages.install() for packages in TYPESCRIPT)
        return node_binary(suite.parent), ours / "@anthropic-ai" / "mcpb" / "dist"


def test_the_official_tool_takes_a_bundle_and_fills_in_what_was_asked(tool: tuple[str, Path], tmp_path: Path) -> None:
    node, package = tool

    def run(*words: str) -> str:
        done = subprocess.run([node, *words], capture_output=True, encoding="utf-8", timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cli, bundle, unpacked = str(package / "cli" / "cli.js"), tmp_path / "hello.mcpb", tmp_path / "unpacked"
    (tmp_path / "source").mkdir()
    files = mcpb_files(ABOUT, contents(tmp_path / "source"))
    bundle.write_bytes(mcpb_bytes(files))
    assert "hello.mcpb" in run(cli, "info", str(bundle))
    run(cli, "unpack", str(bundle), str(unpacked))
    assert {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()} == set(files)
    assert "validation passes" in run(cli, "validate", str(unpacked))

    def filled_in(**said: str) -> object:
        module = str(package / "index.js")
        return json.loads(run("--input-type=module", "-e", FILL_IN, module, str(unpacked), json.dumps(said)))

    assert filled_in() is None  # it has to be said
    assert filled_in(GITHUB_TOKEN="x") == {
        "command": "uv",
        "args": ["run", "--directory", str(unpacked), "server.py"],
        "env": {"GITHUB_TOKEN": "x"},
    }
