"""What `docs/openapi.md` shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gaia_bridge.config import parse_entry
from gaia_bridge.model import OpenApiServerSpec
from gaia_bridge_cli.program import program

PAGE = Path(__file__).parents[2] / "docs" / "openapi.md"


def block(kind: str) -> str:
    [found] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python")], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == (block("text"), 0), done.stderr


def test_the_entries_can_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    servers = json.loads(block("json"))["mcpServers"]
    servers["stock"]["headers"]["X-Api-Key"] = "${env:KEY}"  # no keyring here
    specs = [parse_entry(name, entry, tmp_path, {"SHOP_TOKEN": "t", "KEY": "k"}) for name, entry in servers.items()]
    assert all(isinstance(parsed.spec, OpenApiServerSpec) and not parsed.warnings for parsed in specs)


def test_the_commands_exist() -> None:
    commands = {line.split()[1] for line in block("sh").splitlines()}
    assert commands == {"add", "tools", "call"}
    options = {name for option in program.commands["add"].params for name in option.opts}
    assert {"--openapi", "--header"} <= options
