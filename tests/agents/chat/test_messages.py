"""Messages in OpenAI's shape: every call answered exactly once, and nothing in them that a server cannot be sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.agents.chat.messages import (
    answered,
    assistant_message,
    call_ids,
    decoded,
    sendable,
    split_instructions,
    tool_message,
    user_message,
)
from gaia_bridge.chat_types import Reply, ToolCall
from gaia_bridge.text.json_types import JSON


def asking(*ids: str) -> JSON:
    return assistant_message(Reply(""), [ToolCall(name, "t", "{}") for name in ids])


def answer(name: str, content: str = "done") -> JSON:
    return {"role": "tool", "tool_call_id": name, "content": content}


names = st.sampled_from("abc")
conversations = st.lists(
    st.builds(user_message, st.just("hello"))
    | st.builds(answer, names)
    | st.lists(names, unique=True).map(lambda ids: asking(*ids)),
    max_size=12,
)


@given(messages=conversations)
def test_every_call_is_answered_exactly_once_and_the_order_is_kept(messages: list[JSON]) -> None:
    found = answered(messages)
    waiting: list[str] = []
    for message in found:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])  # raises for an answer to nothing
        else:
            assert waiting == []
            waiting = list(call_ids(message))
    assert waiting == []
    kept = [message for message in found if message.get("content") != "(not run)"]
    rest = iter(messages)
    assert all(any(message is other for other in rest) for message in kept)
    assert [item for item in kept if item["role"] != "tool"] == [item for item in messages if item["role"] != "tool"]


def test_what_a_client_did_not_run_is_said_to_be_not_run() -> None:
    assert answered([asking("a", "b"), answer("b"), user_message("go on")]) == [
        asking("a", "b"),
        answer("b"),
        answer("a", "(not run)"),
        user_message("go on"),
    ]


def test_a_second_answer_and_one_that_comes_too_late_are_left_out() -> None:
    messages = [asking("a"), answer("a"), answer("a", "again"), user_message("go on"), answer("a", "late")]
    assert answered(messages) == [asking("a"), answer("a"), user_message("go on")]


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', "NaN", '{"a": NaN}', "[" * 100_000, "9" * 5_000, ""])
def test_arguments_that_are_no_json_object_are_not_quoted_to_servers_that_would_parse_them(arguments: str) -> None:
    message = assistant_message(Reply(""), [ToolCall("a", "t", arguments)])
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("text", ['{"a": NaN}', "Infinity", "[-Infinity]"])
def test_numbers_that_json_does_not_have_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no JSON value"):
        decoded(text)


@pytest.mark.parametrize("text", ["1e999", '{"a": -1e400}', "[" + "9" * 400 + ".0]"])
def test_numbers_that_nobody_could_be_told_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"the number .* is too large"):
        decoded(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9.223372036908546e+18", 9223372036908546048),
        ("-1e30", int(-1e30)),
        ("1e18", 1e18),
        ("1.5", 1.5),
        ("2.0", 2.0),
        ("7", 7),
    ],
)
def test_a_whole_number_beyond_64_bits_is_one_however_it_is_written(text: str, number: float) -> None:
    read = decoded(text)
    assert (read, type(read)) == (number, type(number))


def test_half_characters_are_replaced_before_they_poison_a_history() -> None:
    half = "\ud83d"
    call = ToolCall(half, half, json.dumps({"a": half}))
    messages: list[Any] = [
        user_message(half),
        assistant_message(Reply(half), [call]),
        tool_message(call, "done"),
        sendable({"role": "user", half: [{"text": half, "n": 1, "x": None}]}),
    ]
    json.dumps(messages, ensure_ascii=False).encode()  # as a server is sent it
    assert messages[-1] == {"role": "user", "?": [{"text": "?", "n": 1, "x": None}]}


@pytest.mark.parametrize("calls", [None, "x", [None], [{"id": 5}], [{}]])
def test_calls_without_an_id_count_for_nothing(calls: Any) -> None:
    assert call_ids({"role": "assistant", "tool_calls": calls}) == ()


def test_instructions_are_taken_out_of_the_conversation() -> None:
    parts = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    messages: list[JSON] = [
        {"role": "system", "content": "You help."},
        user_message("hi"),
        {"role": "developer", "content": parts},
        {"role": "system", "content": None},
    ]
    assert split_instructions(messages) == (["You help.", "Be brief.\nBe kind."], [user_message("hi")])


def test_a_message_that_can_be_sent_is_not_copied_and_one_that_never_can_is_refused() -> None:
    message = user_message("hello")
    assert sendable(message) is message
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    for content in (deep, {1, 2}):
        with pytest.raises(ValueError, match="a message of the conversation cannot be sent: "):
            sendable({"role": "user", "content": content})
