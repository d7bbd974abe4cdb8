"""`gaia-bridge agents` tells the truth about what `serve` would do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_cli import main
from gaia_bridge_cli.exit_codes import ExitCode
from tests.cli.running import run, write_agent

RICH = """
class RichAgent:
    def get_mcp_server_info(self):
        return {"name": "Rich", "version": "3.1", "title": "A rich agent", "instructions": "Be brief."}
    def get_mcp_tool_definitions(self):
        return [{"name": "count", "description": "Count\\nthings", "inputSchema": {"type": "object"}}]
    def execute_mcp_tool(self, tool_name, arguments): ...
    def get_mcp_prompts(self):
        return [{"name": "review", "description": "Review it"}]
    def get_mcp_resources(self):
        return [{"uri": "rich://one", "name": "One"}]
    def read_mcp_resource(self, uri): ...
    def get_mcp_resource_templates(self):
        return [{"uriTemplate": "rich://{name}", "name": "Any"}]
"""


@pytest.fixture(autouse=True)
def fresh_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts in an empty folder, imports as a new process would, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    modules, path = dict(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - set(modules):
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    sys.path[:] = path


def agents_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert main(["agents", "--json", *arguments]) == code
    content = json.loads(capsys.readouterr().out)
    assert list(content) == ["agents"]
    found: list[dict[str, Any]] = content["agents"]
    return found


def test_an_agent_is_shown_with_all_it_offers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rich_agent.py").write_text(RICH, encoding="utf-8")
    assert agents_of(capsys, "rich_agent.py") == [
        {
            "name": "rich",
            "reference": "rich_agent.py:RichAgent",
            "server": {"name": "Rich", "version": "3.1", "title": "A rich agent", "instructions": "Be brief."},
            "model": None,
            "tools": [{"name": "count", "description": "Count\nthings"}],
            "prompts": [{"name": "review", "description": "Review it"}],
            "resources": [{"uri": "rich://one", "name": "One"}],
            "resourceTemplates": [{"uriTemplate": "rich://{name}", "name": "Any"}],
            "leftOut": [],
        }
    ]


def test_an_agent_that_is_a_chat_model_is_shown_with_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = 'def get_model_id(self):\n        return "gaia-chat"\n    def get_model_info(self):\n        return {}'
    (tmp_path / "chat_agent.py").write_text(f"class ChatAgent:\n    {models}\n", encoding="utf-8")
    [agent] = agents_of(capsys, "chat_agent.py")
    assert (agent["name"], agent["model"], agent["tools"]) == ("chat", "gaia-chat", [])
    assert main(["agents", "chat_agent.py"]) == 0
    assert "  model     gaia-chat\n" in capsys.readouterr().out


def test_what_is_left_out_is_named_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_agent(tmp_path)
    (agent,) = agents_of(capsys, "demo.py")
    assert [tool["name"] for tool in agent["tools"]] == ["hello", "hang"]
    (left_out,) = agent["leftOut"]
    assert (left_out["kind"], left_out["name"]) == ("tool", "broken")
    assert "object" in left_out["reason"]


def test_a_reference_that_fails_is_an_entry_and_the_others_are_still_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_agent(tmp_path)
    missing, demo = agents_of(capsys, "missing.py", "demo.py", code=66)
    assert missing == {
        "name": None,
        "reference": "missing.py",
        "server": None,
        "model": None,
        "tools": [],
        "prompts": [],
        "resources": [],
        "resourceTemplates": [],
        "leftOut": [],
        "error": "agent 'missing.py': there is no file missing.py",
    }
    assert demo["name"] == "demo"
    assert "error" not in demo


def test_people_read_one_line_for_each_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rich_agent.py").write_text(RICH, encoding="utf-8")
    write_agent(tmp_path)
    assert main(["agents", "rich_agent.py", "demo.py", "missing.py"]) == 66
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "rich  Rich 3.1, from rich_agent.py:RichAgent",
        "  tool      count  Count things",
        "  prompt    review  Review it",
        "  resource  rich://one",
        "  template  rich://{name}",
    ]
    assert any(line.startswith("  left out  tool broken: ") for line in lines)
    assert lines[-1] == "failed  agent 'missing.py': there is no file missing.py"


RAISING = """
class RaisingAgent:
    def get_mcp_tool_definitions(self):
        raise KeyError("tools")
    def execute_mcp_tool(self, tool_name, arguments): ...
"""


def test_a_list_method_that_raises_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raising.py").write_text(RAISING, encoding="utf-8")
    assert main(["agents", "raising.py"]) == 0
    captured = capsys.readouterr()
    assert "left out  tool all of get_mcp_tool_definitions(): " in captured.out
    assert "failed with KeyError" in captured.out
    assert captured.err == ""


def test_the_traceback_of_a_list_method_is_in_the_log_under_its_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raising.py").write_text(RAISING, encoding="utf-8")
    assert main(["agents", "raising.py", "--log-level", "error"]) == 0
    captured = capsys.readouterr()
    told = re.search(r"reference ([0-9a-f]{8})$", captured.out, re.MULTILINE)
    assert told is not None
    assert f"get_mcp_tool_definitions failed, reference {told[1]}\n    Traceback" in captured.err


@pytest.mark.parametrize("arguments", [["agents"], ["agents", "demo.py"], ["serve", "--port", "0"]])
def test_a_current_folder_that_is_gone_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(arguments) == ExitCode.CONFIG
    expected = "gaia-bridge: error: current folder: No such file or directory (change to a folder that exists)\n"
    assert capsys.readouterr().err.endswith(expected)


@pytest.mark.requirement("F-108")
def test_an_agent_that_prints_does_not_spoil_the_json(tmp_path: Path) -> None:
    noise = "import os\nprint('printed')\nos.write(1, b'written')\nos.system('echo by a child')\n"
    write_agent(tmp_path, before=noise)
    result = run("agents", "--json", "demo.py", cwd=tmp_path)
    assert json.loads(result.stdout)["agents"][0]["name"] == "demo"
    assert {"printed", "written", "by a child"} <= set(result.stderr.replace("written", "written\n").split("\n"))


def test_without_a_reference_the_shipped_agents_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, project = agents_of(capsys)
    assert (code["name"], project["name"]) == ("code", "project")
    assert {tool["name"] for tool in code["tools"]} >= {"search-code", "read-file", "create-file", "analyze-code"}
    assert (code["leftOut"], project["leftOut"]) == ([], [])
