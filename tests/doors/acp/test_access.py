"""What the code of an agent can use of an editor: its files, with what is not saved yet, and its terminals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent, get_request_context, tool
from gaia_bridge.calls.editor_access import EditorAccess
from gaia_bridge.settings import AcpLimits, Settings
from tests.support.editors import Editing, EditorClient, Workbench, editing
from tests.support.fake_model import FakeModel, call, say
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

PYTHON = sys.executable


class Working(Agent):
    """Uses whatever the editor has."""

    def _register_tools(self) -> None:
        @tool
        def read(path: str, line: int | None = None, limit: int | None = None) -> str:
            """Read."""
            return editor().read_text_file(path, line, limit)

        @tool
        async def double(path: str) -> str:
            """Double what is in a file, on the agent's own loop."""
            there = editor()
            content = await there.aread_text_file(path)
            await there.awrite_text_file("double.txt", content * 2)
            return "doubled"

        @tool
        def run(code: str, timeout: float | None = None) -> dict[str, Any]:
            """Run Python."""
            end = editor().run(PYTHON, "-S", "-c", code, env={"WORD": "hello"}, timeout=timeout)
            return {"output": end.output, "code": end.exit_code, "signal": end.signal, "late": end.has_timed_out}

        @tool
        def run_nonsense() -> str:
            """Run what is no command."""
            nonsense: Any = object()
            return editor().run(PYTHON, nonsense).output

        @tool
        def run_slowly() -> str:
            """Run Python, and tell how far it is."""
            editor().run(PYTHON, "-S", "-c", "")
            get_request_context().report_progress(1, 2)
            return "done"

        @tool
        def able() -> list[bool]:
            """Say what can be done."""
            there = get_request_context().editor
            return [] if there is None else [there.can_read, there.can_write, there.can_run]


def editor() -> EditorAccess:
    found = get_request_context().editor
    assert found is not None
    return found


def working(*answers: Any) -> tuple[Working, FakeModel]:
    model = FakeModel(*answers)
    return Working(silent_mode=True, model=model), model


def told(model: FakeModel) -> list[Any]:
    """What the model was told of all its calls."""
    return [result for asked in model.asked[1:] for result in asked.results()]


async def test_files_are_read_as_the_person_sees_them_and_written_through_the_editor(tmp_path: Path) -> None:
    (tmp_path / "saved.txt").write_text("old", encoding="utf-8")
    client = Workbench(**{"saved.txt": "one\ntwo\nthree\n"})
    agent, model = working(
        call("able"), call("read", path="saved.txt", line=2, limit=1), call("double", path="saved.txt"), say("Done.")
    )
    async with editing(agent, client) as editor:
        await editor.ask(await editor.begin(cwd=tmp_path), "Go")
    assert told(model) == [[True, True, True], "two\n", "doubled"]
    assert (tmp_path / "double.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n" * 2
    path = tmp_path / "saved.txt"
    assert client.asked == [f"read {path}", f"read {path}", f"write {tmp_path / 'double.txt'}"]


async def test_a_command_runs_in_a_terminal_that_is_shown_at_its_call_and_stays_there(tmp_path: Path) -> None:
    client = Workbench()
    agent, model = working(call("run", code="import os; print(os.environ['WORD']); raise SystemExit(3)"), say("Done."))
    async with editing(agent, client) as editor:
        await editor.ask(await editor.begin(cwd=tmp_path), "Go")
        [*_, running, ended] = client.shown("tool_call_update")
    assert told(model) == [{"output": "hello\n", "code": 3, "signal": None, "late": False}]
    [terminal] = running["content"]
    assert terminal["type"] == "terminal" and running["status"] == "in_progress"
    assert ended["content"][0] == terminal and ended["status"] == "completed"
    assert not client.open, "it was released"
    assert client.asked == [f"run {Path(PYTHON).name} in {tmp_path}, 65536 bytes"]


async def test_a_command_that_takes_too_long_is_killed() -> None:
    client = Workbench()
    code = "import time; time.sleep(600)"
    agent, model = working(call("run", code=code, timeout=0.05), call("run", code=code), say("Done."))
    settings = Settings(acp=AcpLimits(command_timeout=0.05))
    async with editing(agent, client, settings=settings) as editor:
        await editor.ask(await editor.begin(), "Go")
    assert told(model) == [{"output": "", "code": None, "signal": "9", "late": True}] * 2
    assert client.asked.count("kill") == 2
    assert not client.open


async def cancelled_when(editor: Editing, holds: Callable[[], bool]) -> None:
    """A turn that its person cancels once something holds."""
    session = await editor.begin()

    async def cancel() -> None:
        await editor.client.until(holds)
        await editor.connection.cancel(session)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        assert (await editor.ask(session, "Go")).stop_reason == "cancelled"


async def test_a_command_ends_with_the_turn_that_is_cancelled() -> None:
    client = Workbench()
    agent, _ = working(call("run", code="import time; time.sleep(600)"), say("Never."))
    async with editing(agent, client) as editor:
        await cancelled_when(editor, lambda: bool(client.open))
        await until(lambda: not client.open and bool(client.shown("tool_call_update")))
        ended = client.shown("tool_call_update")[-1]
        kinds = [content["type"] for content in ended["content"]]
        assert kinds == ["terminal", "content"], "it stays where it is shown"


async def test_a_terminal_that_opens_after_the_turn_was_cancelled_is_released() -> None:
    client = Workbench()
    client.gate = anyio.Event()
    agent, _ = working(call("run", code="import time; time.sleep(600)"), say("Never."))
    async with editing(agent, client) as editor:
        await cancelled_when(editor, lambda: bool(client.asked))
        client.gate.set()
        await client.until(lambda: len(client.released) == 1)
        assert not client.open


async def test_a_terminal_that_opens_too_late_is_released() -> None:
    client = Workbench()
    client.gate = anyio.Event()
    agent, model = working(call("run", code="import time; time.sleep(600)"), say("Done."))
    async with editing(agent, client, settings=Settings(acp=AcpLimits(terminal=0.01))) as editor:
        await editor.ask(await editor.begin(), "Go")
        client.gate.set()
        await client.until(lambda: len(client.released) == 1)
    assert "the editor did not answer terminal/create within 0.01 s" in str(told(model)[0])


async def test_a_command_that_is_none_fails_in_its_tool_alone() -> None:
    agent, _ = working(call("run_nonsense"), say("Sorry."), say("Still here."))
    async with editing(agent, Workbench()) as editor:
        session = await editor.begin()
        await editor.ask(session, "Go")
        assert [update["status"] for update in editor.client.shown("tool_call_update")] == ["failed"]
        assert (await editor.ask(session, "And now?")).stop_reason == "end_turn"


async def test_how_a_command_has_ended_is_known_from_an_editor_that_says_it_once() -> None:
    client = Workbench()
    client.tells_status = False
    agent, model = working(call("run", code="raise SystemExit(3)"), say("Done."))
    async with editing(agent, client) as editor:
        await editor.ask(await editor.begin(), "Go")
    assert told(model)[0]["code"] == 3


async def test_a_terminal_stays_at_its_call_when_progress_is_shown() -> None:
    client = Workbench()
    agent, _ = working(call("run_slowly"), say("Done."))
    async with editing(agent, client) as editor:
        await editor.ask(await editor.begin(), "Go")
        shown = [[it["type"] for it in update.get("content", ())] for update in client.shown("tool_call_update")]
    assert shown == [["terminal"], ["terminal", "content"], ["terminal", "content"]]


async def test_what_an_editor_refuses_or_does_not_have_is_said_in_words() -> None:
    client = Workbench()
    client.refuses = "secret"
    agent, model = working(call("read", path="/secret.txt"), call("read", path="a\0b"), say("Done."))
    async with editing(agent, client) as editor:
        await editor.ask(await editor.begin(), "Go")
    refused, nonsense = map(str, told(model))
    assert "the editor refused fs/read_text_file: this file is nobody's" in refused
    assert "is no path" in nonsense


async def test_an_editor_without_files_and_terminals_is_none() -> None:
    agent, model = working(call("able"), say("Done."))
    async with editing(agent, EditorClient()) as editor:
        await editor.ask(await editor.begin(), "Go")
    assert told(model) == [[]]
