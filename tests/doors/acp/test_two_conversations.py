"""Nothing of one conversation reaches another of the same editor: questions, files, progress, ends, servers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaia.agents.base import Agent, get_request_context, tool
from gaia.llm import Reply
from gaia.mcp import MCPClientMixin
from tests.support.editors import Workbench, editing, stdio_server
from tests.support.fake_model import Asked, FakeModel, call, say
from tests.support.on_demand import acp_schema
from tests.support.turns import Turns, in_turns, secret
from tests.support.upstreams import TESTS

pytestmark = pytest.mark.anyio

NAMES: tuple[str, str] = ("ada", "bob")
STEPS: tuple[str, ...] = ("ask", "look", "read", "write", "report", "fail", "be cancelled")
RAW = ("-S", str(TESTS / "servers" / "raw_server.py"), "")


class Steps(Agent):
    """Does what it is asked, step by step, in turns with its other conversations. Its model gives all calls one id."""

    def __init__(self, order: Sequence[str]) -> None:
        self.turns = Turns(order)
        self.came: list[tuple[str, str]] = []
        """What came back to a conversation."""
        super().__init__(silent_mode=True, model=FakeModel(*[_next] * 99))

    def _register_tools(self) -> None:
        @tool
        async def work(name: str, steps: list[str]) -> str:
            """Work."""
            try:
                for step in steps:
                    async with self.turns.step(name):
                        self.came.append((name, await take(name, step)))
            finally:
                await self.turns.leave(name)
            return secret(name)

        @tool(annotations={"destructiveHint": True})
        def destroy(name: str) -> str:
            """Destroy something."""
            return f"destroyed by {name}"


async def take(name: str, step: str) -> str:
    """One step of a conversation; what came back."""
    request = get_request_context()
    assert request.editor is not None
    match step:
        case "ask":
            answer = await request.aelicit(secret(name), {"word": {"type": "string"}})
            return str(answer.content["word"])
        case "look":
            return str(await request.alist_roots())
        case "read":
            return await request.editor.aread_text_file("unsaved")
        case "write":
            await request.editor.awrite_text_file("written", secret(name))
        case "report":
            request.report_progress(1, message=secret(name))
        case "be cancelled":
            await request.aelicit(f"cancel {secret(name)}", {"word": {"type": "string"}})
            await asyncio.Event().wait()
        case _:
            raise ValueError(secret(name))
    return secret(name)


def _next(asked: Asked) -> Reply:
    """Have the work done, then something destroyed, and say what came of it."""
    told = next(message["content"] for message in reversed(asked.messages) if message["role"] == "user")
    name, steps = json.loads(told)
    match len(asked.messages) - max(n for n, it in enumerate(asked.messages) if it["role"] == "user"):
        case 1:
            return call("work", name=name, steps=steps)
        case 3:
            return call("destroy", name=secret(name))
        case _:
            return say(f"{secret(name)} {asked.results()}")


class Desk(Workbench):
    """An editor whose answers have the secret of the conversation that asked."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        """By their ids."""
        self.heard: list[tuple[str, str]] = []
        """What was shown or asked in which conversation."""
        self.connection: Any = None

    def hear(self, session_id: str, what: Any) -> str:
        """Note it; the secret of the conversation."""
        name = self.names.get(session_id, "")
        self.heard.append((name, str(what)))
        return secret(name)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.hear(session_id, update)
        await super().session_update(session_id, update, **kwargs)

    async def request_permission(self, session_id: str, tool_call: Any, options: Sequence[Any], **kwargs: Any) -> Any:
        self.hear(session_id, tool_call)
        self.choose = "allow_always" if self.names[session_id] == "ada" else "allow"
        return await super().request_permission(session_id, tool_call, options, **kwargs)

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        session: str = mode.session_id
        word = self.hear(session, message)
        if message.startswith("cancel"):
            await self.connection.cancel(session)
        return acp_schema.AcceptElicitationResponse(action="accept", content={"word": word})

    async def read_text_file(self, session_id: str, path: str, *args: Any, **kwargs: Any) -> Any:
        return acp_schema.ReadTextFileResponse(content=self.hear(session_id, path))

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        self.hear(session_id, f"{path} {content}")
        return acp_schema.WriteTextFileResponse()


PLANS: st.SearchStrategy[list[str]] = st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)
PEOPLE: st.SearchStrategy[dict[str, list[str]]] = st.builds(
    lambda *steps: dict(zip(NAMES, steps, strict=True)), PLANS, PLANS
)


@given(plan=PEOPLE.flatmap(in_turns))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_no_secret_of_one_conversation_is_seen_in_another(
    plan: tuple[dict[str, list[str]], Sequence[str]],
) -> None:
    steps, order = plan
    desk, agent = Desk(), Steps(order)
    async with editing(agent, desk, forms=True) as editor:
        desk.connection = editor.connection
        for name in NAMES:
            desk.names[await editor.begin(cwd=f"/{secret(name)}")] = name
        async with anyio.create_task_group() as tasks:
            for session, name in desk.names.items():
                tasks.start_soon(editor.ask, session, json.dumps([name, steps[name]]))
        allowed = [desk.names[asked["session"]] for asked in desk.permissions]
    whole = [name for name in NAMES if "be cancelled" not in _until_failure(steps[name])]
    assert sorted(allowed) == whole, "what is always allowed in one conversation is asked in the other"
    for name, other in (NAMES, NAMES[::-1]):
        heard = [text for whose, text in desk.heard if whose == name]
        assert not [text for text in heard if secret(other) in text]
        assert all(secret(name) in text for whose, text in agent.came if whose == name)
        assert any(secret(name) in text for text in heard)


def _until_failure(steps: Sequence[str]) -> Sequence[str]:
    return steps[: steps.index("fail")] if "fail" in steps else steps


class Configured(Agent, MCPClientMixin):
    """Uses a server of its own, which works for all of its conversations."""

    def __init__(self, folder: Path) -> None:
        super().__init__(silent_mode=True, auto_load_config=False, model=FakeModel(*[_pid, _told] * 3))
        self.connect_mcp_server("own", {"command": sys.executable, "args": list(RAW), "cwd": str(folder)})


def _pid(asked: Asked) -> Reply:
    return call(asked.last["content"])


def _told(asked: Asked) -> Reply:
    return say(str(asked.last["content"]))


async def test_an_agent_that_is_configured_for_the_server_of_a_conversation_uses_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = Configured(tmp_path)
    async with editing(agent) as editor:
        mine = await editor.begin(stdio_server("up", sys.executable, *RAW), cwd=tmp_path)
        await editor.ask(mine, "up__pid")
        await editor.ask(mine, "mcp_own_pid")
        other = await editor.begin()
        await editor.ask(other, "mcp_own_pid")
        pid, _, own = editor.client.said(mine).partition("{")
        assert int(pid) > 0
        assert pid not in own
        assert pid not in editor.client.said(other)
    agent.disconnect_mcp_server("own")
