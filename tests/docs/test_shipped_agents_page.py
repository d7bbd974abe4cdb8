"""What the page about the agents that come with the bridge says of Python files is so."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gaia_agents.code_agent import CodeAgent
from gaia_agents.workspace import PathError
from gaia_bridge.bridge.discovery import find_agents
from tests.support.workspaces import call, write_files

PAGE = Path(__file__).parents[2] / "docs" / "shipped-agents.md"

ROW = re.compile(r"^\| (`[^|]+) \| (yes|no) \|", re.MULTILINE)

AGENT = """
class HelloAgent:
    def get_mcp_tool_definitions(self):
        return []

    def execute_mcp_tool(self, tool_name, arguments):
        return {}
"""


@pytest.mark.requirement("F-361")
def test_the_example_of_the_page_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(
        tmp_path,
        {"agents/hello_agent.py": AGENT, "agents/shop/__init__.py": "", "agents/data/list.txt": "", "src/a": ""},
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # puts everything back in the end
    [found] = find_agents(["agents/hello_agent.py"])
    assert found.agents
    said = {
        path: answer == "yes"
        for cell, answer in ROW.findall(PAGE.read_text(encoding="utf-8"))
        for path in re.findall(r"`([^`]+\.\w+)`", cell.partition(", where")[0])
    }
    agent = CodeAgent(tmp_path)
    written: dict[str, bool] = {}
    for path in said:
        try:
            call(agent, "create-file", path=path, content="", overwrite=True)
            written[path] = True
        except PathError as error:
            assert "is where this bridge imports Python code from" in str(error)
            written[path] = False
    assert len(said) == 9
    assert written == said
