"""What whoever serves a conversation is told beside its text, in the order in which it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gaia.agents.base import Agent
from gaia_bridge.calls.editor_access import running_tool
from gaia_bridge.chat_types import ChatRequest, KeepsChats, Piece, Reply, Thought, ToolBegun, ToolEnded
from tests.support.fake_model import FakeModel, call, calls, made, say

pytestmark = pytest.mark.anyio


async def pieces_of(agent: Agent, **request: Any) -> list[Piece]:
    """All that one turn consists of."""
    asked = ChatRequest([{"role": "user", "content": "go"}], events=True, **request)
    return [piece async for piece in agent.answer_chat(asked)]


async def test_calls_are_told_between_the_texts_around_them() -> None:
    seen: list[Any] = []

    def count(things: list[int]) -> dict[str, int]:
        """Count things."""
        seen.append(running_tool())
        return {"count": len(things)}

    agent, _ = made(calls(("count", {"things": [1, 2]}), text="Look:"), say("Two."), tools=[count])
    pieces = await pieces_of(agent)
    assert [type(piece).__name__ for piece in pieces] == ["str", "ToolBegun", "ToolEnded", "str", "str", "Reply"]
    begun, ended = pieces[1], pieces[2]
    assert isinstance(begun, ToolBegun)
    assert isinstance(ended, ToolEnded)
    assert (begun.name, begun.title, begun.arguments) == ("count", "count", {"things": [1, 2]})
    assert ended == ToolEnded(begun.id, '{"count":2}', {"count": 2})
    assert [running.call for running in seen] == [begun]
    agent.close()


async def test_calls_that_cannot_be_made_are_told_with_what_is_wrong() -> None:
    def one(number: int) -> int:
        """Take a number."""
        return number

    wanted: Any = (("one", {"number": "x"}), ("one", "{"), ("two", {}), ("one", {"number": 2}))
    agent, _ = made(calls(*wanted), say("Done."), tools=[one])
    pieces = await pieces_of(agent)
    begun = {piece.id: piece for piece in pieces if isinstance(piece, ToolBegun)}
    ended = [piece for piece in pieces if isinstance(piece, ToolEnded)]
    assert len(begun) == len(ended) == 4
    problems = {(begun[piece.id].name, str(begun[piece.id].arguments)): piece.problem for piece in ended}
    assert problems["one", "{'number': 2}"] is None
    assert "do not fit" in str(problems["one", "{'number': 'x'}"])
    assert "are not JSON" in str(problems["one", "{}"])
    assert "there is no tool 'two'" in str(problems["two", "{}"])
    agent.close()


async def test_what_a_tool_yields_reaches_the_model_and_whoever_is_told() -> None:
    def numbers() -> Any:
        """Yield numbers."""
        yield from range(3)

    agent, model = made(call("numbers"), say("Done."), tools=[numbers])
    [ended] = [piece for piece in await pieces_of(agent) if isinstance(piece, ToolEnded)]
    assert ended.value == [0, 1, 2]
    assert model.asked[1].results() == [[0, 1, 2]]
    agent.close()


async def test_a_result_too_large_for_a_model_is_told_as_the_model_is() -> None:
    def large() -> list[str]:
        """Return much."""
        return ["x" * 1_000] * 1_000

    agent, _ = made(call("large"), say("Done."), tools=[large])
    [ended] = [piece for piece in await pieces_of(agent) if isinstance(piece, ToolEnded)]
    assert ended.value is None
    assert "cut off" in ended.text
    agent.close()


class Thinking(FakeModel):
    """Thinks before it speaks."""

    async def stream(self, messages: Any, tools: Any = (), options: Any = None) -> AsyncGenerator[Any]:
        yield Thought("Well.")
        async for piece in super().stream(messages, tools, options):
            yield piece


async def test_thoughts_are_told_to_whoever_asks_and_are_in_no_history() -> None:
    agent = Agent(silent_mode=True, model=Thinking(say("Yes."), say("Yes."), say("Yes.")))
    assert [type(piece) for piece in await pieces_of(agent, session_id="a")] == [Thought, str, Reply]
    asked = ChatRequest([{"role": "user", "content": "go"}])
    assert [type(piece) async for piece in agent.answer_chat(asked)] == [str, Reply]
    assert agent.run("go") == "Yes."
    assert "Well." not in str(agent.get_session_history("api:a"))
    agent.close()


async def test_served_conversations_are_apart_from_those_of_clients_and_end_when_they_are_told_to() -> None:
    agent, _ = made(say("One."), say("Two."), session_timeout=0)
    assert isinstance(agent, KeepsChats)
    assert not agent.keeps_chats
    await pieces_of(agent, session_id="a")
    await pieces_of(agent, session_id="a", is_own=True)
    agent.describe_chat("a", {"title": "Mine"})
    agent.cleanup_stale_sessions()
    [chat] = agent.list_chats()
    assert (chat["session_id"], chat["metadata"]) == ("a", {"title": "Mine"})
    assert [message["content"] for message in agent.get_chat("a") or ()] == ["go", "Two."]
    assert [item["session_id"] for item in agent.list_sessions()] == ["served:a"]
    agent.end_chat("a")
    assert agent.get_chat("a") is None
    agent.close()
