"""What the page about editors shows is what happens."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gaia.agents.base import Agent
from gaia_bridge.bridge.discovery import load_agent
from tests.support.editors import EditorClient, Workbench, editing
from tests.support.fake_model import FakeModel, call, say
from tests.test_architecture import ROOT

PAGE = (ROOT / "docs" / "acp.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.anyio
async def test_the_agent_of_the_page_edits_asks_and_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program, _ = blocks("python")
    (tmp_path / "notes_agent.py").write_text(program, encoding="utf-8")
    [loaded] = load_agent("notes_agent.py")
    assert isinstance(loaded.agent, Agent)
    loaded.agent.close()
    notes = type(loaded.agent)
    model = FakeModel(
        call("edit_note", name="todo.md", text="buy bread"), say("Done."), call("delete_note", name="todo.md"),
        say("Gone."), say("Everything."),
    )  # fmt: skip
    agent = notes(silent_mode=True, model=model)
    async with editing(agent) as editor:
        assert (await editor.connection.initialize(1)).agent_capabilities.load_session
        session = await editor.begin(cwd=tmp_path)
        await editor.ask(session, "Bread, not milk")
        await editor.ask(session, "Delete it")
        await editor.ask(session, "/review todo.md")
        diff = editor.client.shown("tool_call_update")[0]["content"][0]
        assert len(editor.client.permissions) == 1
        assert [item.title for item in (await editor.connection.list_sessions()).sessions] == ["Bread, not milk"]
    path = str(tmp_path / "todo.md")
    assert diff == {"type": "diff", "path": path, "oldText": "buy milk", "newText": "buy bread"}
    assert model.asked[-1].last["content"] == "What is missing in todo.md?"


@pytest.mark.anyio
async def test_the_agent_that_runs_tests_runs_them_in_the_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, program = blocks("python")
    (tmp_path / "testing_agent.py").write_text(program, encoding="utf-8")
    (tmp_path / "pytest").write_text('#!/bin/sh\necho "$2: 1 passed"\n', encoding="utf-8")
    (tmp_path / "pytest").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    [loaded] = load_agent("testing_agent.py")
    assert isinstance(loaded.agent, Agent)
    loaded.agent.close()
    for client in (Workbench(), EditorClient()):
        model = FakeModel(call("run_tests", path="a.py"), say("Done."))
        async with editing(type(loaded.agent)(silent_mode=True, model=model), client) as editor:
            await editor.ask(await editor.begin(cwd=tmp_path), "Test it")
        [told] = map(str, model.asked[-1].results())
        has_terminals = isinstance(client, Workbench)
        assert ("exit code 0\na.py: 1 passed" if has_terminals else "open this agent in an editor") in told


def test_the_entries_for_editors_start_the_command() -> None:
    for text in blocks("json"):
        [entry] = json.loads(text)["agent_servers"].values()
        assert Path(entry["command"]).is_absolute()
        assert Path(entry["command"]).name == "gaia-bridge"
        assert entry["args"][0] == "acp"
    assert len(blocks("json")) == 2
    [lua] = blocks("lua")
    assert lua.count("{") == lua.count("}")
    assert '"/home/me/project/.venv/bin/gaia-bridge", "acp", ' in lua
