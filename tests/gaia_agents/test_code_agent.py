"""`CodeAgent` reads, creates and analyses files; every result fits the schema that the tool declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaia_agents import CodeAgent, code_operations
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON
from tests.support.workspaces import DEMO, call, write_files


@pytest.fixture
def agent(tmp_path: Path) -> CodeAgent:
    root = tmp_path / "demo"
    write_files(root, DEMO)
    return CodeAgent(root)


def test_a_file_is_read_with_its_numbers(agent: CodeAgent) -> None:
    assert call(agent, "read-file", path="src/app.py", start_line=4, end_line=5) == {
        "path": "src/app.py",
        "content": 'def run(path):\n    """Run."""\n',
        "start_line": 4,
        "end_line": 5,
        "total_lines": 6,
        "bytes": len(DEMO["src/app.py"]),
        "language": "Python",
        "encoding": "utf-8",
        "lossy": False,
        "truncated": False,
    }
    assert call(agent, "read-file", path="src/app.py")["content"] == DEMO["src/app.py"]
    assert call(agent, "read-file", path="src/app.py", start_line=6, end_line=99)["end_line"] == 6


def test_line_ends_and_a_missing_last_one_are_kept(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {"dos.txt": b"a\r\nb\r\nc", "empty.txt": b""})
    assert call(agent, "read-file", path="dos.txt", start_line=2)["content"] == "b\r\nc"
    empty = call(agent, "read-file", path="empty.txt")
    assert (empty["content"], empty["end_line"], empty["total_lines"]) == ("", 0, 0)


def test_a_long_file_is_read_in_pieces(agent: CodeAgent, tmp_path: Path) -> None:
    whole = "".join(f"{number:09}\n" for number in range(60_000))
    write_files(tmp_path / "demo", {"long.txt": whole})
    pieces, start, truncated = list[str](), 1, True
    while truncated:
        piece = call(agent, "read-file", path="long.txt", start_line=start)
        pieces.append(piece["content"])
        start, truncated = piece["end_line"] + 1, piece["truncated"]
    assert len(pieces) == 3
    assert "".join(pieces) == whole


def test_a_line_longer_than_an_answer_is_cut_and_says_so(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {"line.txt": "x" * (code_operations.MAX_SHOWN_CHARACTERS + 1)})
    result = call(agent, "read-file", path="line.txt")
    assert (len(result["content"]), result["truncated"]) == (code_operations.MAX_SHOWN_CHARACTERS, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"path": "image.bin"}, r"is binary \(6 bytes\); expected a text file"),
        ({"path": "src"}, "not a regular file"),
        ({"path": "nowhere"}, "No such file or directory; expected an existing file"),
        ({"path": "src/app.py", "start_line": 7}, "has no lines 7 to the end; it has 6 lines"),
        ({"path": "src/app.py", "start_line": 3, "end_line": 2}, "has no lines 3 to 2"),
        ({"path": "build/out.py"}, "ignored by git"),
        ({"path": "src/app.py", "start_line": 0}, "/start_line"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(agent: CodeAgent, arguments: JSON, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        agent.execute_mcp_tool("read-file", arguments)


def test_a_file_is_created_and_can_be_read_at_the_place_that_is_told(agent: CodeAgent) -> None:
    result = call(agent, "create-file", path="src/new dir/é#.py", content="x = 'é'\n")
    assert result == {
        "path": "src/new dir/é#.py",
        "bytes": 9,
        "created": True,
        "uri": "code://file/src/new%20dir/%C3%A9%23.py",
    }
    assert call(agent, "read-file", path=result["path"])["content"] == "x = 'é'\n"
    assert agent.read_mcp_resource(result["uri"])["contents"][0]["text"] == "x = 'é'\n"


def test_a_file_is_overwritten_only_on_demand(agent: CodeAgent) -> None:
    with pytest.raises(ToolError, match="'README.md' exists already; set overwrite to true"):
        call(agent, "create-file", path="README.md", content="new")
    assert call(agent, "create-file", path="README.md", content="new", overwrite=True)["created"] is False
    assert call(agent, "read-file", path="README.md")["content"] == "new"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"path": "../new", "content": ""}, "contains '..'"),
        ({"path": ".git/hooks/pre-commit", "content": ""}, "belongs to git"),
        ({"path": ".vscode/mcp.json", "content": ""}, "is hidden, and hidden files decide"),
        ({"path": "half", "content": "a\ud800"}, "character 1 of the content"),
        ({"path": "new"}, "content"),
    ],
)
def test_what_cannot_be_created_is_refused_with_the_reason(
    agent: CodeAgent, tmp_path: Path, arguments: JSON, complaint: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ToolError, match=complaint):
        agent.execute_mcp_tool("create-file", arguments)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_python_file_is_analysed(agent: CodeAgent) -> None:
    result = call(agent, "analyze-code", path="src/app.py")
    report = result["file"]
    assert (result["kind"], report["language"], report["lines"]["total"]) == ("file", "Python", 6)
    assert [function["name"] for function in report["python"]["functions"]] == ["run"]
    assert report["python"]["missing_type_hints"] == ["run"]


def test_any_other_text_is_measured(agent: CodeAgent) -> None:
    report = call(agent, "analyze-code", path="src/web/app.ts")["file"]
    assert (report["language"], report["todos"], "python" in report) == ("TypeScript", 1, False)


def test_a_folder_is_summed_up_by_language(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {"src/broken.py": "def (:\n"})
    folder = call(agent, "analyze-code", path=".")["folder"]
    assert [(item["language"], item["files"]) for item in folder["languages"]] == [
        ("Python", 3),
        ("JavaScript", 1),
        ("Markdown", 1),
        ("Other", 1),
        ("TypeScript", 1),
    ]
    assert (folder["files"], folder["skipped"], folder["todos"], folder["truncated"]) == (7, 1, 2, False)
    assert folder["python"]["counts"]["functions"] == 2
    assert [error["path"] for error in folder["python"]["syntax_errors"]] == ["src/broken.py"]
    assert "python" not in call(agent, "analyze-code", path="src/web")["folder"]


@pytest.mark.parametrize(
    ("path", "complaint"), [("image.bin", "it is binary"), ("huge.py", "at most 2,097,152"), ("nowhere", "expected an")]
)
def test_what_cannot_be_analysed_is_refused_with_the_reason(
    agent: CodeAgent, tmp_path: Path, path: str, complaint: str
) -> None:
    write_files(tmp_path / "demo", {"huge.py": b"#" * (2 * 1024 * 1024 + 1)})
    with pytest.raises(ToolError, match=complaint):
        call(agent, "analyze-code", path=path)


@pytest.mark.requirement("S1-6")
def test_an_unknown_tool_is_a_value_error_that_names_the_known_ones(agent: CodeAgent) -> None:
    with pytest.raises(ValueError, match="Unknown tool: 'delete-everything'. Expected one of search-code, read-file"):
        agent.execute_mcp_tool("delete-everything", {})


@pytest.mark.requirement("F-274")
@pytest.mark.parametrize(
    "source",
    [
        b"# -*- coding: nosuch -*-\nx = 1\n",
        b"# coding: rot13\nx = 1\n",
        b"# coding: utf-8\nx = '\xff'\n",
        b"\xef\xbb\xbf# coding: latin-1\nx = 1\n",
        b"x = '\x00'\n"[:4] + b"'\n#\x0c\n(",
        b"\xff",
    ],
)
def test_a_file_that_python_cannot_read_is_reported_and_spoils_no_other(tmp_path: Path, source: bytes) -> None:
    write_files(tmp_path / "new", {"bad.py": source, "good.py": "def run(): pass\n"})
    agent = CodeAgent(tmp_path / "new")
    folder = call(agent, "analyze-code", path=".")["folder"]
    assert [error["path"] for error in folder["python"]["syntax_errors"]] == ["bad.py"]
    assert folder["python"]["counts"]["functions"] == 1
    error = call(agent, "analyze-code", path="bad.py")["file"]["python"]["syntax_error"]
    assert error["line"] >= 1 and error["column"] >= 1
