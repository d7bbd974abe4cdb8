"""The agent of the page for users of GAIA runs here, and everything that the page names is there."""

from __future__ import annotations

import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from gaia.cli import main as gaia
from gaia_bridge_cli import main
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "coming-from-gaia.md"
AGENT, COMMAND, ANSWER = (block.text for block in blocks(PAGE))


@pytest.mark.parametrize("program", ["gaia-bridge", "gaia mcp"])
def test_the_agent_of_the_page_answers_what_the_page_says(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("travel_agent.py").write_text(AGENT, "utf-8")
    words = shlex.split(COMMAND)[1:]
    assert (main(words) if program == "gaia-bridge" else gaia(["mcp", *words])) == 0
    assert json.loads(capfd.readouterr().out) == json.loads(ANSWER)


def test_every_class_and_method_that_the_page_names_is_there() -> None:
    text = PAGE.read_text("utf-8")
    [classes] = re.findall(r"^\| (`MCPClientMixin`.*?) \|", text, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", classes):
        assert hasattr(import_module("gaia.mcp"), name), name
    [methods] = re.findall(r"^\| (`process_query`.*?) \|", text, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", methods):
        assert hasattr(import_module("gaia.agents.base").Agent, name), name
