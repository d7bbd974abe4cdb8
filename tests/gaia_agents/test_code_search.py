"""`CodeAgent` searches; every result fits the schema that the tool declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaia_agents import CodeAgent, code_operations, listing
from gaia_bridge.errors import RequestCancelledError, ToolError
from gaia_bridge.text.json_types import JSON
from tests.support.workspaces import DEMO, RecordingChannel, call, in_request, write_files


@pytest.fixture
def agent(tmp_path: Path) -> CodeAgent:
    root = tmp_path / "demo"
    write_files(root, DEMO)
    return CodeAgent(root)


def found(result: JSON) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


def test_a_search_names_path_line_column_and_text(agent: CodeAgent) -> None:
    result = call(agent, "search-code", pattern=r"def (\w+)\(")
    assert result["matches"] == [
        {"path": "src/app.py", "line": 4, "column": 1, "text": "def run(path):"},
        {"path": "tests/test_app.py", "line": 1, "column": 1, "text": "def test_run():"},
    ]
    assert (result["match_count"], result["truncated"], result["truncated_by"]) == (2, False, None)


def test_ignored_and_binary_files_are_not_searched(agent: CodeAgent) -> None:
    result = call(agent, "search-code", pattern="run")
    assert {path for path, _ in found(result)} == {"src/app.py", "src/web/app.ts", "tests/test_app.py"}
    assert (result["files_searched"], result["files_skipped"]) == (6, 1)


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"path": "src"}, ["src/app.py", "src/web/app.ts"]),
        ({"path": "src/app.py"}, ["src/app.py"]),
        ({"glob": "*.py"}, ["src/app.py", "tests/test_app.py"]),
        ({"glob": "src/**/*.ts"}, ["src/web/app.ts"]),
        ({"glob": "!tests/"}, ["src/app.py", "src/web/app.ts"]),
        ({"file_type": "ts"}, ["src/web/app.ts"]),
        ({"file_type": "py", "path": "tests"}, ["tests/test_app.py"]),
    ],
)
def test_a_search_can_be_narrowed(agent: CodeAgent, arguments: JSON, paths: list[str]) -> None:
    result = call(agent, "search-code", pattern="run", **arguments)
    assert list(dict.fromkeys(path for path, _ in found(result))) == paths


def test_plain_text_case_and_context(agent: CodeAgent) -> None:
    assert found(call(agent, "search-code", pattern="join(path", literal=True)) == [("src/app.py", 6)]
    assert found(call(agent, "search-code", pattern="todo")) == []
    assert found(call(agent, "search-code", pattern="todo", ignore_case=True)) == [("README.md", 3)]
    (match,) = call(agent, "search-code", pattern="def run", context_lines=2)["matches"]
    assert (match["before"], match["after"]) == (["", ""], ['    """Run."""', '    return os.path.join(path, "run")'])


def test_of_a_huge_line_the_part_around_the_match_is_shown(agent: CodeAgent) -> None:
    (match,) = call(agent, "search-code", pattern="needle")["matches"]
    assert match["column"] == 5_001
    assert "needle" in match["text"]
    assert len(match["text"]) < 500


def test_a_search_stops_at_the_number_of_results_and_says_so(agent: CodeAgent) -> None:
    result = call(agent, "search-code", pattern="run", max_results=2)
    assert (result["match_count"], result["truncated"], result["truncated_by"]) == (2, True, "max_results")
    exact = call(agent, "search-code", pattern="def", max_results=2)
    assert (exact["match_count"], exact["truncated"]) == (2, False)


@pytest.mark.requirement("F-107")
def test_a_pattern_that_would_never_end_is_stopped_and_says_so(
    agent: CodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_operations, "SEARCH_SECONDS", 0.5)
    result = call(agent, "search-code", pattern="(x|xx)+$")
    assert (result["truncated"], result["truncated_by"]) == (True, "time")


def test_a_search_that_cannot_see_all_files_says_so(agent: CodeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_SECONDS", -1.0)
    assert call(agent, "search-code", pattern="run")["truncated_by"] == "files"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"pattern": "(unclosed"}, "is no regular expression: missing \\)"),
        ({"pattern": "a", "glob": "a["}, "is no glob"),
        ({"pattern": "a", "path": "nowhere"}, "'nowhere'.*expected an existing file or folder"),
        ({"pattern": "a", "path": "../"}, "contains '..'"),
        ({"pattern": ""}, "/pattern"),
        ({"pattern": "a", "max_results": "10"}, "/max_results"),
        ({"pattern": "a", "colour": True}, "colour"),
        ({}, "pattern"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_with_the_reason(
    agent: CodeAgent, arguments: JSON, complaint: str
) -> None:
    with pytest.raises(ToolError, match=complaint):
        agent.execute_mcp_tool("search-code", arguments)


def test_a_search_reports_growing_progress(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {f"many/{number}.txt": "run\n" for number in range(120)})
    channel = RecordingChannel()
    in_request(channel, agent.execute_mcp_tool, "search-code", {"pattern": "run", "max_results": 500})
    reported = [progress for progress, _, _ in channel.progress]
    assert reported == sorted(set(reported))
    assert channel.progress[-1][:2] == (127, 127)


@pytest.mark.parametrize(("tool", "arguments"), [("search-code", {"pattern": "run"}), ("analyze-code", {"path": "."})])
def test_work_for_a_client_that_has_gone_is_left(agent: CodeAgent, tmp_path: Path, tool: str, arguments: JSON) -> None:
    write_files(tmp_path / "demo", {f"many/{number}.txt": "run\n" for number in range(120)})
    gone = RecordingChannel()
    gone.cancel.set()
    for channel in (RecordingChannel(cancel_at=1), gone):
        with pytest.raises(RequestCancelledError):
            in_request(channel, agent.execute_mcp_tool, tool, arguments)
