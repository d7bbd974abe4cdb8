"""Methods that files written for AMD GAIA call on an agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gaia.agents.base import Agent, tool
from tests.support.fake_model import FakeModel, say


class Listener:
    """A console that remembers what it was told."""

    def __init__(self, answer: bool = True) -> None:
        self.lines: list[str] = []
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        def tell(*words: object) -> None:
            self.lines.append(" ".join(map(str, words)))

        return tell

    def confirm_tool_execution(self, tool_name: str, arguments: Any, timeout: float = 0) -> bool:
        return self._answer


class Kitchen(Agent):
    def __init__(self, answer: bool = True, **options: Any) -> None:
        self._listener = Listener(answer)
        super().__init__(**options)

    def _create_console(self) -> Any:
        return self._listener

    def _register_tools(self) -> None:
        @tool
        def bake(what: str, minutes: int = 30) -> str:
            """Bake something."""
            return f"{what}, {minutes} minutes"

        @tool
        async def wait(seconds: float) -> str:
            """Wait for it."""
            await asyncio.sleep(seconds)
            return "done"

        @tool
        def burn() -> str:
            """Fail."""
            raise RuntimeError("it burns")

        @tool(annotations={"destructiveHint": True})
        def smash(what: str) -> str:
            """Smash something."""
            return f"{what} is gone"


@pytest.mark.requirement("F-291")
def test_a_query_is_asked_as_in_gaia_and_its_answer_is_text_and_mapping() -> None:
    agent = Kitchen(model=FakeModel(say("bread"), say("cake"), say("tea")))
    answer = agent.process_query(user_input="What is there?", max_steps=3, trace=True, filename="trace.json")
    assert (answer, answer["result"], answer["status"]) == ("bread", "bread", "success")
    assert (answer.get("result"), answer.get("steps", 7), answer[0], answer[1:]) == ("bread", 7, "b", "read")
    assert agent.process_query("And?") == "cake"
    with pytest.raises(KeyError):
        agent.process_query("And?")["nothing"]


@pytest.mark.requirement("F-291")
def test_a_tool_is_executed_and_what_fails_is_a_dictionary() -> None:
    agent = Kitchen()
    assert agent.execute_tool("bake", {"what": "bread"}) == "bread, 30 minutes"
    assert agent.execute_tool("wait", {"seconds": 0}) == "done"
    assert agent.execute_tool("bkae") == {"status": "error", "error": "there is no tool 'bkae'; did you mean 'bake'?"}
    assert agent.execute_tool("burn") == {"status": "error", "error": "burn failed: it burns"}
    missing = agent.execute_tool("bake", {})
    assert missing["status"] == "error"
    assert "what" in missing["error"]


def test_a_coroutine_that_takes_too_long_is_given_up() -> None:
    from gaia.agents.chat.limits import ChatLimits

    agent = Kitchen(chat_limits=ChatLimits(tool_timeout=0.01))
    assert agent.execute_tool("wait", {"seconds": 60})["status"] == "error"


@pytest.mark.parametrize(("answer", "result"), [(True, "cup is gone"), (False, None)])
def test_what_may_destroy_something_is_confirmed_first(answer: bool, result: str | None) -> None:
    found = Kitchen(answer).execute_tool("smash", {"what": "cup"})
    assert found == (result or {"status": "error", "error": "smash was not confirmed, and is not run"})


def test_a_tool_of_a_server_is_found_by_its_own_name() -> None:
    agent = Kitchen()
    entry = agent.tool_registry.snapshot()["bake"]
    agent.tool_registry.register({**entry, "name": "mcp_time_now", "function": lambda: "noon"})
    assert agent.execute_tool("now") == "noon"


def test_tools_are_listed_on_the_console() -> None:
    agent = Kitchen()
    agent.list_tools()
    shown = "\n".join(agent._listener.lines)  # pyright: ignore[reportPrivateUsage]
    assert "4 tools of Kitchen" in shown
    assert "Bake something." in shown
    assert "what" in shown
    agent._listener.lines.clear()  # pyright: ignore[reportPrivateUsage]
    agent.list_tools(verbose=False)
    assert "  bake" in agent._listener.lines  # pyright: ignore[reportPrivateUsage]
    assert "Bake something." not in "\n".join(agent._listener.lines)  # pyright: ignore[reportPrivateUsage]


def test_tokens_are_estimated() -> None:
    assert Agent().estimate_tokens("four" * 10) == 10
