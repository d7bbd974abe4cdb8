"""The way to VS Code that the page shows is the one that works."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import anyio
import pytest

from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge_cli import main
from tests.docs.pages import DOCS, blocks
from tests.support.bridges import running_bridge

PAGE = DOCS / "five-minutes.md"
BLOCKS = blocks(PAGE)
[AGENT] = [block.text for block in BLOCKS if block.language == "python"]
COMMANDS = [shlex.split(block.text)[1:] for block in BLOCKS if block.text.startswith("gaia-bridge ")]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the agent of the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello_agent.py").write_text(AGENT, "utf-8")
    return tmp_path


def test_the_call_of_the_page_answers_what_the_page_says(capfd: pytest.CaptureFixture[str]) -> None:
    [answer] = [block.text for block in BLOCKS if block.language == "text"]
    assert main(COMMANDS[0]) == 0
    assert capfd.readouterr().out == answer


def test_the_agent_is_put_into_the_list_of_vscode_and_out_again(project: Path) -> None:
    file = Path.home() / ".config" / "Code" / "User" / "mcp.json"
    assert main([*COMMANDS[1], "--yes"]) == 0
    [entry] = json.loads(file.read_text("utf-8"))["servers"].values()
    assert entry["args"] == ["connect", "--agent", str(project / "hello_agent.py")]
    assert COMMANDS[2] == ["restart", "hello_agent.py"]
    assert "`gaia-bridge install vscode --remove`" in PAGE.read_text("utf-8")
    assert main(["install", "vscode", "--remove", "--yes"]) == 0
    assert not file.exists()


@pytest.mark.anyio
async def test_its_tool_its_prompt_and_its_resource_are_what_the_page_says() -> None:
    [loaded] = await anyio.to_thread.run_sync(load_agent, "hello_agent.py")
    async with running_bridge(loaded.agent) as running, running.client() as client:
        assert (await client.call_tool("greet", {"name": "Ada"})).structured_content == {"result": "Hello, Ada!"}
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["poem"]
        [read] = (await client.read_resource("hello://guests")).contents
        assert read.model_dump()["text"] == "Grace\nAda"
