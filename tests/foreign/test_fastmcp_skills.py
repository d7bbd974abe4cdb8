"""A client of FastMCP uses skills of an agent, and of a FastMCP server, through the bridge, on pipes and over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.running import running
from tests.process.driving import url_of
from tests.support.installed_programs import WITH_FASTMCP, needs, with_fastmcp

pytestmark = pytest.mark.timeout(300)  # on a busy machine, FastMCP takes long to start

SERVERS = Path(__file__).parents[1] / "servers"
DESK = '''
from gaia_bridge import tool

@tool
def stamp(text: str) -> str:
    """Stamp a text."""
    return f"[{text}]"
'''


def write(folder: Path, description: str) -> None:
    (folder / "refunds").mkdir(parents=True)
    skill = f"---\nname: refunds\ndescription: {description}\n---\nbody\n"
    (folder / "refunds" / "SKILL.md").write_text(skill, "utf-8")
    (folder / "refunds" / "logo.png").write_bytes(b"\x89PNG\0")


@pytest.mark.thorough
@needs(WITH_FASTMCP)
def test_a_client_of_fastmcp_reads_what_the_entries_say(tmp_path: Path) -> None:
    interpreter, variables = with_fastmcp()
    write(tmp_path / "skills", "Ours")
    write(tmp_path / "shop", "Theirs")
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    shop = {"command": interpreter, "args": [str(SERVERS / "fastmcp_skills.py"), "shop"], "env": variables}
    clock = {"command": sys.executable, "args": [str(SERVERS / "clock.py")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"shop": shop, "clock": clock}}), "utf-8")
    serve = ("serve", "desk.py", "--config", "servers.json")
    told = used(interpreter, variables, tmp_path, sys.executable, "-m", "gaia_bridge", *serve, "--stdio")
    with running(*serve, "--port", "0", cwd=tmp_path) as bridge:
        assert used(interpreter, variables, tmp_path, f"{url_of(bridge)}/mcp") == told
        bridge.process.terminate()
        assert bridge.ended() == 0
    assert told == {"skill://refunds/SKILL.md": 2, "skill://shop/refunds/SKILL.md": 2}


def used(interpreter: str, variables: Mapping[str, str], folder: Path, *target: str) -> Mapping[str, int]:
    """What FastMCP's client finds: the number of files of each skill, whose digests are those of their entries."""
    done = subprocess.run(
        [interpreter, "-W", "ignore", str(SERVERS / "fastmcp_skills_client.py"), "2", *target],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["prompts"] == []  # it declares the extension
    for files in found["skills"].values():
        assert all(said == read for said, read in files.values())
    return {uri: len(files) for uri, files in found["skills"].items()}
