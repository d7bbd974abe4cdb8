"""What a request may say, and what is said of one that says something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers

from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.tool_request import Borrowing
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest, read_request, session_of

USER: JSON = {"role": "user", "content": "hi"}
CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLING: JSON = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: JSON = {"role": "tool", "tool_call_id": "c1", "content": "3"}
FUNCTION: JSON = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
PICTURE: JSON = {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG", "detail": "low"}}
TEXT: JSON = {"type": "text", "text": "look"}


def read(session_id: str | None = None, **fields: Any) -> CompletionRequest:
    body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    return read_request(body, session_id, ChatEndpointLimits())


def refusal(**fields: Any) -> ChatError:
    with pytest.raises(ChatError) as raised:
        read(**fields)
    assert raised.value.status == 400
    return raised.value


def test_a_plain_request_is_understood() -> None:
    assert read() == read(stream=None, tools=None, stream_options=None, temperature=None, n=1, metadata={"a": "b"})
    asked = read()
    assert (asked.model, asked.messages, asked.stream, asked.options) == ("m", [USER], False, {})


def test_what_is_for_the_model_goes_on_to_it_and_the_rest_does_not() -> None:
    options: JSON = {
        "temperature": 0.5,
        "top_p": 1,
        "max_tokens": 10,
        "max_completion_tokens": 11,
        "stop": ["a", "b"],
        "seed": -1,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "presence_penalty": -2,
        "frequency_penalty": 2.0,
        "logit_bias": {"50256": -100},
        "reasoning_effort": "low",
        "user": "ada",
    }
    assert read(**options, store=True, logprobs=False, unheard_of=[1]).options == options


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"seed": "one"}, "seed"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"user": 7}, "user"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"functions": []}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
    ],
)
def test_a_field_with_another_value_than_it_can_have_is_named(fields: JSON, param: str) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert param in error.message


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not readable as JSON"),
        (b"\xff", "not readable as JSON"),
        (b"", "not readable as JSON"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "not readable as JSON"),
        (b'{"logit_bias": {"1": NaN}}', "not readable as JSON"),
        (b'{"tools": [-Infinity]}', "not readable as JSON"),
    ],
)
def test_a_body_that_is_no_object_says_what_was_expected(body: bytes, problem: str) -> None:
    with pytest.raises(ChatError, match=problem) as raised:
        read_request(body, None, ChatEndpointLimits())
    assert (raised.value.status, raised.value.code) == (400, "invalid_json")


# Messages


def test_messages_are_brought_to_one_shape() -> None:
    messages: list[JSON] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [TEXT, {"type": "text", "text": "closely"}], "cache_control": {}},
        {"role": "user", "content": [TEXT, PICTURE], "name": "ada"},
        {**CALLING, "refusal": None, "audio": None},
        {**RESULT, "content": [{"type": "text", "text": "3"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        USER,
    ]
    assert read(messages=messages).messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "look\nclosely"},
        {"role": "user", "content": [TEXT, PICTURE], "name": "ada"},
        CALLING,
        RESULT,
        {"role": "assistant", "content": "no"},
        USER,
    ]


BAD_MESSAGES: list[tuple[Any, str]] = [
    (None, "messages"),
    ("hi", "messages"),
    ([], "messages"),
    ([USER, {"role": "assistant", "content": "hello"}], "messages"),
    ([{"role": "system", "content": "x"}], "messages"),
    (["hi"], "messages[0]"),
    ([{"content": "hi"}], "messages[0].role"),
    ([{"role": "function", "content": "hi"}], "messages[0].role"),
    ([{"role": ["user"], "content": "hi"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": 5}], "messages[0].content"),
    ([{"role": "user", "content": []}], "messages[0].content"),
    ([{"role": "user", "content": ["hi"]}], "messages[0].content[0]"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0].type"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].image_url"),
    (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}],
        "messages[0].content[0].image_url.url",
    ),
    ([{"role": "system", "content": [PICTURE]}, USER], "messages[0].content[0].type"),
    ([{"role": "user", "content": "hi", "name": 1}], "messages[0].name"),
    ([{"role": "assistant", "content": None}, USER], "messages[0].content"),
    ([{"role": "assistant", "tool_calls": [{"id": "c1"}]}, USER], "messages[0].tool_calls[0].function"),
    (
        [{"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}, USER],
        "messages[0].tool_calls[0].function.arguments",
    ),
    ([{"role": "tool", "content": "3"}], "messages[0].tool_call_id"),
    ([RESULT], "messages[0].tool_call_id"),
    ([CALLING, {**RESULT, "tool_call_id": "c2"}], "messages[1].tool_call_id"),
]


@pytest.mark.parametrize(("messages", "param"), BAD_MESSAGES)
def test_a_bad_message_is_named_by_its_place(messages: Any, param: str) -> None:
    assert refusal(messages=messages).param == param


def test_there_is_a_limit_to_messages_and_tools() -> None:
    limits = ChatEndpointLimits(messages=1, tools=1)
    for fields in ({"messages": [USER, USER]}, {"messages": [USER], "tools": [FUNCTION, FUNCTION]}):
        with pytest.raises(ChatError, match="2 items came; expected at most 1"):
            read_request(json.dumps({"model": "m", **fields}).encode(), None, limits)


def test_what_a_peer_sent_is_harmless_in_the_message() -> None:
    assert "\x1b" not in refusal(tool_choice="\x1b[2J" + "x" * 1000).message
    assert len(refusal(tool_choice="\x1b[2J" + "x" * 1000).message) < 300


# Sessions


def test_with_a_session_only_what_is_new_is_given_on() -> None:
    system: JSON = {"role": "system", "content": "Be brief."}
    answer: JSON = {"role": "assistant", "content": "hello"}
    assert read("s", messages=[system, USER]).messages == [system, USER]
    assert read("s", messages=[system, USER, answer, USER]).messages == [USER]
    assert read("s", messages=[system, USER, CALLING, RESULT]).messages == [RESULT]
    assert read("s", messages=[RESULT]).messages == [RESULT]
    assert read(messages=[system, USER, answer, USER]).messages == [system, USER, answer, USER]


@pytest.mark.parametrize("given", [["a b"], [""], ["x" * 129], ["é"], ["a", "b"], ["a/b"]])
def test_a_session_id_has_few_characters_and_is_alone(given: list[str]) -> None:
    headers = Headers(raw=[(b"x-session-id", value.encode("latin-1")) for value in given])
    with pytest.raises(ChatError, match="X-Session-Id: .* expected one id"):
        session_of(headers)


def test_a_session_id_is_read_whatever_the_case_of_the_header() -> None:
    assert session_of(Headers({"X-SESSION-ID": "me:1.2_3-4"})) == "me:1.2_3-4"
    assert session_of(Headers({})) is None


# Tools


def test_tools_are_the_clients_own_or_those_of_the_bridge() -> None:
    borrowed = {"type": "mcp", "server_label": "files"}
    tools = read(
        tools=[
            FUNCTION,
            borrowed,
            {**borrowed, "allowed_tools": ["read"], "require_approval": "never", "server_description": "x"},
            {**borrowed, "server_label": "*", "allowed_tools": {"tool_names": ["a", "b"]}},
        ]
    ).tools
    assert tools.client == (FUNCTION,)
    assert tools.borrowings == (
        Borrowing("tools[1]", "files", None),
        Borrowing("tools[2]", "files", frozenset({"read"})),
        Borrowing("tools[3]", "*", frozenset({"a", "b"})),
    )


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ("add", "tools[0]"),
        ({}, "tools[0].type"),
        ({"type": "web_search"}, "tools[0].type"),
        ({"type": "function"}, "tools[0].function"),
        ({"type": "function", "function": {"name": "a b"}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "x" * 65}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "x", "description": 1}}, "tools[0].function.description"),
        ({"type": "function", "function": {"name": "x", "parameters": []}}, "tools[0].function.parameters"),
        ({"type": "mcp"}, "tools[0].server_label"),
        ({"type": "mcp", "server_label": "x", "allowed_tools": "read"}, "tools[0].allowed_tools"),
        ({"type": "mcp", "server_label": "x", "allowed_tools": {}}, "tools[0].allowed_tools"),
        ({"type": "mcp", "server_label": "x", "allowed_tools": [1]}, "tools[0].allowed_tools[0]"),
        ({"type": "mcp", "server_label": "x", "require_approval": "always"}, "tools[0].require_approval"),
        ({"type": "mcp", "server_label": "x", "connector_id": "y"}, "tools[0].connector_id"),
        ({"type": "mcp", "server_label": "x", "authorization": "y"}, "tools[0].authorization"),
        ({"type": "mcp", "server_label": "x", "headers": {"a": "b"}}, "tools[0].headers"),
    ],
)
def test_a_bad_tool_is_named_by_its_place(tool: Any, param: str) -> None:
    assert refusal(tools=[tool]).param == param


@pytest.mark.parametrize("names", [{}, {"tool_names": ["write"]}])
def test_a_limit_on_tools_that_is_not_understood_is_refused_and_not_passed_over(names: JSON) -> None:
    error = refusal(tools=[{"type": "mcp", "server_label": "x", "allowed_tools": {**names, "read_only": True}}])
    assert (error.param, error.code) == ("tools[0].allowed_tools.read_only", "invalid_value")
    assert "tool_names" in error.message


@pytest.mark.requirement("S-22")
def test_an_address_in_a_request_is_refused_with_the_reason() -> None:
    error = refusal(tools=[{"type": "mcp", "server_label": "x", "server_url": "http://169.254.169.254/"}])
    assert (error.param, error.code) == ("tools[0].server_url", "unsupported_parameter")
    assert "connects to no address that a request names" in error.message


def test_two_functions_of_one_name_are_refused() -> None:
    assert refusal(tools=[FUNCTION, FUNCTION]).param == "tools[1].function.name"
