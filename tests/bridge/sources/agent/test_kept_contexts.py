"""Whoever keeps the context of a request, as tasks of an agent do, keeps none of its frames."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from gaia_bridge import Client, RequestContext, tool
from gaia_bridge.errors import AnswerError
from tests.support.waiting import comes_true, wait_in_thread

pytestmark = pytest.mark.anyio


class Held:
    """Something in a frame."""


class Asking:
    def __init__(self) -> None:
        self.kept: list[RequestContext] = []
        self.held: list[weakref.ref[Held]] = []

    @tool
    def ask(self, request: RequestContext) -> str:
        held = Held()
        self.held.append(weakref.ref(held))
        self.kept.append(request)
        try:
            request.elicit("Sure?", {"sure": {"type": "boolean"}})
        except AnswerError:
            return "refused"
        return "answered"

    @tool
    async def ask_in_a_coroutine(self, request: RequestContext) -> str:
        held = Held()
        self.held.append(weakref.ref(held))
        self.kept.append(request)
        try:
            await request.aelicit("Sure?", {"sure": {"type": "boolean"}})
        except AnswerError:
            return "refused"
        return "answered"


@pytest.mark.parametrize("name", ["ask", "ask_in_a_coroutine"])
async def test_a_question_that_failed_keeps_no_frame_of_who_asked(name: str) -> None:
    def broken(message: str, schema: Any) -> Any:
        raise RuntimeError("nobody is there")

    agent = Asking()
    async with Client(agent, era="legacy", on_elicitation=broken) as client:
        assert (await client.call_tool(name)).text == "refused"

        def is_gone() -> bool:
            gc.collect()
            return [held() for held in agent.held] == [None]

        await wait_in_thread(comes_true(is_gone))  # the agent's thread may be about to leave the frame
