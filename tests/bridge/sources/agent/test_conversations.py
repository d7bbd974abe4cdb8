"""The turns of one conversation by the tool `ask`."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.sources.agent.ask_tool import Conversations, conversation_of
from tests.support.upstreams import FakeRequest

pytestmark = pytest.mark.anyio


async def test_questions_of_one_conversation_are_answered_one_after_the_other_whatever_the_agent_does() -> None:
    conversations, request = Conversations(), RequestContext(cast(Any, None), FakeRequest(), None)
    steps: list[str] = []

    async def ask(session: str) -> None:
        async with conversations.turn(conversation_of(session, "key"), request):
            steps.append(f"{session} begins")
            await anyio.wait_all_tasks_blocked()
            steps.append(f"{session} ends")

    async with anyio.create_task_group() as tasks:
        for session in ("main", "main", "other"):
            tasks.start_soon(ask, session)
    assert sorted(steps[:2]) == ["main begins", "other begins"]
    assert [step for step in steps if step.startswith("main")] == ["main begins", "main ends"] * 2
