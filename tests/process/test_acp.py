"""`gaia-bridge acp` as an editor starts it, with the package's own client: a conversation, and every end of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.cli.running import run
from tests.support.editors import Editing, EditorClient, Workbench, capabilities_of, stdio_server
from tests.support.on_demand import acp
from tests.support.scripted_model import call, say, scripted_model
from tests.support.upstreams import TESTS
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

AGENT = str(Path(__file__).with_name("editor_agent.py"))
RAW = str(TESTS / "servers" / "raw_server.py")


@asynccontextmanager
async def started(base_url: str, home: Path, client: EditorClient | None = None) -> AsyncGenerator[tuple[Editing, Any]]:
    """The command as a process, and an editor that has said hello to it."""
    client = client or EditorClient()
    person: Any = client
    command = (sys.executable, "-m", "gaia_bridge", "acp", AGENT)
    environment = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none", "GAIA_MODEL": "scripted", "HOME": str(home)}
    async with acp.spawn_agent_process(
        person,
        *command,
        env={**os.environ, **environment},
        transport_kwargs={"stderr": subprocess.DEVNULL},
        use_unstable_protocol=True,
    ) as (connection, process):
        with anyio.fail_after(PATIENCE):
            await connection.initialize(acp.PROTOCOL_VERSION, capabilities_of(client))
        yield Editing(client, connection), process


async def test_a_whole_conversation_with_a_model_a_server_and_a_permission(tmp_path: Path) -> None:
    replies = (call("delete_file", path="/a"), call("up__pid"), say("It is $result."))
    with scripted_model(*replies, models=["scripted"]) as model:
        async with started(model.base_url, tmp_path) as (editor, process):
            session = await editor.begin(stdio_server("up", sys.executable, "-S", RAW), cwd=tmp_path)
            ended = await editor.ask(session, "Delete a")
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            told = [update["rawOutput"] for update in editor.client.shown("tool_call_update") if "rawOutput" in update]
            [asked] = editor.client.permissions
        assert "up__pid" in model.requests()[0].tool_names
    assert ended.stop_reason == "end_turn"
    assert asked["call"]["rawInput"] == {"path": "/a"}
    assert told[0] == "deleted /a; input is ''"
    assert editor.client.said() == f"It is {told[1]['content'][0]['text']}."
    assert len(family) > 1
    await until(lambda: not any(it.is_running() and it.status() != psutil.STATUS_ZOMBIE for it in family))


async def test_the_editors_files_and_terminals_are_used_by_the_agents_code(tmp_path: Path) -> None:
    client = Workbench(**{"unsaved.txt": "one two three"})
    with scripted_model(call("count_words", path="unsaved.txt"), say("Counted."), models=["scripted"]) as model:
        async with started(model.base_url, tmp_path, client) as (editor, _):
            ended = await editor.ask(await editor.begin(cwd=tmp_path), "Count")
            [*_, last] = client.shown("tool_call_update")
    assert ended.stop_reason == "end_turn"
    assert [content["type"] for content in last["content"]] == ["terminal", "content"]
    assert (tmp_path / "words.txt").read_text(encoding="utf-8") == f"3 words in {tmp_path}\n"
    assert not client.open


async def test_a_turn_that_hangs_holds_up_neither_its_cancellation_nor_the_end(tmp_path: Path) -> None:
    with scripted_model(call("hang"), call("hang"), models=["scripted"]) as model:
        async with started(model.base_url, tmp_path) as (editor, process):
            session = await editor.begin()

            async def hangs(calls: int) -> None:
                await editor.client.until(lambda: len(editor.client.shown("tool_call")) == calls)

            async def cancel() -> None:
                await hangs(1)
                await editor.connection.cancel(session)

            async def close() -> None:
                await hangs(2)
                process.stdin.close()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel)
                assert (await editor.ask(session, "go")).stop_reason == "cancelled"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close)
                with pytest.raises(ConnectionError):
                    await editor.ask(session, "go")
            with anyio.fail_after(PATIENCE):
                assert await process.wait() == 0


def test_what_cannot_be_served_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(
        "class Silent:\n"
        "    def get_mcp_tool_definitions(self): return []\n"
        "    def execute_mcp_tool(self, tool_name, arguments): return None\n",
        encoding="utf-8",
    )
    ended = run("acp", "silent.py", cwd=tmp_path)
    assert ended.returncode == 66
    assert "nobody can converse with it: it has neither answer_chat() nor process_query()" in ended.stderr
    assert (len(ended.stderr.splitlines()), ended.stdout) == (1, "")
    two = "from gaia.agents.base import Agent\nclass A(Agent): ...\nclass B(Agent): ...\n"
    (tmp_path / "two.py").write_text(two, encoding="utf-8")
    ended = run("acp", "two.py", cwd=tmp_path)
    assert ended.returncode == 66
    assert "an editor converses with one agent; there are" in ended.stderr
