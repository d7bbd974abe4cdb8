"""What the shipped agents declare, their prompts, resources and completions."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_agents import CodeAgent, ProjectAgent
from gaia_bridge import __version__
from gaia_bridge.contract import (
    AgentLike,
    CompletesArguments,
    GivesPrompts,
    KnowsPublisher,
    ListsResourceTemplates,
    ReadsResources,
)
from gaia_bridge.errors import ResourceNotFoundError, ToolError
from tests.support.workspaces import write_files

REFERENCE = {"type": "ref/prompt", "name": "review-code"}


@pytest.fixture
def agent(tmp_path: Path) -> CodeAgent:
    root = tmp_path / "demo"
    write_files(root, {"src/a.py": "x = '```'\n", "src/b c#d.py": "", "notes.md": "# hi\n", "logo.png": b"\x89PNG\0\1"})
    write_files(tmp_path, {"secret": "outside"})
    (root / "out").symlink_to(tmp_path)
    return CodeAgent(root)


def first(result: Any) -> Any:
    (content,) = result["contents"]
    return content


@pytest.mark.parametrize("build", [CodeAgent, ProjectAgent])
@pytest.mark.requirement("S1-5", "S1-16")
def test_every_definition_is_complete_and_every_schema_valid(
    build: type[CodeAgent | ProjectAgent], tmp_path: Path
) -> None:
    agent = build(tmp_path)
    info = agent.get_mcp_server_info()
    assert (info["version"], set(info)) == (__version__, {"name", "version", "title", "description", "instructions"})
    names = [tool["name"] for tool in agent.get_mcp_tool_definitions()]
    assert names == list(agent.handlers)
    for tool in agent.get_mcp_tool_definitions():
        assert {"name", "title", "description", "inputSchema", "outputSchema", "annotations"} == set(tool)
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
            assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        for option in tool["inputSchema"]["properties"].values():
            assert option["description"]


def test_only_the_tool_that_writes_says_so() -> None:
    tools = [*CodeAgent.tools, *ProjectAgent.tools]
    assert [tool["name"] for tool in tools if not tool["annotations"]["readOnlyHint"]] == ["create-file"]
    assert {tool["name"] for tool in tools} == {"search-code", "read-file", "create-file", "analyze-code", "get-status"}


def test_the_agents_have_the_hooks_that_their_lists_promise(tmp_path: Path) -> None:
    code, project = CodeAgent(tmp_path), ProjectAgent(tmp_path)
    for protocol in (AgentLike, GivesPrompts, ReadsResources, CompletesArguments, KnowsPublisher):
        assert isinstance(code, protocol)
        assert isinstance(project, protocol)
    assert isinstance(code, ListsResourceTemplates)
    assert not isinstance(project, ListsResourceTemplates)


@pytest.mark.requirement("S1-14")
def test_a_review_comes_with_the_file_in_a_fence_that_its_content_cannot_close(agent: CodeAgent) -> None:
    assert [prompt["name"] for prompt in agent.get_mcp_prompts()] == ["review-code"]
    result = agent.get_mcp_prompt("review-code", {"path": "src/a.py", "focus": "security"})
    (message,) = result["messages"]
    text = message["content"]["text"]
    assert message["role"] == "user"
    assert text.endswith("\n````py\nx = '```'\n````\n")
    assert "Review the file `src/a.py` (Python, 1 lines)." in text
    assert "Look at security above all." in text
    assert (
        "above all" not in agent.get_mcp_prompt("review-code", {"path": "src/a.py"})["messages"][0]["content"]["text"]
    )


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("review", {"path": "src/a.py"}, "Unknown prompt: 'review'. Expected review-code"),
        ("review-code", {}, "is not a path"),
        ("review-code", {"path": "../secret"}, "contains '..'"),
        ("review-code", {"path": "logo.png"}, "is binary"),
        ("review-code", {"path": "big.txt"}, "has 300,000 characters; at most 262,144"),
    ],
)
def test_a_review_of_nothing_is_refused_with_the_reason(
    agent: CodeAgent, tmp_path: Path, name: str, arguments: dict[str, str], complaint: str
) -> None:
    write_files(tmp_path / "demo", {"big.txt": "x" * 300_000})
    with pytest.raises((ValueError, ToolError), match=complaint):
        agent.get_mcp_prompt(name, arguments)


@pytest.mark.requirement("S1-15")
def test_the_tree_lists_what_git_would_keep(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {".gitignore": "*.log\n", "src/x.log": "", "src/deep/er/c.py": "", "z/d.py": ""})
    (listed,) = agent.get_mcp_resources()
    assert first(agent.read_mcp_resource(listed["uri"]))["text"] == (
        "demo/\n  .gitignore\n  logo.png\n  notes.md\n  src/\n    a.py\n    b c#d.py\n"
        "    deep/\n      er/\n        c.py\n  z/\n    d.py\n"
    )


def test_a_tree_without_end_is_cut_and_says_so(agent: CodeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_agents.code_agent._TREE_FILES", 2)
    text = first(agent.read_mcp_resource("code://tree"))["text"]
    assert text.splitlines() == ["demo/", "  logo.png", "  notes.md", "... and more: only 2 files are listed"]


@pytest.mark.requirement("S1-15")
def test_files_are_resources_of_their_kind(agent: CodeAgent) -> None:
    (template,) = agent.get_mcp_resource_templates()
    assert template["uriTemplate"] == "code://file/{+path}"
    source = first(agent.read_mcp_resource("code://file/src/a.py"))
    assert (source["uri"], source["mimeType"], source["text"]) == (
        "code://file/src/a.py",
        "text/x-python",
        "x = '```'\n",
    )
    image = first(agent.read_mcp_resource("code://file/logo.png"))
    assert (image["mimeType"], base64.b64decode(image["blob"])) == ("image/png", b"\x89PNG\0\1")
    for uri in ("code://file/src/b%20c%23d.py", "code://file/src/b c#d.py"):
        assert first(agent.read_mcp_resource(uri))["text"] == ""


HOSTILE_URIS = [
    "code://file/../secret",
    "code://file/%2e%2e/secret",
    "code://file/src/..%2f..%2fsecret",
    "code://file/%252e%252e/secret",
    "code://file/out/secret",
    "code://file//etc/passwd",
    "code://file/%2fetc/passwd",
    "code://file/src/a.py%00",
    "code://file/%ff",
    "code://file/",
    "code://file",
    "code://file:80/src/a.py",
    "code://tree/../file/src/a.py",
    "CODE://file/src/a.py",
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("uri", HOSTILE_URIS)
@pytest.mark.requirement("S-35")
def test_a_hostile_uri_is_not_found(agent: CodeAgent, uri: str) -> None:
    with pytest.raises(ResourceNotFoundError) as missing:
        agent.read_mcp_resource(uri)
    assert missing.value.uri == uri


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(
    rest=st.lists(st.sampled_from(["..", "%2e%2e", "/", "%2f", "out", "secret", "src", "a.py", "%00", "%5c", "."])).map(
        "".join
    )
)
@pytest.mark.requirement("S-35")
def test_no_uri_reads_anything_outside_of_the_root(tmp_path_factory: pytest.TempPathFactory, rest: str) -> None:
    base = tmp_path_factory.getbasetemp() / "uris"
    if not base.exists():
        write_files(base, {"secret": "outside", "demo/src/a.py": "inside"})
        (base / "demo/out").symlink_to(base)
    try:
        content = first(CodeAgent(base / "demo").read_mcp_resource(f"code://file/{rest}"))
    except ResourceNotFoundError:
        return
    assert content["text"] == "inside"


def test_a_file_too_large_for_a_resource_is_told_so(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {"big.txt": b"x" * (4 * 1024 * 1024 + 1)})
    with pytest.raises(ToolError, match="at most 4,194,304"):
        agent.read_mcp_resource("code://file/big.txt")


@pytest.mark.parametrize(
    ("argument", "value", "values"),
    [
        ("path", "", ["logo.png", "notes.md", "src/a.py", "src/b c#d.py"]),
        ("path", "src/", ["src/a.py", "src/b c#d.py"]),
        ("path", "a.py", ["src/a.py"]),
        ("path", "nothing", []),
        ("focus", "se", ["security"]),
        ("other", "", []),
    ],
)
def test_paths_are_completed_from_real_files(agent: CodeAgent, argument: str, value: str, values: list[str]) -> None:
    result = agent.complete_mcp_argument(REFERENCE, argument, value, {})
    assert result == {"values": values, "total": len(values), "hasMore": False}


def test_of_many_completions_a_hundred_are_given(agent: CodeAgent, tmp_path: Path) -> None:
    write_files(tmp_path / "demo", {f"many/{number}": "" for number in range(150)})
    result = agent.complete_mcp_argument(REFERENCE, "path", "many/", {})
    assert (len(result["values"]), result["total"], result["hasMore"]) == (100, 150, True)
