"""One turn: the model answers, its calls are run, it is told the results, until it has no more."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia.agents.base import Agent
from gaia.agents.chat.messages import answered
from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.errors import ModelError
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import Answer, FakeModel, call, calls, made, replied, say

CLIENT_TOOL: JSON = {"type": "function", "function": {"name": "theirs", "parameters": {"type": "object"}}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adding(*answers: Answer, **options: Any) -> tuple[Agent, FakeModel]:
    return made(*answers, **{"tools": [add], **options})


@pytest.mark.requirement("S2-15")
def test_a_question_that_needs_no_tool_is_answered_in_one_step() -> None:
    agent, model = adding(say("Hello there"))
    assert agent.run("hi") == "Hello there"
    assert [asked.last for asked in model.asked] == [{"role": "user", "content": "hi"}]


@pytest.mark.requirement("S2-15", "S4-26")
def test_a_tool_that_is_called_is_run_and_the_model_goes_on_with_its_result() -> None:
    agent, model = adding(call("add", a=2, b=3), say("It is 5"))
    assert agent.run("2 + 3?") == "It is 5"
    [_, asked] = model.asked
    assert asked.results() == [5]
    assert [message["role"] for message in asked.messages] == ["system", "user", "assistant", "tool"]
    assert asked.messages[2]["tool_calls"][0]["id"] == asked.messages[3]["tool_call_id"]


def test_several_steps_follow_one_another() -> None:
    agent, model = adding(call("add", a=1, b=1), call("add", a=2, b=2), call("add", a=4, b=4), say("8"))
    assert agent.run("double") == "8"
    assert [asked.results() for asked in model.asked] == [[], [2], [4], [8]]


def test_a_model_that_does_not_come_to_an_end_is_asked_to_conclude_without_tools() -> None:
    agent, model = adding(*[call("add", a=1, b=1)] * 2, say("Two, I think"), max_steps=2)
    assert agent.run("go") == "Two, I think"
    assert [len(asked.tools) for asked in model.asked] == [1, 1, 0]
    assert "used all the steps" in model.asked[-1].last["content"]
    assert [message["role"] for message in agent.get_session_history("default")[1:]] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]


def test_the_steps_of_one_turn_can_be_limited() -> None:
    agent, model = adding(call("add", a=1, b=1), say("enough"))
    assert agent.run("go", max_steps=1) == "enough"
    assert len(model.asked) == 2
    with pytest.raises(ValueError, match="max_steps is at least 1; got 0"):
        agent.run("go", max_steps=0)


@pytest.mark.anyio
async def test_a_model_that_wants_tools_to_the_last_still_leaves_a_finished_reply() -> None:
    agent, _ = adding(call("add", a=1, b=1), call("add", a=1, b=1), max_steps=1)
    reply, _ = await replied(agent)
    assert (reply.tool_calls, reply.finish_reason, reply.usage) == ((), "stop", Usage(20, 4))


def test_text_of_several_answers_is_streamed_in_paragraphs() -> None:
    answers = calls(("add", {"a": 1, "b": 2}), text="Let me see."), call("add", a=1, b=1), say("It is 3.")
    assert "".join(adding(*answers)[0].stream("1 + 2?")) == "Let me see.\n\nIt is 3."
    assert adding(*answers)[0].run("1 + 2?") == "It is 3."


@pytest.mark.anyio
async def test_an_order_to_call_a_tool_holds_for_one_answer_only() -> None:
    agent, model = adding(call("add", a=1, b=1), say("2"))
    await replied(agent, options={"tool_choice": "required", "temperature": 0})
    assert [asked.options for asked in model.asked] == [
        {"tool_choice": "required", "temperature": 0},
        {"temperature": 0},
    ]


@pytest.mark.anyio
async def test_leave_not_to_call_tools_holds_for_the_whole_turn() -> None:
    agent, model = adding(call("add", a=1, b=1), say("2"))
    await replied(agent, options={"tool_choice": "none"})
    assert [asked.options for asked in model.asked] == [{"tool_choice": "none"}] * 2


@pytest.mark.anyio
async def test_where_no_tools_are_offered_nothing_is_said_of_them() -> None:
    agent, model = adding(say("hi"), tools=[])
    await replied(agent, options={"tool_choice": "auto", "parallel_tool_calls": False, "seed": 1})
    assert model.asked[0].options == {"seed": 1}


@pytest.mark.anyio
async def test_a_clients_tool_ends_the_turn_after_the_agents_own_are_run() -> None:
    agent, model = adding(calls(("add", {"a": 1, "b": 2}), ("theirs", {"x": 1})), say("done"))
    reply, _ = await replied(agent, client_tools=[CLIENT_TOOL])
    [wanted] = reply.tool_calls
    assert (wanted.name, wanted.arguments, reply.finish_reason) == ("theirs", '{"x": 1}', "tool_calls")
    assert wanted.id != "call_1"  # the model's own ids are the same every time
    assert model.asked[0].tool_names == ["add", "theirs"]


@pytest.mark.anyio
async def test_a_clients_tool_that_has_the_name_of_an_own_one_is_offered_once_and_is_the_clients() -> None:
    agent, model = adding(call("add", a=1, b=2))
    own = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    reply, _ = await replied(agent, client_tools=[own])
    assert [wanted.name for wanted in reply.tool_calls] == ["add"]
    assert model.asked[0].tools == [own]


class Silent(FakeModel):
    """A model that ends its answer without a reply."""

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Say something, and no more."""
        yield "well"


def test_a_model_that_stops_without_a_reply_is_an_error() -> None:
    agent = Agent(silent_mode=True, model=Silent())
    with pytest.raises(ModelError, match=r"The model fake stopped without an answer\. Try again\."):
        agent.run("hi")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.anyio
async def test_why_the_model_stopped_is_passed_on(reason: str) -> None:
    agent, _ = adding(say("cut o", finish_reason=reason))
    reply, streamed = await replied(agent)
    assert (reply.finish_reason, reply.text, streamed) == (reason, "cut o", "cut o")


def test_the_same_ids_in_several_steps_confuse_nobody() -> None:
    same = ToolCall("call_0", "add", '{"a": 1, "b": 1}')
    other = ToolCall("call_0", "add", '{"a": 2, "b": 2}')
    agent, model = adding(Reply("", (same,)), Reply("", (other,)), say("ok"))
    agent.run("go")
    assert [message["content"] for message in model.asked[-1].messages if message["role"] == "tool"] == ["2", "4"]


TEXTS = st.text(st.characters(codec=None), max_size=8)
NAMES = st.sampled_from(["add", "Add", "tool_search_regex", "tool_search"]) | TEXTS
JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "pattern", "query", "limit", "self", ""]), inner, max_size=3)
    ),
    max_leaves=6,
).map(json.dumps)
CALLS = st.lists(st.tuples(NAMES, JSON_TEXTS | TEXTS), max_size=4)
ANSWERS = st.lists(st.tuples(TEXTS, CALLS), min_size=1, max_size=3)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(said=ANSWERS)
def test_whatever_a_model_says_the_turn_goes_on_and_what_it_is_told_can_be_sent(
    said: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    answers = [calls(*wanted, text=text) for text, wanted in said if wanted]
    model = FakeModel(*answers, say("done"), say("done"))
    agent = Agent(silent_mode=True, model=model, tools=[add], deferred_tools=True, ranked_search=True)
    assert agent.run("go", max_steps=len(answers) + 1) == "done"
    agent.close()
    for asked in model.asked:
        json.dumps(asked.messages, ensure_ascii=False, allow_nan=False).encode()
        assert answered(asked.messages) == asked.messages
